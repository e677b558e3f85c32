"""Solvers on every device: right for every shape and option, and clear about everything else."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from systems import (
    System,
    cells_for,
    children_first,
    dissimilar,
    families,
    forest_for,
    make_system,
    renumbered,
    straightened,
    updates_for,
)
from tolerances import assert_close, residual_bound

from clhines import METHODS, DeviceMemoryError, Forest, InputError, PivotError, Solver, reference
from clhines.cells.shapes import caterpillar, chain, random_binary_tree, star
from clhines.device import copies, devices
from clhines.plan.by_branch import fine_vector

DTYPES = [np.float64, np.float32]
SHORT = 6  # nodes of a segment: a shorter kernel, sooner built
CONFIGS = {
    "flat": ("flat", {}),
    "flat_7": ("flat", {"work_group": 7}),
    "interleaved": ("interleaved", {"work_group": 4}),
    "block_3": ("block_interleaved", {"block_size": 3, "vector_width": 1, "work_group": 2}),
    "vector_2": ("block_interleaved", {"vector_width": 2, "block_size": 2}),
    "vector_4": ("block_interleaved", {"vector_width": 4, "block_size": 8, "work_group": 2}),
    "vector_8": ("block_interleaved", {"vector_width": 8, "block_size": 8}),
    "block_local": ("block_local", {}),
    "local_2": ("block_local", {"block_size": 2}),
    "fine": ("fine", {}),
    "fine_1": ("fine", {"work_group": 1, "max_cells": 3}),  # a pass for every branch
    "fine_5": ("fine", {"work_group": 5, "max_cells": 4}),
    "fine_64": ("fine", {"work_group": 64, "max_cells": 100}),
    "fine_scalar": ("fine", {"vector_width": 1}),
    "fine_vector_4": ("fine", {"vector_width": 4, "max_cells": 3}),
    "fine_vector_16": ("fine", {"vector_width": 16}),
    "levels": ("levels", {"padding": "skip"}),
    "levels_padded": ("levels", {"padding": "compute", "work_group": 5}),
    "dhs": ("dhs", {}),
    "dhs_4": ("dhs", {"k": 4, "work_group": 12}),
    "dhs_local": ("dhs", {"k": 8, "work_group": 16, "local": True}),
    "cr": ("cr", {}),
    "pcr_5": ("pcr", {"work_group": 5}),  # several unknowns a lane
    "cr_pcr": ("cr_pcr", {"switch": 7, "work_group": 8}),
    "fine_shaped": (
        "fine",
        {
            "work_group": 6,
            "max_cells": 5,
            "split": "mean",
            "packing": "sorted",
            "level_shift": True,
            "local": True,
        },
    ),
    "contraction": ("contraction", {}),
    "contraction_6": ("contraction", {"segment": 6, "work_group": 96, "max_cells": 5}),
}
ONE_EACH = [
    "flat",
    "interleaved",
    "block_3",
    "vector_4",
    "local_2",
    "fine_5",
    "fine_vector_4",
    "levels_padded",
    "dhs_4",
    "cr",
    "pcr_5",
    "cr_pcr",
    "contraction_6",
]
OTHERS = [name for name in METHODS if name not in {method for method, _ in CONFIGS.values()}]
CONFIGS |= {name: (name, {}) for name in OTHERS}  # a new row is tested from its first day on
ONE_EACH += OTHERS


def make_solver(queue, forest, config="fine_5", dtype=np.float64, **more):
    method, options = CONFIGS[config]
    return Solver(forest, method, dtype, queue=queue, **options, **more)


def forest_of(config, cells):
    """The cells, as chains where the method takes nothing else."""
    return forest_for(CONFIGS[config][0], cells)


def assert_solved(config, system, x):
    system.assert_solved(x, updates_for(CONFIGS[config][0]))


def on_device(queue, system):
    return {k: None if a is None else cla.to_device(queue, a) for k, a in system.arrays.items()}


# ------------------------------------------------------------------------ right, for every shape


@pytest.mark.parametrize(
    ("dtype", "symmetric"), [(np.float64, True), (np.float32, False)], ids=["symmetric", "not"]
)
@pytest.mark.parametrize("config", CONFIGS)
def test_every_shape_is_solved(queue, needs, config, dtype, symmetric):
    needs(queue, dtype)
    half = (list(CONFIGS).index(config) + symmetric) % 2
    for name, cells in families(half).items():
        forest = forest_of(config, cells)
        system = make_system(forest, dtype, symmetric)
        kept = system.copy()
        x = make_solver(queue, forest, config, dtype).solve(**system.arrays)
        try:
            assert_solved(config, kept, x)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        for key, array in kept.arrays.items():
            assert array is None or np.array_equal(array, system.arrays[key]), f"{name}: {key}"


@pytest.mark.parametrize(("rows", "symmetric"), [(1, False), (2, True), (5, True), (9, False)])
@pytest.mark.parametrize(
    "config",
    [
        "flat",
        "interleaved",
        "vector_4",
        "vector_8",
        "local_2",
        "fine_5",
        "fine_vector_4",
        "fine_scalar",
        "dhs_4",
        "dhs_local",
        "cr_pcr",
    ],
)
def test_several_right_hand_sides(queue, needs, config, symmetric, rows):
    needs(queue, np.float64)
    cells = families()["few_shapes"] + families()["caterpillar"]
    forest = forest_of(config, cells)
    system = make_system(forest, symmetric=symmetric, rows=rows)
    solver = make_solver(queue, forest, config)
    x = solver.solve(**system.arrays)
    assert_solved(config, system, x)
    one = solver.solve(system.d, system.u, system.b[-1], l=system.l)
    assert one.shape == (forest.num_nodes,)
    assert_solved(config, System(forest, system.d, system.u, system.b[-1], system.l), one)


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17])
def test_vectors_of_equal_cells(queue, width, count):
    """Chains and trees of one shape fill vector types; the last vector is part idle."""
    tree = random_binary_tree(33, 7, 1)
    forest = Forest.from_cells([tree] * count)
    options = {"vector_width": width, "block_size": width}
    solver = Solver(forest, "block_interleaved", np.float32, queue=queue, **options)
    idle = -count % width
    assert solver.plan.parts[0].spec.same_shape == ((count + idle) <= 1.25 * count)
    system = make_system(forest, np.float32, seed=count)
    system.assert_solved(solver.solve(**system.arrays))


def test_vectors_hold_one_shape_or_several(queue):
    few = Forest.from_cells(families()["few_shapes"] * 8)
    many = Forest.from_cells(dissimilar(21))
    for forest, same in ((few, True), (many, False)):
        solver = make_solver(queue, forest, "vector_4", np.float32)
        assert solver.plan.parts[0].spec.same_shape is same
        assert ("float4" in solver.source) is same
        system = make_system(forest, np.float32)
        system.assert_solved(solver.solve(**system.arrays))


@pytest.mark.parametrize("config", ["flat_7", "interleaved", "vector_4", "fine_5"])
@pytest.mark.parametrize("change", [-1, 0, 1])
def test_counts_around_the_work_group(queue, config, change):
    size = make_solver(queue, Forest(chain(1)), config, np.float32).plan.parts[0].spec.work_group
    lanes = size * CONFIGS[config][1].get("vector_width", 1) + change
    for cells in (
        [caterpillar(6)] * max(lanes, 1),  # cells around the work-group
        [star(max(lanes, 1) + 1)] * 2,  # branches of a level around the work-group
    ):
        forest = Forest.from_cells(cells)
        system = make_system(forest, np.float32)
        x = make_solver(queue, forest, config, np.float32).solve(**system.arrays)
        assert_solved(config, system, x)


def test_methods_agree_with_each_other(queue, needs):
    needs(queue, np.float64)
    trees = [c for c, (method, _) in CONFIGS.items() if not METHODS[method].chains_only]
    assert_agreement(queue, Forest.from_cells(dissimilar(11)), trees)
    assert_agreement(queue, Forest.from_cells(map(straightened, dissimilar(11))), CONFIGS)


def assert_agreement(queue, forest, configs):
    system = make_system(forest, symmetric=False, rows=2)
    solutions = {c: make_solver(queue, forest, c).solve(**system.arrays) for c in configs}
    assert len(solutions) >= 11
    for config, x in solutions.items():
        assert_solved(config, system, x)
        # packing and vectors change who computes, not what; rounding may differ by contraction
        # into fused operations, which compilers choose by the code around
        first = solutions["fine_5" if config.startswith("fine") else "flat"]
        assert_close(forest, x, first.astype(np.float64), x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_give_the_same_bits_whatever_the_batch(queue, needs, dtype):
    needs(queue, dtype)
    cells = [*dissimilar(8, least=40), *families()["few_shapes"], star(30), caterpillar(60)]
    rng = np.random.default_rng(3)
    systems = [make_system(Forest(np.asarray(p)), dtype, seed=k) for k, p in enumerate(cells)]
    alone = [
        make_solver(queue, s.forest, "fine_vector_4", dtype).solve(**s.arrays) for s in systems
    ]
    order = rng.permutation(len(cells))
    batch = Forest.from_cells([cells[k] for k in order])
    d, u, b = (np.concatenate([getattr(systems[k], a) for k in order]) for a in "dub")
    for config in ("fine_vector_4", "fine_vector_16", "fine_scalar"):
        x = make_solver(queue, batch, config, dtype).solve(d, u, b)
        for k, part in zip(order, np.split(x, batch.cell_offsets[1:-1]), strict=True):
            assert np.array_equal(part, alone[k]), (config, k)


def test_solutions_past_the_caches(queue, monkeypatch):
    """Streaming stores need aligned arrays; any other array must work as well."""
    monkeypatch.setattr(fine_vector, "STREAM_BYTES", 0)
    forest = Forest.from_cells(dissimilar(40))
    system = make_system(forest, np.float32)
    solver = make_solver(queue, forest, "fine_vector_4", np.float32)
    assert solver.plan.parts[0].spec.streaming
    system.assert_solved(solver.solve(**system.arrays))
    packed = {k: solver.pack(a) for k, a in system.arrays.items() if a is not None}
    size = solver.plan.packed_size
    for offset in range(4):
        host = np.zeros(size + 32, np.float32)
        shift = (-host.ctypes.data // 4) % 16 + offset
        x = host[shift : shift + size]
        assert x.ctypes.data % 64 == 4 * offset
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        buffer = cl.Buffer(queue.context, flags, hostbuf=x)
        out = cla.Array(queue, size, np.float32, data=buffer)
        solver.enqueue(**packed, out=out).wait()
        system.assert_solved(solver.unpack(out).get())


def test_numbering_does_not_matter(queue, needs):
    needs(queue, np.float64)
    for config in ONE_EACH:
        (tree,) = cells_for(CONFIGS[config][0], [random_binary_tree(65, 13, 2)])
        system = make_system(Forest(tree), symmetric=False)
        values = {k: a[::-1].copy() for k, a in system.arrays.items()}
        mirrored = System(Forest(children_first(tree)), **values)
        x = make_solver(queue, system.forest, config).solve(**system.arrays)
        y = make_solver(queue, mirrored.forest, config).solve(**mirrored.arrays)
        assert_solved(config, system, x)
        assert_solved(config, mirrored, y)


@pytest.mark.parametrize("config", CONFIGS)
def test_bitwise_the_same_from_run_to_run(queue, config):
    forest = forest_of(config, [*dissimilar(9), star(70), caterpillar(70)])
    system = make_system(forest, np.float32, rows=2)
    solver = make_solver(queue, forest, config, np.float32)
    first = solver.solve(**system.arrays)
    for _ in range(3):
        assert np.array_equal(solver.solve(**system.arrays), first)
    again = make_solver(queue, forest, config, np.float32)
    assert np.array_equal(again.solve(**system.arrays), first)


@pytest.mark.parametrize("config", ONE_EACH)
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_couplings_at_the_roots_do_not_matter(queue, config, value):
    forest = forest_of(config, [*dissimilar(7), chain(1), children_first(star(5))])
    for symmetric in (True, False):
        system = make_system(forest, np.float32, symmetric)
        roots = forest.parent < 0
        solver = make_solver(queue, forest, config, np.float32)
        expected = solver.solve(**system.arrays)
        for array in (system.u, system.l):
            if array is not None:
                array[roots] = value
        assert np.array_equal(solver.solve(**system.arrays), expected)
        assert (solver.status() == -1).all()
        assert_solved(config, system, expected)


# -------------------------------------------------------------------------------------- large


@pytest.mark.parametrize(
    "config", ["flat", "interleaved", "vector_4", "fine", "fine_1", "fine_vector_4", "dhs_4"]
)
def test_a_star_of_ten_thousand_children(fast_queue, needs, config):
    needs(fast_queue, np.float64)
    forest = Forest.from_cells([star(10_001), chain(3), star(10_001)])
    system = make_system(forest)
    assert_solved(config, system, make_solver(fast_queue, forest, config).solve(**system.arrays))


@pytest.mark.parametrize("config", ["flat", "fine", "fine_5", "dhs_4"])
@pytest.mark.parametrize("shape", [chain, caterpillar, None])
def test_a_cell_of_many_nodes(fast_queue, needs, shape, config):
    """Judged by a right-hand side made from a known solution: the reference takes too long."""
    needs(fast_queue, np.float64)
    n = 10**6 if shape is chain else 10**5
    tree = shape(n) if shape else random_binary_tree(n, 10_001, 3)
    forest = Forest.from_cells([tree, chain(5)])
    system = make_system(forest)
    known = np.random.default_rng(2).uniform(0.5, 1, forest.num_nodes)
    system.b[:] = reference.multiply(forest, system.d, system.u, known)
    x = make_solver(fast_queue, forest, config).solve(**system.arrays)
    assert_close(forest, x, known, np.float64)
    assert reference.residual(forest, system.d, system.u, system.b, x) <= residual_bound(x.dtype)


# --------------------------------------------------------------------------- in and out, queues


@pytest.mark.parametrize("rows", [None, 1, 6])
@pytest.mark.parametrize("config", ONE_EACH)
def test_device_arrays_in_device_arrays_out(queue, config, rows):
    forest = forest_of(config, dissimilar(6))
    system = make_system(forest, np.float32, symmetric=False, rows=rows)
    solver = make_solver(queue, forest, config, np.float32)
    arrays = on_device(queue, system)
    x = solver.solve(**arrays, check=False)
    assert isinstance(x, cla.Array)
    assert x.queue == queue == solver.queue
    assert x.events
    assert np.array_equal(x.get(), solver.solve(**system.arrays))
    assert_solved(config, system, x.get())
    for key, array in arrays.items():
        assert np.array_equal(array.get(), system.arrays[key])

    out = cla.zeros_like(arrays["b"])
    assert solver.solve(**arrays, out=out) is out
    assert np.array_equal(out.get(), x.get())
    assert solver.solve(**arrays, overwrite=True) is arrays["b"]
    assert np.array_equal(arrays["b"].get(), x.get())
    assert np.array_equal(arrays["d"].get(), system.d)


def test_a_part_of_a_device_array(queue):
    forest = Forest.from_cells(dissimilar(4))
    n = forest.num_nodes
    system = make_system(forest, np.float32)
    solver = make_solver(queue, forest, dtype=np.float32)
    arrays = on_device(queue, system)
    both = cla.to_device(queue, np.concatenate((system.b * 0 + 7, system.b)))
    x = solver.solve(arrays["d"], arrays["u"], both[n:])
    system.assert_solved(x.get())
    with pytest.raises(InputError, match="out is read-only or a strided view"):
        solver.solve(**arrays, out=both[n:])
    with pytest.raises(InputError, match="b is a strided view; expected a C-contiguous array"):
        solver.solve(arrays["d"], arrays["u"], both[::2])


def test_numpy_out_and_overwrite(queue):
    forest = Forest.from_cells(dissimilar(6))
    system = make_system(forest, np.float32, rows=3)
    solver = make_solver(queue, forest, dtype=np.float32)
    expected = solver.solve(**system.arrays)
    out = np.full_like(system.b, 5)
    assert solver.solve(**system.arrays, out=out) is out
    assert np.array_equal(out, expected)
    kept = system.copy()
    assert solver.solve(**system.arrays, overwrite=True) is system.b
    assert np.array_equal(system.b, expected)
    assert np.array_equal(system.d, kept.d)
    wide = kept.b.astype(np.float64)  # cannot take float32 in place
    x = solver.solve(kept.d, kept.u, wide, overwrite=True)
    assert x is not wide
    assert np.array_equal(x, expected)
    assert np.array_equal(wide, kept.b)
    frozen = kept.b.copy()
    frozen.flags.writeable = False
    assert solver.solve(kept.d, kept.u, frozen, overwrite=True) is not frozen


def test_numbers_of_other_kinds_are_converted(queue):
    forest = Forest([-1, 0])
    solver = make_solver(queue, forest, dtype=np.float32)
    for d, u, b in (
        ([2, 2], [0, 1], [4, 5]),
        (np.array([2, 2], np.int8), np.array([False, True]), np.array([4, 5], np.uint16)),
        (np.array([2.0, 9, 2, 9])[::2], (0.0, 1.0), np.asfortranarray([[4.0, 5.0]])),
    ):
        x = solver.solve(d, u, b)
        assert x.dtype == np.float32
        assert x.reshape(-1) == pytest.approx([1, 2], rel=1e-6)


@pytest.mark.parametrize("config", ONE_EACH)
def test_enqueue_in_device_order(queue, config):
    forest = forest_of(config, dissimilar(6))
    solver = make_solver(queue, forest, config, np.float32)
    for rows, symmetric in ((None, True), (2, False), (7, True)):
        system = make_system(forest, np.float32, symmetric, rows)
        expected = solver.solve(**system.arrays)
        packed = {k: solver.pack(a) for k, a in system.arrays.items() if a is not None}
        before = {k: a.get() for k, a in packed.items()}
        out = cla.empty_like(packed["b"])
        out.fill(np.nan)
        event = solver.enqueue(**packed, out=out)
        assert isinstance(event, cl.Event)
        event.wait()
        assert event.command_execution_status == cl.command_execution_status.COMPLETE
        assert np.array_equal(solver.unpack(out).get(), expected)
        assert (solver.status() == -1).all()
        for key, array in packed.items():
            assert np.array_equal(array.get(), before[key])
        # in place: d and b may go
        solver.enqueue(**packed, out=packed["b"], overwrite=True).wait()
        assert np.array_equal(solver.unpack(packed["b"]).get(), expected)
        assert_solved(config, system, expected)


def test_events_to_wait_for(fast_queue):
    forest = Forest(chain(9))
    system = make_system(forest, np.float32)
    solver = make_solver(fast_queue, forest, dtype=np.float32)
    d, u, b, out = (solver.pack(a) for a in (system.d, system.u, system.b, system.b))
    factors = solver.factor(system.d, system.u)
    event = solver.enqueue(d, u, b, out=out)
    for good in (event, [event], (event, event), []):
        solver.enqueue(d, u, b, out=out, wait_for=good)
        system.assert_solved(solver.unpack(out).get())
        factors.enqueue(b, out=out, wait_for=good)
    for bad, got in ((1, "int"), (["now", event], "list of Event, str"), ([[event]], "list")):
        for call in (
            lambda e: solver.enqueue(d, u, b, out=out, wait_for=e),
            lambda e: factors.enqueue(b, out=out, wait_for=e),
        ):
            with pytest.raises(InputError, match=f"wait_for is {got}.*; expected an event or"):
                call(bad)


@pytest.mark.parametrize("config", ONE_EACH)
def test_pack_and_unpack(queue, config):
    forest = forest_of(config, dissimilar(6))
    solver = make_solver(queue, forest, config, np.float32)
    gather = solver.plan.gather
    for shape in ((forest.num_nodes,), (3, forest.num_nodes)):
        natural = np.random.default_rng(3).random(shape, np.float32)
        packed = solver.pack(natural)
        assert packed.shape == (*shape[:-1], solver.plan.packed_size)
        assert np.array_equal(packed.get()[..., gather >= 0], natural[..., gather[gather >= 0]])
        assert not packed.get()[..., gather < 0].any()
        assert np.array_equal(solver.pack(cla.to_device(queue, natural)).get(), packed.get())
        assert np.array_equal(solver.unpack(packed).get(), natural)
        out = cla.zeros(queue, shape, np.float32)
        assert solver.unpack(packed, out=out) is out
        assert np.array_equal(out.get(), natural)


def test_solves_wait_for_events(fast_queue):
    """The simulator runs commands in one thread and would wait for itself."""
    queue = fast_queue
    forest = Forest.from_cells(dissimilar(6))
    solver = make_solver(queue, forest, dtype=np.float32)
    system = make_system(forest, np.float32)
    packed = [solver.pack(a) for a in (system.d, system.u, system.b)]
    out = cla.empty_like(packed[2])
    queue.finish()
    complete = cl.command_execution_status.COMPLETE

    gate = cl.UserEvent(queue.context)
    event = solver.enqueue(*packed, out=out, wait_for=[gate])
    queue.flush()
    assert event.command_execution_status != complete
    gate.set_status(complete)
    event.wait()
    system.assert_solved(solver.unpack(out).get())

    gate = cl.UserEvent(queue.context)
    arrays = on_device(queue, system)
    arrays["b"].add_event(gate)  # whoever fills b is not done yet
    x = solver.solve(**arrays, check=False)
    assert x.events[-1].command_execution_status != complete
    gate.set_status(complete)
    system.assert_solved(x.get())


def test_several_solvers_share_a_queue(queue):
    forests = [Forest.from_cells(dissimilar(4, seed=s)) for s in range(3)]
    systems = [make_system(f, np.float32) for f in forests]
    solvers = [make_solver(queue, f, dtype=np.float32) for f in forests]
    found = [
        s.solve(**on_device(queue, y), check=False) for s, y in zip(solvers, systems, strict=True)
    ]
    for system, x in zip(systems, found, strict=True):
        system.assert_solved(x.get())


def test_device_by_name_and_own_queue(queue):
    forest = Forest(chain(4))
    system = make_system(forest, np.float32)
    solver = Solver(forest, dtype=np.float32, device=queue.device)
    assert solver.device == queue.device
    assert solver.queue != queue
    assert solver.queue.context == queue.context  # one a device
    system.assert_solved(solver.solve(**system.arrays))
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    try:
        loose = cl.CommandQueue(queue.context, properties=out_of_order)
    except cl.Error:
        return  # this device has in-order queues only
    with pytest.raises(InputError, match="queue is out of order; expected an in-order queue"):
        Solver(forest, dtype=np.float32, queue=loose)


def test_source_is_that_of_the_plan(queue):
    solver = make_solver(queue, Forest(chain(4)), "fine_5", np.float32)
    assert str(solver.plan.parts[0].spec) in solver.source
    assert "typedef float real;" in solver.source
    assert "#define WORK_GROUP 5" in solver.source
    assert "\n\n\n" not in solver.source
    assert "${" not in solver.source


# -------------------------------------------------------------------------------------- pivots


@pytest.mark.parametrize("config", CONFIGS)
def test_bad_pivots_name_cell_and_node(queue, config):
    values = itertools.cycle((0.0, -2.0, np.nan, np.inf, -np.inf))  # 12 nodes: each at least twice
    rng = np.random.default_rng(8)
    cells = [chain(9), star(9), *dissimilar(5, least=20, most=40), *[caterpillar(8)] * 5]
    cells = [renumbered(p, rng) for p in cells]
    forest = forest_of(config, cells)
    system = make_system(forest, np.float32)
    solver = make_solver(queue, forest, config, np.float32)
    clean = solver.solve(**system.arrays)
    tips = np.bincount(forest.parent[forest.parent >= 0], minlength=forest.num_nodes) == 0
    roots = forest.parent < 0
    for cell in (0, 1, 4, forest.num_cells - 1):
        here = np.arange(*forest.cell_offsets[cell : cell + 2])
        inner = here[~tips[here] & ~roots[here]]
        nodes = [here[tips[here]][0], here[roots[here]][0], *inner[:1]]
        for node in nodes:
            bad = system.copy()
            bad.d[node] = next(values)
            bad.u[forest.parent == node] = 0  # so that the pivot is this very value
            with pytest.raises(PivotError, match=f"cell {cell}, node {node} ") as caught:
                solver.solve(**bad.arrays)
            assert (caught.value.cell, caught.value.node) == (cell, node)
            with pytest.raises(PivotError) as truth:
                bad.truth()
            assert (truth.value.cell, truth.value.node) == (cell, node)

            x = solver.solve(**bad.arrays, check=False)
            status = solver.status()
            assert status[cell] == node
            assert (np.delete(status, cell) == -1).all()
            others = np.ones(forest.num_nodes, bool)
            others[here] = False
            assert np.array_equal(x[others], clean[others])
    assert_solved(config, system, solver.solve(**system.arrays))
    assert (solver.status() == -1).all()


@pytest.mark.parametrize("config", CONFIGS)
def test_the_deepest_of_several_bad_pivots_wins_in_each_cell(queue, config):
    tree = [-1, 0, 1, 2, 2, 4, 1, 6]  # 0 1 | 2 | 3, 4 5 | 6 7
    forest = forest_of(config, [tree] * 6)
    system = make_system(forest, np.float32)
    for cell, nodes in ((1, [0, 2, 4, 5]), (4, [1, 7])):
        for node in nodes:
            system.d[8 * cell + node] = -1
    solver = make_solver(queue, forest, config, np.float32)
    with pytest.raises(PivotError) as caught:
        solver.solve(**system.arrays)
    assert (caught.value.cell, caught.value.node) == (1, 13)
    assert solver.status().tolist() == [-1, 13, -1, -1, 39, -1]
    assert solver.status().dtype == np.int64
    arrays = on_device(queue, system)
    with pytest.raises(PivotError, match=r"cell 1, node 13 \(number 5 of its cell\)"):
        solver.solve(**arrays)
    solver.solve(**arrays, check=False)
    assert solver.status().tolist() == [-1, 13, -1, -1, 39, -1]


@pytest.mark.parametrize("config", ONE_EACH)
def test_nan_couplings_are_never_silent(queue, config):
    forest = forest_of(config, [*dissimilar(6, least=9), chain(4)])
    for symmetric in (True, False):
        system = make_system(forest, np.float32, symmetric)
        node = int(np.flatnonzero(forest.parent[: forest.cell_offsets[3]] >= 0)[-1])
        array = system.u if symmetric else system.l
        for value in (np.nan, np.inf):
            array[node] = value
            solver = make_solver(queue, forest, config, np.float32)
            with pytest.raises(PivotError) as caught:
                solver.solve(**system.arrays)
            assert caught.value.cell == 2
            assert caught.value.node == forest.parent[node]


@pytest.mark.parametrize("config", ONE_EACH)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_right_hand_sides_that_are_not_finite(queue, config, value):
    forest = forest_of(config, dissimilar(6, least=9))
    solver = make_solver(queue, forest, config, np.float32)
    system = make_system(forest, np.float32, rows=2)
    clean = solver.solve(**system.arrays)
    node = int(forest.cell_offsets[3]) + 2
    system.b[1, node] = value
    with pytest.raises(InputError, match=f"cell 3, node {node}: b is {value}; expected finite"):
        solver.solve(**system.arrays)
    x = solver.solve(**system.arrays, check=False)
    assert not np.isfinite(x[1, node])
    assert (solver.status() == -1).all()  # the matrix is good
    good = np.ones(forest.num_nodes, bool)
    good[forest.cell_offsets[3] : forest.cell_offsets[4]] = False
    assert np.array_equal(x[0], clean[0])
    assert np.array_equal(x[1, good], clean[1, good])


# -------------------------------------------------------------------------------------- slices


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
    forest = Forest.from_cells(dissimilar(60, least=5))
    solver = make_solver(queue, forest, dtype=np.float32, max_memory=40_000)
    arrays = on_device(queue, make_system(forest, np.float32))
    for what, call in {
        r"solve\(\) with device arrays": lambda: solver.solve(**arrays),
        r"pack\(\)": lambda: solver.pack(arrays["d"]),
        r"unpack\(\)": lambda: solver.unpack(arrays["d"]),
        r"enqueue\(\)": lambda: solver.enqueue(**arrays, out=arrays["b"]),
    }.items():
        words = rf"{what} needs the whole batch .*: \d+\.\d KiB, where 39\.1 KiB .* slices"
        with pytest.raises(DeviceMemoryError, match=words):
            call()


def test_no_memory_left_states_what_slices_take(fast_queue, monkeypatch):
    forest = Forest.from_cells(dissimilar(60, least=5))
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


def test_pinned_memory_of_several_right_hand_sides(fast_queue, monkeypatch):
    """Each is smaller than what is worth to be staged; those solved at once are not."""
    forest = Forest.from_cells([chain(30)] * 10)
    solver = make_solver(fast_queue, forest, dtype=np.float32)
    rows = solver.engine.room.rows_at_once(solver.plan)
    assert rows > 1
    monkeypatch.setattr(copies, "helps", lambda _: True)
    monkeypatch.setattr(copies, "shares_memory", lambda _: False)
    for least, pinned in ((300 * 4, True), (300 * 4 * rows, True), (300 * 4 * rows + 1, False)):
        monkeypatch.setattr(copies, "LEAST_BYTES", least)
        assert (solver.memory[0].pinned > 0) == pinned
        solver = make_solver(fast_queue, forest, dtype=np.float32)
        system = make_system(forest, np.float32, rows=rows)
        system.assert_solved(solver.solve(**system.arrays))
        assert ("copies" in vars(solver.engine.transfer)) == pinned


@pytest.mark.parametrize("config", ONE_EACH)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_cell_that_does_not_fit(queue, config, place):
    """Wherever the large cell stands: the error comes, and at once."""
    cells = [chain(1), chain(2)]
    cells.insert(place, chain(3000))
    forest = Forest.from_cells(cells)
    words = rf"cell {place} with 3000 nodes needs \d+\.\d KiB, .* offers 19\.5 KiB"
    with pytest.raises(DeviceMemoryError, match=words):
        make_solver(queue, forest, config, np.float32, max_memory=20_000)


@pytest.mark.parametrize("config", ONE_EACH)
def test_a_large_cell_that_fits_only_alone(queue, config):
    one = Forest(chain(3000))
    plan = make_solver(queue, one, config, np.float32).plan
    limit = plan.bytes_needed(4, 8) + 64
    forest = Forest.from_cells([chain(40)] * 90 + [chain(3000)] + [chain(40)] * 90)
    solver = make_solver(queue, forest, config, np.float32, max_memory=limit)
    assert solver.num_slices >= 3
    system = make_system(forest, np.float32)
    assert_solved(config, system, solver.solve(**system.arrays))


# ------------------------------------------------------------------------------- wrong arguments


def test_wrong_shapes_and_types(queue):
    forest = Forest.from_cells([chain(3), star(4)])
    solver = make_solver(queue, forest, dtype=np.float32)
    good = np.ones(7, np.float32)
    rows = np.ones((2, 7), np.float32)
    gpu = cla.to_device(queue, good)
    masked = np.ma.masked_array(good, [1] + [0] * 6)
    for arguments, words in [
        ((good, good, masked), "b has 1 masked values; expected none"),
        ((masked, good, good), "d has 1 masked values; expected none"),
        ((good, good, [masked, masked]), "b has 2 masked values; expected none"),
        ((good[:6], good, good), r"d has shape \(6,\); expected \(7,\) or \(k, 7\) in natural"),
        ((good, rows[:, :6], good), r"u has shape \(2, 6\)"),
        ((good, good, np.ones((7, 2))), r"b has shape \(7, 2\); expected \(7,\) or \(k, 7\)"),
        ((good, good, np.ones((0, 7))), r"b has shape \(0, 7\)"),
        ((good, good, np.ones((1, 1, 7))), r"b has shape \(1, 1, 7\)"),
        ((good, good, 1.0), r"b has shape \(1,\); expected \(7,\)"),
        ((good, good, good, good[:1]), r"l has shape \(1,\)"),
        ((rows, good, good), "d, u and l have one row; only b may have several"),
        ((good, rows, good), "d, u and l have one row"),
        ((good, good, good, rows), "d, u and l have one row"),
        ((good, good, gpu), "mix NumPy and pyopencl arrays; expected one kind"),
        ((gpu, gpu, gpu, good), "mix NumPy and pyopencl arrays"),
        ((good, good, good + 1j), "b has dtype complex64; expected real numbers"),
        ((good, good, list("abcdefg")), "b has dtype <U1; expected real numbers"),
        ((good, good, [object()] * 7), "b has dtype object; expected real numbers"),
        ((good, good, [[1], [1, 2]]), "b is not an array"),
        ((gpu.astype(np.float64), gpu, gpu), "d has dtype float64; expected float32"),
        ((gpu[:6], gpu, gpu), r"d has shape \(6,\)"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            solver.solve(*arguments[:3], l=arguments[3] if len(arguments) > 3 else None)
        assert "\n" not in str(caught.value)
    for out, words in [
        (good[:6], r"out is ndarray of float32 with shape \(6,\); expected .* shape \(7,\)"),
        (rows, r"out is ndarray of float32 with shape \(2, 7\)"),
        (good.astype(np.float64), "out is ndarray of float64 .* expected ndarray of float32"),
        (gpu, "out is Array of float32 .* expected ndarray"),
        ([0.0] * 7, "out is list of"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            solver.solve(2 * good, 0 * good, good, out=out)
        assert "\n" not in str(caught.value)
    frozen = good.copy()
    frozen.flags.writeable = False
    with pytest.raises(InputError, match="out is read-only"):
        solver.solve(2 * good, 0 * good, good, out=frozen)


def test_wrong_arguments_of_enqueue_pack_and_unpack(queue):
    forest = Forest.from_cells([chain(3), star(4)])
    solver = make_solver(queue, forest, dtype=np.float32)
    good = solver.pack(np.ones(7))
    size = solver.plan.packed_size
    rows = solver.pack(np.ones((2, 7)))
    other = cla.empty_like(good)
    natural = cla.to_device(queue, np.ones(7, np.float32))
    assert size != 7
    for arguments, words in [
        (
            (natural, good, good, other),
            rf"d has shape \(7,\); expected \({size},\) .* device order",
        ),
        ((np.ones(size), good, good, other), "d is ndarray; expected a pyopencl array"),
        ((good, good, rows, other), rf"out has shape \({size},\); expected .* b, \(2, {size}\)"),
        ((good, rows, good, other), "d, u and l have one row; only b and out may have several"),
        ((good, other, cla.empty_like(good), other), "out is d, u or l; expected another array"),
        ((good, good, good, other.astype(np.float64)), "out has dtype float64; expected float32"),
        ((good, good, good, natural), r"out has shape \(7,\)"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            solver.enqueue(*arguments[:3], out=arguments[3])
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"a has shape \(6,\); expected \(7,\)"):
        solver.pack(np.ones(6))
    with pytest.raises(InputError, match="a is ndarray; expected a pyopencl array"):
        solver.unpack(np.ones(size))
    with pytest.raises(InputError, match=r"out has shape \(32,\)|out has shape"):
        solver.unpack(good, out=other)
    with pytest.raises(InputError, match=r"out has shape \(7,\); expected a whole array of \(2, 7"):
        solver.unpack(rows, out=natural)


def test_arrays_of_another_context(queue):
    forest = Forest(chain(3))
    solver = make_solver(queue, forest, dtype=np.float32)
    stranger = cl.CommandQueue(cl.Context([queue.device]))
    theirs = cla.to_device(stranger, np.ones(3, np.float32))
    mine = cla.to_device(queue, np.ones(3, np.float32))
    with pytest.raises(InputError, match="u lives in another OpenCL context than the solver"):
        solver.solve(mine, theirs, mine)
    packed = solver.pack(mine)
    there = cla.zeros(stranger, packed.shape, np.float32)
    factors = solver.factor(2 * mine, 0 * mine)
    for call, name in [
        (lambda: solver.solve(2 * mine, 0 * mine, mine, out=theirs), "out"),
        (lambda: solver.enqueue(packed, packed, packed, out=there), "out"),
        (lambda: factors.solve(mine, out=theirs), "out"),
        (lambda: factors.enqueue(packed, out=there), "out"),
        (lambda: solver.unpack(packed, out=theirs), "out"),
        (lambda: solver.pack(theirs), "a"),
    ]:
        with pytest.raises(InputError, match=f"{name} lives in another OpenCL context than the s"):
            call()


def test_wrong_arguments_of_the_solver(queue):
    forest = Forest(chain(3))
    for arguments, words in [
        ({"method": "gauss"}, "method 'gauss' is unknown; expected auto, flat"),
        ({"dtype": np.int32}, "expected float64 or float32"),
        ({"method": "fine", "block_size": 4}, "'block_size' is not one of method 'fine'"),
        (
            {"work_group": 10**6},
            r"work_group=1000000 is above the device's limit of \d+ work-items",
        ),
    ]:
        with pytest.raises(InputError, match=words):
            Solver(forest, **{"dtype": np.float32, **arguments}, queue=queue)


def test_every_method_has_a_configuration_here():
    assert {method for method, _ in CONFIGS.values()} == set(METHODS)
    assert {CONFIGS[c][0] for c in ONE_EACH} == set(METHODS)
    assert {"flat", "interleaved", "block_interleaved", "fine"} <= set(METHODS)


# ------------------------------------------------------------------------ what a review once found


def test_many_solves_into_one_array_never_wait_for_the_host(fast_queue):
    solver = make_solver(fast_queue, Forest.from_cells(dissimilar(6)), dtype=np.float32)
    system = make_system(solver.forest, np.float32)
    packed = [solver.pack(a) for a in (system.d, system.u, system.b)]
    out = cla.empty_like(packed[2])
    gate = cl.UserEvent(fast_queue.context)
    event = solver.enqueue(*packed, out=out, wait_for=[gate])
    for _ in range(40):  # a host that waited in here would wait for ever
        event = solver.enqueue(*packed, out=out)
    assert len(out.events) == 1
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    system.assert_solved(solver.unpack(out).get())


def test_only_l_may_be_missing(queue):
    solver = make_solver(queue, Forest(chain(4)), dtype=np.float32)
    d, u, b, low = np.full(4, 3.0), np.full(4, -1.0), np.ones(4), np.full(4, -0.5)
    for name in "dub":
        arrays = {"d": d, "u": u, "b": b, "l": low} | {name: None}
        with pytest.raises(InputError, match=f"^{name} "):
            solver.solve(**arrays)
    packed = solver.pack(d)
    with pytest.raises(InputError, match=r"^u is NoneType"):
        solver.enqueue(packed, None, packed, out=cla.empty_like(packed), l=packed)


def test_offset_views_are_refused_in_device_order(queue):
    solver = make_solver(queue, Forest(chain(4)), dtype=np.float32)
    size = solver.plan.packed_size
    wide = cla.zeros(queue, size + 4, np.float32)
    whole = solver.pack(np.ones(4))
    with pytest.raises(InputError, match="b is an offset view"):
        solver.enqueue(whole, whole, wide[4:], out=cla.empty_like(whole))


@pytest.mark.parametrize("rows", [1, 8])
def test_out_may_overlap_b(queue, rows):
    forest = Forest.from_cells(dissimilar(20))
    system = make_system(forest, np.float32, rows=rows)
    shared = np.empty((rows + 1, forest.num_nodes), np.float32)
    shared[:rows] = system.b
    arrays = {**system.copy().arrays, "b": shared[:rows]}
    x = make_solver(queue, forest, dtype=np.float32).solve(**arrays, out=shared[1:])
    assert np.shares_memory(x, shared)
    system.assert_solved(x)


@pytest.mark.parametrize("config", ONE_EACH)
@pytest.mark.parametrize("rows", [None, 3])
def test_arrays_anywhere_in_memory(queue, config, rows):
    """A CPU works on them where they are: at any address, not to be written, several times."""
    forest = forest_of(config, dissimilar(9))
    solver = make_solver(queue, forest, config, np.float32)
    for seed in (1, 2):  # the second finds what the first has left in memory
        system = make_system(forest, np.float32, rows=rows, seed=seed)
        moved = {name: beside(a) for name, a in system.arrays.items() if a is not None}
        kept = {name: a.copy() for name, a in moved.items()}
        for a in moved.values():
            a.flags.writeable = False
        out = beside(np.full_like(system.b, np.nan))
        assert solver.solve(**moved, out=out) is out
        system.assert_solved(out)
        assert all(np.array_equal(a, kept[name]) for name, a in moved.items())
        factors = solver.factor(**{name: moved[name] for name in moved if name != "b"})
        system.assert_solved(factors.solve(moved["b"]))


@pytest.mark.parametrize("config", ["flat", "contraction_6", "fine_vector_4"])
@pytest.mark.parametrize("rows", [None, 5])
def test_arrays_that_a_cpu_does_not_take_are_copied(fast_queue, monkeypatch, config, rows):
    monkeypatch.setattr(copies, "lends", lambda *_: False)
    forest = forest_of(config, dissimilar(9))
    solver = make_solver(fast_queue, forest, config, np.float32)
    for seed in (1, 2):
        system = make_system(forest, np.float32, False, rows, seed)
        system.assert_solved(solver.solve(**system.arrays))
        system.assert_solved(solver.solve(**system.copy().arrays, overwrite=True))


def test_what_runtimes_take():
    """PoCL any address, others whole pages; simulators and GPUs nothing."""
    room = np.zeros(8192, np.uint8)
    page = room[-room.ctypes.data % 4096 :]

    def fake(kind, name):
        return SimpleNamespace(type=kind, platform=SimpleNamespace(name=name), name=name)

    for device, any_address, pages in (
        (fake(cl.device_type.CPU, "Portable Computing Language"), True, True),
        (fake(cl.device_type.CPU, "Intel(R) OpenCL"), False, True),
        (fake(cl.device_type.CPU, "Oclgrind"), False, False),
        (fake(cl.device_type.GPU, "NVIDIA CUDA"), False, False),
    ):
        assert copies.lends(device, page) == pages
        assert copies.lends(device, page[8:]) == any_address


@pytest.mark.parametrize("config", ["flat", "contraction_6"])
def test_nothing_is_written_after_an_error(fast_queue, monkeypatch, config):
    """Kernels may work on the caller's arrays, and on our copies, which go with the error."""
    forest = forest_of(config, [random_binary_tree(400, 40, 1)] * 500)
    solver = make_solver(fast_queue, forest, config, np.float32)
    system = make_system(forest, np.float32)
    expected = solver.solve(**system.arrays)
    out = np.zeros_like(system.b)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(copies, "returned", interrupted)
        patch.setattr(solver.engine.transfer, "to_host", interrupted)
        solver.solve(**system.arrays, out=out)
    before = out.copy()
    fast_queue.finish()
    assert np.array_equal(out, before)
    assert np.array_equal(solver.solve(**system.arrays, out=out), expected)


