"""Batches larger than memory: cuts, the pipeline, pinned copies, and what is said of memory."""

import gc
import threading
import weakref

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from solvers import ONE_EACH, assert_solved, forest_of, make_solver, on_device
from systems import dissimilar, make_system

from bench.made import chain, random_binary_tree
from clhines import DeviceMemoryError, Forest, PivotError, Solver, make_plan
from clhines.solver.device import copies as device_copies
from clhines.solver.engines import memory
from clhines.solver.engines.loaded import Resident
from clhines.solver.engines.memory import plan_slices
from clhines.solver.engines.sliced import _Stages

MIX = [random_binary_tree(40, 6, k) for k in range(5)]


def planned(forest, most_nodes, count=1):
    calls = []

    def plan(part):
        calls.append(part.num_cells)
        return make_plan(part, "flat")

    def fits(_, made):
        return made.forest.num_nodes <= most_nodes or made.forest.num_cells == 1

    plans, bounds = plan_slices(forest, count, plan, fits)
    assert bounds[0] == 0
    assert bounds[-1] == forest.num_cells
    assert (np.diff(bounds) > 0).all()
    for plan, lo, hi in zip(plans, bounds[:-1], bounds[1:], strict=True):
        part = forest.subset(np.arange(lo, hi))
        assert np.array_equal(part.parent, plan.forest.parent)
        assert fits(lo, plan)
    return plans, bounds, calls


def test_slices_of_repeated_cells_have_one_plan():
    forest = Forest.repeat(MIX, 103)
    plans, bounds, calls = planned(forest, 40 * 22, 5)
    assert bounds.tolist() == [0, 20, 40, 60, 80, 100, 103]
    assert len({id(plan) for plan in plans}) == 2
    assert calls == [20, 3]


def test_slices_of_repeated_cells_that_are_too_large_become_smaller_together():
    plans, bounds, calls = planned(Forest.repeat(MIX, 100), 40 * 22, 2)
    assert np.diff(bounds).max() == 20
    assert len({id(plan) for plan in plans}) == 1
    assert len(calls) <= 6


@pytest.mark.parametrize("count", [1, 3, 50])
def test_slices_of_cells_that_differ(count):
    planned(Forest.from_parents(dissimilar(50)), 300, count)


def test_period_by_hand():
    for shapes, period in (
        ([0], 1),
        ([0, 0, 0], 1),
        ([0, 1, 0, 1, 0], 2),
        ([0, 1, 2], 3),
        ([0, 0, 1, 0, 0, 1, 0], 3),
        ([0, 1, 0, 2, 0, 1], 4),
        ([0, 1, 0, 2, 0, 3], 6),
    ):
        assert memory.shape_period(np.array(shapes)) == period, shapes


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("method", ["fine", "contraction"])
def test_pipeline_gives_the_bits_of_the_whole_batch(fast_queue, monkeypatch, method, pinned):
    monkeypatch.setattr(device_copies, "PIECE_BYTES", 256)  # many pieces an array
    monkeypatch.setattr(device_copies, "helps", lambda _: pinned)
    forest = Forest.from_parents(dissimilar(60, least=5))
    for rows, symmetric in ((None, True), (7, False)):
        system = make_system(forest, np.float32, symmetric, rows)
        whole = Solver(forest, method, np.float32, queue=fast_queue)
        sliced = Solver(forest, method, np.float32, queue=fast_queue, max_memory=70_000)
        assert sliced.num_slices >= 4
        x = sliced.solve(**system.arrays)
        system.assert_solved(x)
        if rows is None:  # several rows are grouped as memory allows, in other kernels
            assert np.array_equal(x, whole.solve(**system.arrays))
        out = np.full((rows or 1, 2 * forest.num_nodes), np.nan, np.float32)[..., ::2]
        out = out[0] if rows is None else out
        sliced.solve(**system.arrays, out=out)  # strided, and once more on the same solver
        assert np.array_equal(out, x)


