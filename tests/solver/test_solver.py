"""Solvers on every device: right for every shape and option, and reproducible."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from solvers import CONFIGS, ONE_EACH, assert_solved, forest_of, make_solver, on_device, too_wide
from systems import (
    System,
    children_first,
    dissimilar,
    families,
    forest_for,
    make_system,
    straightened,
)
from tolerances import assert_close, residual_bound

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import METHODS, Forest, InputError, PivotError, Solver
from clhines.solver import reference
from clhines.solver.plan.by_branch import fine_vector

pytestmark = pytest.mark.optimised


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_beside_dense_solves(queue, needs, method, dtype):
    needs(queue, dtype)
    forest = forest_for(method, [*dissimilar(5), caterpillar(33), star(17)])
    system = make_system(forest, dtype)
    solver = Solver(forest, method, dtype, queue=queue)
    expected = system.dense_solution()
    for x in (solver.solve(**system.arrays), solver.factor(system.d, system.u).solve(system.b)):
        assert x.dtype == dtype
        assert_close(forest, x, expected, x.dtype)
    d = system.d.copy()
    d[forest.cell_offsets[3]] = -1e9  # a root, whose pivot comes last
    with pytest.raises(PivotError) as raised:
        solver.factor(d, system.u)
    assert (raised.value.cell, raised.value.node) == (3, forest.cell_offsets[3])


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
    "flat interleaved vector_4 vector_8 local_2 fine_5 fine_vector_4 fine_scalar cr_pcr".split(),
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


@pytest.mark.parametrize("config", ["flat_7", "interleaved", "vector_4", "fine_5"])
@pytest.mark.parametrize("change", [-1, 0, 1])
def test_counts_around_the_work_group(queue, config, change):
    size = make_solver(queue, Forest(chain(1)), config, np.float32).plan.parts[0].spec.work_group
    lanes = size * CONFIGS[config][1].get("vector_width", 1) + change
    for cells in (
        [caterpillar(6)] * max(lanes, 1),  # about as many cells as work-items
        [star(max(lanes, 1) + 1)] * 2,  # about as many branches per level as work-items
    ):
        forest = Forest.from_parents(cells)
        system = make_system(forest, np.float32)
        x = make_solver(queue, forest, config, np.float32).solve(**system.arrays)
        assert_solved(config, system, x)


def test_methods_agree_with_each_other(double_queue):
    trees = [c for c, (method, _) in CONFIGS.items() if not METHODS[method].chains_only]
    assert_agreement(double_queue, Forest.from_parents(dissimilar(11)), trees)
    assert_agreement(double_queue, Forest.from_parents(map(straightened, dissimilar(11))), CONFIGS)


def assert_agreement(queue, forest, configs):
    system = make_system(forest, symmetric=False, rows=2)
    able = [c for c in configs if not too_wide(queue, c)]
    solutions = {c: make_solver(queue, forest, c).solve(**system.arrays) for c in able}
    assert len(solutions) >= 11
    for config, x in solutions.items():
        assert_solved(config, system, x)
        # packing and vectors move the same operations to other work-items; roundings may differ
        # because compilers choose fused operations by the code around
        first = solutions["fine_5" if config.startswith("fine") else "flat"]
        assert_close(forest, x, first.astype(np.float64), x.dtype)


def test_solutions_past_the_caches(queue, monkeypatch):
    """Streaming stores need aligned arrays; other arrays must work as well."""
    monkeypatch.setattr(fine_vector, "STREAM_BYTES", 0)
    forest = Forest.from_parents(dissimilar(40))
    system = make_system(forest, np.float32)
    solver = make_solver(queue, forest, "fine_vector_4", np.float32)
    assert solver.plan.parts[0].spec.streaming
    system.assert_solved(solver.solve(**system.arrays))
    packed = {k: solver.to_device_order(a) for k, a in system.arrays.items() if a is not None}
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
        system.assert_solved(solver.from_device_order(out).get())


@pytest.mark.parametrize("config", CONFIGS)
def test_bitwise_the_same_from_run_to_run(fast_queue, config):
    forest = forest_of(config, [*dissimilar(9), star(70), caterpillar(70)])
    system = make_system(forest, np.float32, rows=2)
    solver = make_solver(fast_queue, forest, config, np.float32)
    first = solver.solve(**system.arrays)
    for _ in range(3):
        assert np.array_equal(solver.solve(**system.arrays), first)
    again = make_solver(fast_queue, forest, config, np.float32)
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


@pytest.mark.parametrize(
    "config", ["flat", "interleaved", "vector_4", "fine", "fine_1", "fine_vector_4"]
)
def test_a_star_of_ten_thousand_children(double_queue, config):
    forest = Forest.from_parents([star(10_001), chain(3), star(10_001)])
    system = make_system(forest)
    assert_solved(config, system, make_solver(double_queue, forest, config).solve(**system.arrays))


@pytest.mark.parametrize("config", ["flat", "fine", "fine_5"])
@pytest.mark.parametrize("shape", [chain, caterpillar, None])
def test_a_cell_of_many_nodes(double_queue, shape, config):
    """Compare with a known solution, because the reference takes too long."""
    n = 10**6 if shape is chain else 10**5
    tree = shape(n) if shape else random_binary_tree(n, 10_001, 3)
    forest = Forest.from_parents([tree, chain(5)])
    system = make_system(forest)
    solution = np.random.default_rng(2).uniform(0.5, 1, forest.num_nodes)
    system.b[:] = reference.multiply(forest, system.d, system.u, solution)
    x = make_solver(double_queue, forest, config).solve(**system.arrays)
    assert_close(forest, x, solution, np.float64)
    assert reference.residual(forest, system.d, system.u, system.b, x) <= residual_bound(x.dtype)


def test_several_solvers_share_a_queue(every_queue):
    forests = [Forest.from_parents(dissimilar(4, seed=s)) for s in range(3)]
    systems = [make_system(f, np.float32) for f in forests]
    solvers = [make_solver(every_queue, f, dtype=np.float32) for f in forests]
    solutions = [
        s.solve(**on_device(every_queue, y), check=False)
        for s, y in zip(solvers, systems, strict=True)
    ]
    for system, x in zip(systems, solutions, strict=True):
        system.assert_solved(x.get())


def test_device_by_name_and_own_queue(every_queue):
    forest = Forest(chain(4))
    system = make_system(forest, np.float32)
    solver = Solver(forest, dtype=np.float32, device=every_queue.device)
    assert solver.device == every_queue.device
    assert solver.queue != every_queue
    assert solver.queue.context == every_queue.context  # one context per device
    system.assert_solved(solver.solve(**system.arrays))


def test_source_is_that_of_the_plan(queue):
    solver = make_solver(queue, Forest(chain(4)), "fine_5", np.float32)
    assert str(solver.plan.parts[0].spec) in solver.source
    assert "typedef float real;" in solver.source
    assert "#define WORK_GROUP 5" in solver.source
    assert "\n\n\n" not in solver.source
    assert "${" not in solver.source


def test_every_method_has_a_configuration_here():
    assert {method for method, _ in CONFIGS.values()} == set(METHODS)
    assert {CONFIGS[c][0] for c in ONE_EACH} == set(METHODS)
    assert {"flat", "interleaved", "block_interleaved", "fine"} <= set(METHODS)


def test_status_needs_a_solve(queue):
    solver = make_solver(queue, Forest(chain(3)), dtype=np.float32)
    with pytest.raises(InputError, match="before anything was solved"):
        solver.status()