def beside(a):
    """Return a copy one element past where an allocation begins."""
    room = np.empty(a.size + 1, a.dtype)
    room[1:] = a.reshape(-1)
    return room[1:].reshape(a.shape)


def test_unpack_into_itself_is_refused(queue):
    solver = make_solver(queue, Forest(chain(64)), "flat", np.float32)
    packed = solver.pack(np.ones(64))
    with pytest.raises(InputError, match="out is a"):
        solver.unpack(packed, out=packed)


@pytest.mark.parametrize("config", ONE_EACH)
def test_a_pivot_without_a_finite_inverse_is_bad(queue, config):
    solver = make_solver(queue, Forest(chain(5)), config, np.float32)
    d = np.full(5, 2.0, np.float32)
    d[4] = 1e-45
    u = np.zeros(5, np.float32)
    with pytest.raises(PivotError) as caught:
        solver.solve(d, u, np.ones(5))
    assert caught.value.node == 4


def test_a_solution_beyond_the_largest_number_is_reported(queue):
    solver = make_solver(queue, Forest(chain(3)), dtype=np.float32)
    with pytest.raises(InputError, match=r"node 0: x is (inf|nan); expected finite"):
        solver.solve(np.full(3, 1e-3), np.zeros(3), np.full(3, 1e38))