def test_a_stage_that_fails_ends_the_others(fast_queue, monkeypatch):
    forest = Forest.from_parents(dissimilar(60, least=5))
    system = make_system(forest, np.float32)
    truth = None
    for stage in ("_bring", "_launch", "_take"):
        solver = Solver(forest, "flat", np.float32, queue=fast_queue, max_memory=40_000)
        truth = solver.solve(**system.arrays)
        real, calls = getattr(_Stages, stage), []

        def broken(*arguments, _calls=calls, _real=real):
            _calls.append(arguments)
            if len(_calls) == (3 if _real.__name__ == "_launch" else 1):
                raise cl.RuntimeError("enqueue failed")
            return _real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(_Stages, stage, broken)
            with pytest.raises(cl.RuntimeError, match="enqueue failed"):
                solver.solve(**system.arrays)
        assert np.array_equal(solver.solve(**system.arrays), truth)  # as if nothing had been


@pytest.mark.parametrize("pinned", [False, True])
def test_an_error_does_not_keep_the_memory_of_the_run(fast_queue, monkeypatch, pinned):
    monkeypatch.setattr(device_copies, "PIECE_BYTES", 256)
    monkeypatch.setattr(device_copies, "helps", lambda _: pinned)
    forest = Forest.from_parents(dissimilar(60, least=5))
    system = make_system(forest, np.float32)
    solver = Solver(forest, "flat", np.float32, queue=fast_queue, max_memory=40_000)
    runs = []
    begin = _Stages.all_stages

    def noted(self):
        runs.append(weakref.ref(self))
        return begin(self)

    def broken(*_):
        raise cl.RuntimeError("enqueue failed")

    monkeypatch.setattr(_Stages, "all_stages", noted)
    gc.disable()
    try:
        for place, name in ((_Stages, "_launch"), (_Stages, "_take"), (device_copies, "_empty")):
            with monkeypatch.context() as patch:
                patch.setattr(place, name, broken)
                try:
                    solver.solve(**system.arrays)
                except cl.RuntimeError as error:
                    assert str(error) == "enqueue failed"
            if name != "_empty" or pinned:  # which only pinned copies use
                assert runs.pop()() is None
    finally:
        gc.enable()


def test_three_slices_are_on_the_device_at_once(fast_queue, monkeypatch):
    """None is copied back before the third is solved, and all is well."""
    forest = Forest.repeat([chain(50)], 400)
    system = make_system(forest, np.float32)
    solver = Solver(forest, "flat", np.float32, queue=fast_queue, max_memory=400_000)
    assert solver.num_slices > 3
    third, solve, fetch = threading.Event(), Resident.solve, device_copies.DirectCopies.fetch
    solved = []

    def counted(self, *arguments, **options):
        events = solve(self, *arguments, **options)
        solved.append(len(solved))
        if len(solved) == 3:
            third.set()
        return events

    def fetched(self, *arguments):
        assert third.wait(10)
        return fetch(self, *arguments)

    monkeypatch.setattr(device_copies, "helps", lambda _: False)
    monkeypatch.setattr(Resident, "solve", counted)
    monkeypatch.setattr(device_copies.DirectCopies, "fetch", fetched)
    system.assert_solved(solver.solve(**system.arrays))
    assert solved == list(range(solver.num_slices))


@pytest.mark.parametrize("kind", [device_copies.DirectCopies, device_copies.PinnedCopies])
@pytest.mark.parametrize("sizes", [(1,), (64, 64), (65, 1, 1000)])
def test_copies_there_and_back(fast_queue, monkeypatch, kind, sizes):
    monkeypatch.setattr(device_copies, "PIECE_BYTES", 512)
    monkeypatch.setattr(device_copies, "threads", lambda: 3)
    rng = np.random.default_rng(1)
    rows = [rng.random(2 * n)[::2] for n in sizes]
    copies = kind(fast_queue)
    buffer = cla.empty(fast_queue, sum(sizes), np.float64)
    first = cla.empty(fast_queue, sizes[0], np.float64)
    for _ in range(2):
        rows[0][:] += 1
        sent = [
            copies.start([(rows[:1], first.base_data)]),
            copies.start([(rows, buffer.base_data)]),
        ]
        cl.wait_for_events([event for done in sent for event in done()])
        copies.drain()
        assert np.array_equal(buffer.get(), np.concatenate(rows))
        assert np.array_equal(first.get(), rows[0])
        back = [np.zeros(2 * n)[::2] for n in sizes]
        copies.fetch(buffer.base_data, back)
        assert all(np.array_equal(a, b) for a, b in zip(rows, back, strict=True))


