"""How `auto` chooses: the cost model, measuring, and the store of winners."""

import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest
from systems import dissimilar, families, make_system

from clhines import METHODS, Forest, make_plan
from clhines.cells.shapes import caterpillar, chain, random_binary_tree, star
from clhines.device import devices, program, timing
from clhines.errors import BuildError, DeviceMemoryError, InputError, StoreWarning
from clhines.plan import auto
from clhines.plan.auto import CANDIDATES, Candidate
from clhines.plan.methods import candidate_plans
from clhines.plan.plan import Limits
from clhines.simulate.passive import PassiveCells
from clhines.solve import store, tune
from clhines.solve.pick import Pick
from clhines.solve.solver import Solver

CPU = Limits(compute_units=2, is_cpu=True, vector_bytes=32)
GPU = Limits(compute_units=132, max_work_group=1024)
DEVICE = SimpleNamespace(
    name=" Some Device ",
    platform=SimpleNamespace(name="Some Platform"),
    driver_version="1.2",
    max_compute_units=3,
)
FOREST = Forest.from_cells([chain(5), star(4), chain(5)])
QUEUE = SimpleNamespace(
    device=SimpleNamespace(type=cl.device_type.CPU, platform=SimpleNamespace(name="Some Platform"))
)
KEY = {"device": "Some Device", "forest": "abc", "options": {}}
TUNING = tune.Tuning(
    ((Candidate("flat"), 2.0), (Candidate("fine", {"max_cells": 3}), 1.0)),
    Candidate("flat"),
    Candidate("fine", {"max_cells": 3}),
)


def forests():
    cells = [random_binary_tree(300, 30, k) for k in range(4)]
    return [
        Forest.from_cells([chain(1)]),
        FOREST,
        Forest.repeated(cells, 400),
        Forest.repeated([chain(2000)], 3),
        Forest.repeated([star(3000), caterpillar(50)], 20),
        Forest.from_cells(dissimilar(60)),
    ]


# ------------------------------------------------------------------------------------ candidates


def test_candidates_are_rows_with_their_own_options():
    for row in (c for rows in CANDIDATES.values() for c in rows):
        assert set(row.options) <= set(METHODS[row.method].options)
    for rows in CANDIDATES.values():
        assert len({str(c) for c in rows}) == len(rows)


def test_no_gpu_shaped_row_on_a_cpu():
    assert not {c.method for c in CANDIDATES["cpu"]} & {"contraction", "interleaved"}
    for forest in forests():
        for dtype in ("float64", "float32"):
            found = [c.method for c, _ in auto.ranked(forest, dtype, CPU)]
            assert not set(found) & {"contraction", "interleaved"}
            assert make_plan(forest, dtype=dtype, limits=CPU).method == found[0]


def test_contraction_is_the_choice_of_a_gpu_without_fitted_costs(monkeypatch):
    monkeypatch.setattr(auto, "costs", dict)
    assert [c for c, _ in auto.ranked(FOREST, "float64", GPU)] == list(CANDIDATES["gpu"])
    assert make_plan(FOREST, limits=GPU).method == "contraction"


@pytest.mark.parametrize("limits", [CPU, GPU], ids=["cpu", "gpu"])
def test_every_candidate_is_planned_or_passed_over(limits):
    for forest in forests():
        plans = list(candidate_plans(forest, "float64", limits))
        assert plans
        for candidate, plan in plans:
            assert candidate.method == plan.method
            nodes = plan.gather[plan.gather >= 0]
            assert np.array_equal(np.sort(nodes), np.arange(forest.num_nodes))


def test_refused_candidates_are_passed_over(monkeypatch):
    rows = (Candidate("fine", {"work_group": 10**6}), Candidate("flat"))
    monkeypatch.setitem(CANDIDATES, "cpu", rows)
    assert [c for c, _ in candidate_plans(FOREST, "float64", CPU)] == [rows[1]]
    monkeypatch.setitem(CANDIDATES, "cpu", rows[:1])
    with pytest.raises(InputError, match="work_group=1000000 is above the device's limit"):
        make_plan(FOREST, limits=CPU)