def test_status_needs_a_solve(queue):
    solver = make_solver(queue, Forest(chain(3)), dtype=np.float32)
    with pytest.raises(InputError, match="before anything was solved"):
        solver.status()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_above_local_memory(fast_queue, needs, dtype, monkeypatch):
    """They are solved in pieces, in one device order with the others."""
    needs(fast_queue, dtype)
    real, room = devices.limits, min(fast_queue.device.local_mem_size, 96 << 10)
    monkeypatch.setattr(devices, "limits", lambda device: replace(real(device), local_bytes=room))
    most = room // np.dtype(dtype).itemsize // 3
    cells = [random_binary_tree(most + 500, 60, 1), star(20), chain(50)]
    cells += [chain(2 * most + 1), cells[0], caterpillar(2 * most)]
    forest = Forest.from_cells(cells)
    solver = Solver(forest, "contraction", dtype, queue=fast_queue, segment=SHORT)
    assert {p.spec.template for p in solver.plan.parts} == {"by_segment/contraction"}
    assert {p.phase for p in solver.plan.parts} == {"solve", "reduce", "expand"}
    updates = sum(p.statistics["rounds"] for p in solver.plan.parts if p.phase != "expand")
    symmetric, rows = (True, None) if dtype == np.float64 else (False, 3)
    again = make_system(forest, dtype, symmetric, rows)
    again.assert_solved(solver.solve(**again.arrays), updates)
    x = solver.solve(**again.arrays)
    assert np.array_equal(x, solver.solve(**again.arrays))
    another = Solver(forest, "contraction", dtype, queue=fast_queue, segment=SHORT)
    assert np.array_equal(x, another.solve(**again.arrays))