@pytest.mark.parametrize("config", ONE_EACH)
def test_slices_give_what_the_whole_batch_gives(fast_queue, config):
    cells = dissimilar(60, least=5)
    forest = forest_of(config, cells)
    for rows, symmetric in ((None, True), (6, False)):
        system = make_system(forest, np.float32, symmetric, rows)
        whole = make_solver(fast_queue, forest, config, np.float32)
        sliced = make_solver(fast_queue, forest, config, np.float32, max_memory=40_000)
        assert whole.num_slices == 1
        assert sliced.num_slices > 2
        kept = system.copy()
        x = sliced.solve(**system.arrays)
        if rows is None:  # several rows are grouped as memory allows, in other kernels
            assert np.array_equal(x, whole.solve(**system.arrays))
        assert_solved(config, kept, x)
        assert (sliced.status() == -1).all()
        assert sliced.solve(**system.arrays, overwrite=True) is system.b
        assert np.array_equal(system.b, x)

        node = int(forest.cell_offsets[47])
        kept.d[node] = -1000.0
        with pytest.raises(PivotError) as caught:
            sliced.solve(**kept.arrays)
        assert (caught.value.cell, caught.value.node) == (47, node)
        assert np.flatnonzero(sliced.status() >= 0).tolist() == [47]


def test_slices_refuse_device_arrays(queue):
    forest = Forest.from_parents(dissimilar(60, least=5))
    solver = make_solver(queue, forest, dtype=np.float32, max_memory=40_000)
    arrays = on_device(queue, make_system(forest, np.float32))
    for what, call in {
        r"solve\(\) with device arrays": lambda: solver.solve(**arrays),
        r"to_device_order\(\)": lambda: solver.to_device_order(arrays["d"]),
        r"from_device_order\(\)": lambda: solver.from_device_order(arrays["d"]),
        r"enqueue\(\)": lambda: solver.enqueue(**arrays, out=arrays["b"]),
    }.items():
        words = rf"{what} needs the whole batch .*: \d+\.\d KiB, where 39\.1 KiB .* slices"
        with pytest.raises(DeviceMemoryError, match=words):
            call()


def test_no_memory_left_states_what_slices_take(fast_queue, monkeypatch):
    forest = Forest.from_parents(dissimilar(60, least=5))
    system = make_system(forest, np.float32)

    def full(*_, **__):
        raise cl.MemoryError("clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE")

    for most in (None, 40_000):
        solver = make_solver(fast_queue, forest, dtype=np.float32, max_memory=most)
        monkeypatch.setattr(solver.engine, "solve_host", full)
        (memory,) = solver.memory
        what = "" if most is None else f" in {solver.num_slices} slices"
        words = f"no memory left: the batch{what} needs {memory.device / 2**10:.1f} KiB of its "
        with pytest.raises(DeviceMemoryError, match=words):
            solver.solve(**system.arrays)


@pytest.mark.parametrize("config", ONE_EACH)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_cell_that_does_not_fit(queue, config, place):
    """Wherever the large cell stands: the error comes, and at once."""
    cells = [chain(1), chain(2)]
    cells.insert(place, chain(3000))
    forest = Forest.from_parents(cells)
    words = rf"cell {place} with 3000 nodes needs \d+\.\d KiB, .* offers 19\.5 KiB"
    with pytest.raises(DeviceMemoryError, match=words):
        make_solver(queue, forest, config, np.float32, max_memory=20_000)


@pytest.mark.parametrize("config", ONE_EACH)
def test_a_large_cell_that_fits_only_alone(fast_queue, config):
    one = Forest(chain(3000))
    plan = make_solver(fast_queue, one, config, np.float32).plan
    limit = plan.bytes_needed(4, 8) + 64
    forest = Forest.from_parents([chain(40)] * 90 + [chain(3000)] + [chain(40)] * 90)
    solver = make_solver(fast_queue, forest, config, np.float32, max_memory=limit)
    assert solver.num_slices >= 3
    system = make_system(forest, np.float32)
    assert_solved(config, system, solver.solve(**system.arrays))