def test_asked_for_options_override_those_of_candidates():
    plan = make_plan(FOREST, limits=CPU, vector_width=2)
    assert plan.method in ("fine", "block_interleaved")
    assert plan.parts[0].spec.vector_width == 2
    found = list(candidate_plans(FOREST, "float64", CPU, vector_width=2))
    assert {str(c) for c, _ in found} == {
        "fine vector_width=2",
        "block_interleaved vector_width=2",
    }
    with pytest.raises(InputError, match="option 'colour' is not one of what auto .* max_cells"):
        make_plan(FOREST, colour=3)


# ------------------------------------------------------------------------------------- the model


def branch_steps(parent):
    """Longest branch of each level, added; from the definition of a branch, node by node."""
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    level, length, longest = {}, {}, {}
    for i, p in enumerate(parent):  # parents come first
        same = p >= 0 and children[p] == 1
        level[i] = 0 if p < 0 else level[p] + (not same)
        length[i] = length[p] + 1 if same else 1
        longest[level[i]] = max(longest.get(level[i], 0), length[i])
    return sum(longest.values())


def test_statistics_against_counting():
    cells = [random_binary_tree(n, k, n) for n, k in ((1, 1), (40, 7), (97, 20), (64, 1))]
    cells += [chain(9), star(12), caterpillar(11), cells[1], cells[1]]
    known = auto.statistics(Forest.from_cells(cells))
    steps = [branch_steps(c) for c in cells]
    assert (known.cells, known.nodes, known.shapes) == (9, sum(map(len, cells)), 7)
    assert known.shape_nodes == sum(map(len, cells[:7]))
    assert (known.largest, known.deepest, known.steps) == (97, max(steps), sum(steps))
    once = known.shape_nodes - 40
    assert known.padded == tuple(w * once + -(-3 // w) * w * 40 for w in (1, 2, 4, 8, 16))


def test_statistics_of_all_families():
    for cells in families().values():
        cells = [c for c in cells if (np.arange(len(c)) > c).all()]
        if cells:
            assert auto.statistics(Forest.from_cells(cells)).deepest == max(
                branch_steps(c) for c in cells
            )


def test_ranking_is_by_the_sum_of_costs(monkeypatch):
    costs = {"flat": {"launch": 1.0, "bytes": 1e-3}, "fine": {"launch": 2.0}}
    monkeypatch.setattr(auto, "costs", lambda: {"cpu float64": costs})
    small, large = Forest.from_cells([chain(100)]), Forest.from_cells([chain(200)])
    assert auto.ranked(small, "float64", CPU)[:2] == [
        (Candidate("flat"), pytest.approx(1.8)),
        (Candidate("fine"), 2.0),
    ]
    assert auto.ranked(large, "float64", CPU)[0] == (Candidate("fine"), 2.0)
    assert all(np.isinf(s) for _, s in auto.ranked(large, "float32", CPU))


def test_fitted_costs_name_terms_and_are_not_negative():
    known = auto.terms(auto.statistics(FOREST), CPU, "float64", {})
    for key, table in auto.costs().items():
        assert re.fullmatch("(cpu|gpu) float(32|64)", key)
        for terms in table.values():
            assert set(terms) <= set(known)
            assert terms and all(c > 0 for c in terms.values())


def test_ranking_takes_far_less_than_a_millisecond():
    forest = Forest.repeated([random_binary_tree(200, 20, k) for k in range(8)], 2000)
    auto.ranked(forest, "float64", CPU)  # statistics are found once
    taken = []
    for _ in range(20):
        begin = time.perf_counter()
        auto.ranked(forest, "float64", CPU)
        taken.append(time.perf_counter() - begin)
    assert min(taken) < 1e-3


@pytest.fixture
def bench(monkeypatch):
    """The module of bench/bench_tune.py."""
    folder = Path(__file__).parents[2] / "bench"
    if not folder.is_dir():
        pytest.skip("the benchmarks are not beside the tests")
    monkeypatch.syspath_prepend(str(folder))
    import bench_tune

    return bench_tune


def planted_rows(costs):
    """Cases whose times are exactly what the costs give."""
    rows = []
    trees = [chain(50), chain(900), random_binary_tree(300, 40, 1), star(80)]
    for tree in trees:
        for count in (1, 5, 40, 300):
            known = auto.statistics(Forest.repeated([tree], count))
            seconds = {}
            for c in CANDIDATES["cpu"]:
                values = auto.terms(known, CPU, "float64", c.options)
                if str(c) in costs:
                    seconds[str(c)] = sum(k * values[name] for name, k in costs[str(c)].items())
            statistics = json.loads(json.dumps(vars(known)))
            rows.append({"shape": str(len(tree)), "dtype": "float64", "statistics": statistics,
                         "seconds": seconds})  # fmt: skip
    return rows


def test_a_fit_finds_planted_costs(bench, monkeypatch, tmp_path, capsys):
    costs = {
        "flat": {"launch": 3e-5, "nodes": 4e-9},
        "fine": {"launch": 1e-5, "steps": 2e-8},
        "block_interleaved": {"launch": 4e-5, "vectors": 9e-9},
    }
    rows = planted_rows(costs)
    result = {
        "record": {"device": "d", "driver": "1"},
        "limits": {**vars(CPU)},
        "rows": rows,
    }
    (tmp_path / "tune.json").write_text(json.dumps(result))
    table = tmp_path / "costs.json"
    kept = {"fitted_to": {"gpu float64": "g"}, "costs": {"gpu float64": {"fine": {"launch": 1.0}}}}
    table.write_text(json.dumps(kept))
    monkeypatch.setattr(bench, "COSTS", table)
    bench.fit([str(tmp_path / "tune.json")])
    assert "worst 1.0" in capsys.readouterr().out.splitlines()[1]
    found = json.loads(table.read_text())
    assert found["costs"]["gpu float64"] == kept["costs"]["gpu float64"]
    assert set(found["costs"]["cpu float64"]) == set(costs)
    monkeypatch.setattr(auto, "costs", lambda: found["costs"])
    for row in rows:
        known = bench.statistics_of(row)
        for c in CANDIDATES["cpu"]:
            if str(c) in costs:
                expected = pytest.approx(row["seconds"][str(c)], rel=0.05)
                assert auto.predict(c, known, CPU, "float64") == expected


def test_least_squares_are_not_negative(bench):
    rng = np.random.default_rng(4)
    A = rng.random((30, 5))
    for truth in ([1.0, 0, 2, 0, 3], [0, 0, 0, 5.0, 0]):
        assert bench.non_negative(A, A @ truth) == pytest.approx(truth, abs=2e-2)
    found = bench.non_negative(A, A @ [1.0, -1, 1, 1, 1])
    assert (found >= 0).all() and found[1] == 0


# ------------------------------------------------------------------------------------- measuring


@pytest.fixture
def clock(monkeypatch):
    """Make `median_seconds` take from each launch what it says."""
    log = []

    def median_seconds(queue, launch, repeats, warmup):
        log.append(launch)
        return launch(0)

    monkeypatch.setattr(timing, "median_seconds", median_seconds)
    return log


def test_candidates_take_turns_and_hopeless_ones_stop(clock):
    ways = [lambda _: 1.0, lambda _: 1.2, lambda _: 2.6]
    found = timing.seconds_in_turns(QUEUE, [lambda w=w: w for w in ways], budget=10, progress=False)
    assert found == [1.0, 1.2, 2.6]
    turns = [clock[k : k + 3] for k in range(0, 12, 3)] + [
        clock[k : k + 2] for k in range(12, 24, 2)
    ]
    assert all(set(turn) == set(ways) for turn in turns[:4])
    assert all(set(turn) == set(ways[:2]) for turn in turns[4:])
    assert len(clock) == 4 * 3 + 6 * 2  # ten turns of the fastest fill the budget


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
    forest = Forest.from_cells([star(9), chain(7)])
    d, u, b = tune.random_system(forest, "float32", 3)
    assert d.dtype == u.dtype == b.dtype == np.float32
    inner = np.flatnonzero(forest.parent >= 0)
    row = np.bincount(forest.parent[inner], -u[inner], 16)
    row[inner] -= u[inner]
    assert (d - row > 0.49).all() and (d - row < 1.51).all()
    assert (u < 0).all() and (b != 0).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_measured_solver_is_right_and_its_winner_is_used(fast_queue, needs, dtype):
    needs(fast_queue, dtype)
    forest = Forest.repeated([random_binary_tree(60, 9, k) for k in range(3)], 40)
    system = make_system(forest, dtype)
    solver = Solver(forest, dtype=dtype, queue=fast_queue, tune="measure")
    candidates = [c for c, _ in candidate_plans(forest, dtype, devices.limits(solver.device))]
    assert [c for c, _ in solver.tuning.rows] == candidates
    assert solver.tuning.best in candidates
    assert all(0 < seconds < 10 for _, seconds in solver.tuning.rows)
    system.assert_solved(solver.solve(**system.arrays))
    (entry,) = store.stored()
    assert Candidate(entry["method"], entry["options"]) == solver.tuning.best
    again = Solver(forest, dtype=dtype, queue=fast_queue, tune="cached")
    assert again.tuning is None
    assert again.plan.method == solver.plan.method == solver.tuning.best.method
    assert again.plan.parts[0].spec == solver.plan.parts[0].spec
    assert np.array_equal(again.solve(**system.arrays), solver.solve(**system.arrays))


@pytest.mark.parametrize("candidate", [c for rows in CANDIDATES.values() for c in rows], ids=str)
def test_every_candidate_solves(fast_queue, candidate):
    """On devices of the other kind too."""
    forest = Forest.from_cells([chain(150), star(40), *dissimilar(9), *dissimilar(9)])
    solver = Solver(forest, candidate.method, "float32", queue=fast_queue, **candidate.options)
    system = make_system(forest, "float32")
    system.assert_solved(solver.solve(**system.arrays))


def test_all_parts_of_a_plan_are_timed(fast_queue):
    forest = Forest.from_cells([star(5), chain(200_000), star(5)])  # no local memory holds it
    solver = Solver(forest, "contraction", "float32", queue=fast_queue, segment=6)
    assert len(solver.plan.parts) == 3  # pieces of the chain, their rest, and back with the stars
    systems = [tune.random_system(forest, "float32", 1)]
    real, queue = np.dtype(np.float32), fast_queue
    pick = Pick(forest, "contraction", real, queue, 1 << 30, "heuristic", {"segment": 6})
    events = pick.ready_to_time(solver.plan, systems)(0)
    d, u, b = (solver.pack(a) for a in systems[0])
    last = solver.enqueue(d, u, b, out=solver.pack(np.zeros(forest.num_nodes)))
    assert solver.kernel_events[-1] == last
    fast_queue.finish()
    for found in (events, solver.kernel_events):
        assert len(found) == 3
        assert found[0].profile.start <= found[2].profile.end


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


def test_cached_takes_what_is_stored_for_this_forest_only(fast_queue):
    other = Forest.from_cells([chain(5), star(4)])
    plain = Solver(FOREST, dtype="float32", queue=fast_queue)
    slowest = Candidate("fine", {"work_group": 4})
    assert plain.plan.parts[0].spec.work_group != 4
    key = store.store_key(plain.device, FOREST, "float32", {})
    store.save(key, tune.Tuning(((slowest, 1.0),), slowest, slowest))
    for forest, mode, expected in (
        (FOREST, "cached", "fine"),
        (FOREST, "heuristic", plain.plan.method),
        (other, "cached", make_plan(other, "auto", "float32", devices.limits(plain.device)).method),
    ):
        solver = Solver(forest, dtype="float32", queue=fast_queue, tune=mode)
        assert solver.plan.method == expected
        system = make_system(forest, "float32")
        system.assert_solved(solver.solve(**system.arrays))
    solver = Solver(FOREST, dtype="float32", queue=fast_queue, tune="cached")
    assert solver.plan.parts[0].spec.work_group == 4


def test_a_stored_winner_that_the_device_refuses_is_ignored(fast_queue):
    plain = Solver(FOREST, dtype="float32", queue=fast_queue)
    row = Candidate("fine", {"work_group": 10**7})
    key = store.store_key(plain.device, FOREST, "float32", {})
    store.save(key, tune.Tuning(((row, 1.0),), row, row))
    assert store.load(key) == row
    solver = Solver(FOREST, dtype="float32", queue=fast_queue, tune="cached")
    assert solver.plan.parts[0].spec == plain.plan.parts[0].spec


def test_a_stored_winner_that_does_not_build_is_ignored(fast_queue, monkeypatch):
    plain = Solver(FOREST, dtype="float32", queue=fast_queue)
    row = Candidate("fine", {"work_group": 4})
    key = store.store_key(plain.device, FOREST, "float32", {})
    store.save(key, tune.Tuning(((row, 1.0),), row, row))
    real = program.build

    def build(context, spec, source=None):
        if getattr(spec, "work_group", 0) == 4:
            raise BuildError("no")
        return real(context, spec, source)

    monkeypatch.setattr(program, "build", build)
    solver = Solver(FOREST, dtype="float32", queue=fast_queue, tune="cached")
    assert solver.plan.parts[0].spec == plain.plan.parts[0].spec
    with pytest.raises(BuildError):
        Solver(FOREST, "fine", "float32", queue=fast_queue, work_group=4)


def test_measuring_a_batch_that_is_solved_in_slices(fast_queue):
    forest = Forest.repeated([random_binary_tree(50, 7, k) for k in range(2)], 60)
    solver = Solver(forest, dtype="float32", queue=fast_queue, tune="measure", max_memory=80_000)
    assert solver.num_slices > 1
    assert len(list(store.stored())) == 1
    system = make_system(forest, "float32")
    system.assert_solved(solver.solve(**system.arrays))


def test_ways_to_tune_are_checked(fast_queue):
    with pytest.raises(InputError, match="tune='fast' is not valid; expected heuristic, measure"):
        Solver(FOREST, queue=fast_queue, tune="fast")
    with pytest.raises(InputError, match="tune='cached' is for method 'auto'; got method 'flat'"):
        Solver(FOREST, "flat", queue=fast_queue, tune="cached")


def test_an_unwritable_folder_is_a_warning(fast_queue, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(StoreWarning, match="the winner was not stored: .*file") as caught:
        solver = Solver(FOREST, dtype="float32", queue=fast_queue, tune="measure")
    assert "\n" not in str(caught[0].message)
    assert caught[0].filename == __file__
    assert solver.tuning.best.method == solver.plan.method
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Solver(FOREST, dtype="float32", queue=fast_queue, tune="cached")


def test_passive_cells_pass_it_on(fast_queue):
    from clhines.cells.cable import discretise
    from clhines.cells.synthetic import sample_cells

    cables = [discretise(sample_cells()[0])]
    cells = PassiveCells(cables, 2, queue=fast_queue, dtype="float32", tune="measure")
    assert cells.solver.tuning is not None


# ------------------------------------------------------------------------------------- the store


def test_round_trip():
    assert store.load(KEY) is None
    path = store.save(KEY, TUNING)
    assert path.parent == Path(os.environ["CLHINES_CACHE_DIR"])
    assert store.load(KEY) == TUNING.best
    other = Candidate("flat")
    store.save(KEY, tune.Tuning(TUNING.rows, other, other))
    assert store.load(KEY) == other
    assert store.load({**KEY, "forest": "abd"}) is None
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_key_depends_on_everything_that_a_winner_depends_on():
    base = store.store_key(DEVICE, FOREST, "float64", {"max_cells": None})
    assert base == store.store_key(
        DEVICE, Forest.from_cells([chain(5), star(4), chain(5)]), np.float64, {}
    )
    json.dumps(base)
    assert base["device"] == "Some Device"
    others = [
        store.store_key(SimpleNamespace(**{**vars(DEVICE), name: value}), FOREST, "float64", {})
        for name, value in (
            ("name", "Other"),
            ("platform", SimpleNamespace(name="Other")),
            ("driver_version", "1.3"),
            ("max_compute_units", 4),
        )
    ]
    others.append(store.store_key(DEVICE, FOREST, "float32", {}))
    others.append(store.store_key(DEVICE, FOREST, "float64", {"max_cells": 2}))
    others += [
        store.store_key(DEVICE, Forest.from_cells(cells), "float64", {})
        for cells in (
            [star(4), chain(5), chain(5)],
            [chain(5), star(4), star(4)],
            [chain(5), chain(4), chain(5)],
            [chain(5), star(4)],
            [chain(5), star(4), chain(5), chain(5)],
        )
    ]
    texts = {json.dumps(key, sort_keys=True) for key in (base, *others)}
    assert len(texts) == 1 + len(others)


def damaged(entry):
    """Texts of files that `save` did not write, or another version did."""
    whole = json.dumps(entry)
    yield from ("", "{", whole[: len(whole) // 2], "null", "[]", "3", "\x00" * 40, "[" * 100_000)
    for change in (
        {"schema": 0},
        {"schema": None},
        {"key": 3},
        {"key": {**entry["key"], "driver": "other"}},
        {"method": "gauss"},
        {"method": "auto"},
        {"method": ["fine"]},
        {"options": None},
        {"options": {"colour": 1}},
        {"options": {"max_cells": 0}},
        {"options": {"max_cells": "3"}},
        {"options": {"max_cells": 2.5}},
        {"options": {"max_cells": True}},
    ):
        yield json.dumps({**entry, **change})
    for name in ("schema", "key", "method", "options"):
        yield json.dumps({k: v for k, v in entry.items() if k != name})


def test_whatever_is_wrong_with_a_file_it_is_ignored():
    path = store.save(KEY, TUNING)
    texts = list(damaged(json.loads(path.read_text())))
    assert len(texts) == 25
    for text in texts:
        path.write_text(text)
        assert store.load(KEY) is None, text[:200]
    path.write_bytes(b"\xff\xfe\x80")
    assert store.load(KEY) is None
    assert list(store.stored()) == []
    path.unlink()
    path.mkdir()
    assert store.load(KEY) is None
    assert list(store.stored()) == []


def test_a_damaged_file_is_replaced():
    path = store.save(KEY, TUNING)
    path.write_text("{")
    store.save(KEY, TUNING)
    assert store.load(KEY) == TUNING.best


def test_a_failed_write_leaves_the_old_entry_and_no_rest(monkeypatch):
    path = store.save(KEY, TUNING)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        store.save(KEY, tune.Tuning(TUNING.rows, *[Candidate("flat")] * 2))
    assert store.load(KEY) == TUNING.best
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_clear_counts_entries_and_leaves_other_files():
    assert store.clear() == 0
    path = store.save(KEY, TUNING)
    store.save({**KEY, "forest": "other"}, TUNING)
    path.write_text("{")
    (path.parent / "tuned-left.tmp").write_text("")
    (path.parent / "notes.txt").write_text("mine")
    assert store.clear() == 2
    assert [p.name for p in path.parent.iterdir()] == ["notes.txt"]


WRITER = """
import sys
from clhines.solve import store
from clhines.solve import tune
from clhines.plan.auto import Candidate
me = int(sys.argv[1])
row = Candidate("fine", {"max_cells": me})
for k in range(100):
    store.save({"device": "d", "n": k % 5}, tune.Tuning(((row, 1.0 + k),) * 50, row, row))
    found = store.load({"device": "d", "n": k % 5})
    assert found is not None and found.options["max_cells"] in (1, 2, 3, 4)
"""


def test_processes_write_at_once():
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(k)], stderr=subprocess.PIPE)
        for k in (1, 2, 3, 4)
    ]
    failed = [process.communicate()[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 4, failed
    assert len(list(store.stored())) == 5
    assert len(list(Path(os.environ["CLHINES_CACHE_DIR"]).iterdir())) == 5


def test_the_users_cache_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("CLHINES_CACHE_DIR")
    assert store.store_folder().name == "clhines"