def test_bad_pivots_of_cells_above_local_memory(fast_queue, monkeypatch):
    real, room = devices.limits, min(fast_queue.device.local_mem_size, 96 << 10)
    monkeypatch.setattr(devices, "limits", lambda device: replace(real(device), local_bytes=room))
    most = room // 4 // 3
    cells = [random_binary_tree(most + 500, 60, 1), chain(50), chain(2 * most + 1)]
    forest = Forest.from_cells(cells)
    solver = Solver(forest, "contraction", np.float32, queue=fast_queue, segment=SHORT)
    system = make_system(forest, np.float32)
    rng = np.random.default_rng(5)
    for cell in range(3):
        lo, hi = forest.cell_offsets[cell : cell + 2]
        for node in {int(lo), int(hi) - 1, *rng.integers(lo, hi, 3).tolist()}:
            for value in (-1, np.nan):
                d = system.d.copy()
                d[node] = value
                with pytest.raises(PivotError) as caught:
                    solver.solve(d, system.u, system.b)
                assert (caught.value.cell, caught.value.node) == (cell, node)
    system.assert_solved(solver.solve(**system.arrays))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tree_of_pieces_larger_than_local_memory(fast_queue, needs, dtype, monkeypatch):
    """Its kept nodes are themselves solved in pieces; a star goes to `fine`."""
    needs(fast_queue, dtype)
    real = devices.limits
    monkeypatch.setattr(
        devices, "limits", lambda device: replace(real(device), local_bytes=5 << 10)
    )
    forest = Forest.from_cells([chain(60_000), random_binary_tree(3000, 300, 2), star(700)])
    solver = Solver(forest, "contraction", dtype, queue=fast_queue, work_group=64, segment=SHORT)
    assert {p.source for p in solver.plan.parts} >= {0, 1, 2}
    assert solver.plan.parts[-1].spec.template == "by_branch/fine"
    system = make_system(forest, dtype)
    system.assert_solved(solver.solve(**system.arrays))
    d = system.d.copy()
    d[12_345] = -1
    with pytest.raises(PivotError) as caught:
        solver.solve(d, system.u, system.b)
    assert (caught.value.cell, caught.value.node) == (0, 12_345)


