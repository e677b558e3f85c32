"""Measurements of candidates, and the choice of the fastest."""

from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest
from systems import dissimilar, make_system

from bench.made import chain, random_binary_tree, star
from clhines import Forest
from clhines.core.errors import BuildError, DeviceMemoryError, InputError
from clhines.solver import tune
from clhines.solver.device import devices, timing
from clhines.solver.plan.auto import CANDIDATES, Candidate
from clhines.solver.plan.methods import candidate_plans
from clhines.solver.solver import Solver
from clhines.solver.tune import Pick

FOREST = Forest.from_parents([chain(5), star(4), chain(5)])
QUEUE = SimpleNamespace(
    device=SimpleNamespace(type=cl.device_type.CPU, platform=SimpleNamespace(name="Some Platform"))
)


@pytest.fixture
def clock(monkeypatch):
    """Let `median_seconds` return the seconds that each launch returns."""
    log = []

    def median_seconds(queue, launch, repeats, warmup):
        log.append(launch)
        return launch(0)

    monkeypatch.setattr(timing, "median_seconds", median_seconds)
    return log


def test_candidates_take_turns_and_hopeless_ones_stop(clock):
    ways = [lambda _: 1.0, lambda _: 1.2, lambda _: 2.6]
    times = timing.seconds_in_turns(QUEUE, [lambda w=w: w for w in ways], budget=10, progress=False)
    assert times == [1.0, 1.2, 2.6]
    turns = [clock[k : k + 3] for k in range(0, 12, 3)] + [
        clock[k : k + 2] for k in range(12, 24, 2)
    ]
    assert all(set(turn) == set(ways) for turn in turns[:4])
    assert all(set(turn) == set(ways[:2]) for turn in turns[4:])
    assert len(clock) == 4 * 3 + 6 * 2  # ten rounds of the fastest use up the budget


def measured(seconds, refuse=()):
    rows = [(Candidate("flat", {"work_group": k + 1}), k) for k in range(len(seconds))]

    def prepare(k):
        if k in refuse:
            raise DeviceMemoryError(f"no room for {k}")
        return lambda _: seconds[k]

    return [c for c, _ in rows], tune.measure(QUEUE, rows, prepare)


def test_measure_takes_the_fastest(clock):
    rows, tuning = measured([2.0, 3.0, 1.0])
    assert tuning.heuristic == rows[0]
    assert tuning.best == rows[2]
    assert tuning.rows == tuple(zip(rows, [2.0, 3.0, 1.0], strict=True))


@pytest.mark.parametrize(("first", "best"), [(1.009, 0), (1.011, 1)])
def test_the_heuristics_choice_wins_ties(clock, first, best):
    rows, tuning = measured([first, 1.0])
    assert tuning.best == rows[best]


def test_candidates_without_room_are_passed_over(clock):
    rows, tuning = measured([1.0, 2.0, 3.0], refuse=(0,))
    assert [c for c, _ in tuning.rows] == rows[1:]
    assert (tuning.heuristic, tuning.best) == (rows[0], rows[1])
    with pytest.raises(DeviceMemoryError, match="no room for 0"):
        measured([1.0, 2.0], refuse=(0, 1))


def test_random_systems_are_dominant_and_never_zero():
    forest = Forest.from_parents([star(9), chain(7)])
    d, u, b = tune.random_system(forest, "float32", 3)
    assert d.dtype == u.dtype == b.dtype == np.float32
    inner = np.flatnonzero(forest.parent >= 0)
    row = np.bincount(forest.parent[inner], -u[inner], 16)
    row[inner] -= u[inner]
    assert (d - row > 0.49).all() and (d - row < 1.51).all()
    assert (u < 0).all() and (b != 0).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_measured_solver_is_right_and_its_winner_is_used(typed_queue, dtype):
    forest = Forest.repeat([random_binary_tree(60, 9, k) for k in range(3)], 40)
    system = make_system(forest, dtype)
    solver = Solver(forest, dtype=dtype, queue=typed_queue, tune="measure")
    candidates = [c for c, _ in candidate_plans(forest, dtype, devices.limits(solver.device))]
    assert [c for c, _ in solver.tuning.rows] == candidates
    assert solver.tuning.best in candidates
    assert all(0 < seconds < 10 for _, seconds in solver.tuning.rows)
    system.assert_solved(solver.solve(**system.arrays))
    best = solver.tuning.best
    again = Solver(forest, best.method, dtype, queue=typed_queue, **best.options)
    assert again.tuning is None
    assert again.plan.method == solver.plan.method == best.method
    assert again.plan.parts[0].spec == solver.plan.parts[0].spec
    assert np.array_equal(again.solve(**system.arrays), solver.solve(**system.arrays))


@pytest.mark.parametrize("candidate", [c for rows in CANDIDATES.values() for c in rows], ids=str)
def test_every_candidate_solves(fast_queue, candidate):
    forest = Forest.from_parents([chain(150), star(40), *dissimilar(9), *dissimilar(9)])
    solver = Solver(forest, candidate.method, "float32", queue=fast_queue, **candidate.options)
    system = make_system(forest, "float32")
    system.assert_solved(solver.solve(**system.arrays))


def test_all_parts_of_a_plan_are_timed(fast_queue, monkeypatch):
    monkeypatch.setattr(tune.copies, "shares_memory", lambda device: False)  # timed by events
    forest = Forest.from_parents([star(5), chain(200_000), star(5)])  # too large for local memory
    solver = Solver(forest, "contraction", "float32", queue=fast_queue, segment=6)
    assert len(solver.plan.parts) == 3  # reduce the chain, solve it, expand it with the stars
    systems = [tune.random_system(forest, "float32", 1)]
    real, queue = np.dtype(np.float32), fast_queue
    pick = Pick(forest, "contraction", real, queue, "heuristic", {"segment": 6})
    events = pick.ready_to_time(solver.plan, systems)(0)
    d, u, b = (solver.to_device_order(a) for a in systems[0])
    last = solver.enqueue(d, u, b, out=solver.to_device_order(np.zeros(forest.num_nodes)))
    assert solver.kernel_events[-1] == last
    fast_queue.finish()
    for result in (events, solver.kernel_events):
        assert len(result) == 3
        assert result[0].profile.start <= result[2].profile.end


def test_a_heuristic_choice_that_does_not_build_is_replaced(fast_queue, monkeypatch):
    first = Solver(FOREST, dtype="float32", queue=fast_queue).plan
    real = Pick.ready_to_time

    def ready_to_time(self, plan, systems):
        if plan.parts[0].spec == first.parts[0].spec:
            raise BuildError("no")
        return real(self, plan, systems)

    monkeypatch.setattr(Pick, "ready_to_time", ready_to_time)
    solver = Solver(FOREST, dtype="float32", queue=fast_queue, tune="measure")
    assert solver.tuning.heuristic not in [c for c, _ in solver.tuning.rows]
    assert solver.plan.parts[0].spec != first.parts[0].spec
    system = make_system(FOREST, "float32")
    system.assert_solved(solver.solve(**system.arrays))


@pytest.mark.core
def test_ways_to_tune_are_checked(fast_queue):
    with pytest.raises(InputError, match="tune='fast'; expected heuristic, measure"):
        Solver(FOREST, queue=fast_queue, tune="fast")
    with pytest.raises(InputError, match="tune='measure' is for method 'auto'; got method 'flat'"):
        Solver(FOREST, "flat", queue=fast_queue, tune="measure")