@pytest.mark.parametrize(
    ("method", "options"), [("block_local", {}), ("dhs", {"k": 4, "local": True})]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_cells_beside_those_in_local_memory(
    queue, needs, dtype, method, options, monkeypatch
):
    needs(queue, dtype)
    real = devices.limits
    monkeypatch.setattr(
        devices, "limits", lambda device: replace(real(device), local_bytes=1 << 10)
    )
    cells = [*dissimilar(9), random_binary_tree(300, 40, 1), chain(400), *dissimilar(9)]
    forest = Forest.from_cells(cells)
    solver = Solver(forest, method, dtype, queue=queue, **options)
    local, rest = solver.plan.parts
    assert local.statistics["local_bytes"] > rest.statistics["local_bytes"] == 0
    for symmetric, rows in ((True, None), (False, 3)):
        system = make_system(forest, dtype, symmetric, rows)
        system.assert_solved(solver.solve(**system.arrays))
    factors = solver.factor(system.d, system.u, l=system.l)
    system.assert_solved(factors.solve(system.b))
    packed = {k: solver.pack(a) for k, a in system.arrays.items() if a is not None}
    solver.enqueue(**packed, out=packed["b"], overwrite=True).wait()
    system.assert_solved(solver.unpack(packed["b"]).get())
    bad = [int(forest.cell_offsets[c]) + 1 for c in (4, 9, 10)]
    system.d[bad] = -1e9
    solver.solve(**system.arrays, check=False)
    assert solver.status()[[4, 9, 10]].tolist() == bad
    assert (np.delete(solver.status(), [4, 9, 10]) == -1).all()


def test_more_lanes_than_contraction_can_name_are_refused(queue):
    with pytest.raises(InputError, match=r"work_group=10\d\d is above"):
        Solver(Forest(star(1030)), "contraction", np.float32, queue=queue, work_group=1024)
