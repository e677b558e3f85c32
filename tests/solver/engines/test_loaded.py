"""Kernels that read and write natural order directly."""

import numpy as np
import pyopencl.array as cla
import pytest
from solvers import make_solver, on_device
from systems import dissimilar, families, make_system

from bench.made import chain, random_binary_tree, star
from clhines import Forest, PivotError

pytestmark = pytest.mark.optimised
CONFIGS = ["contraction_6", "contraction_registers", "fine_vector_4", "fine_vector_16"]


def scattered_cells():
    """Return cells of mixed shapes and odd sizes, so that a block's cells are no neighbours."""
    one, two = random_binary_tree(17, 5, 1), random_binary_tree(33, 9, 2)
    return [one, chain(1), two, one, star(9), two, chain(3), one, two, chain(3), star(9), one] * 3


@pytest.mark.parametrize("config", CONFIGS[:1])
def test_tables_name_every_value_once(queue, config):
    """`order` and `cell_base` lead each value to its position in `gather`."""
    forest = Forest.from_parents(scattered_cells())
    plan = make_solver(queue, forest, config, np.float32).plan
    (part,) = plan.parts
    tables = part.natural_tables(forest, plan.gather)
    blocks = part.tables["blocks"].reshape(-1, 8)
    starts = tables["order_start"].reshape(-1, 2)
    assert len(np.unique(starts[:, 0])) == len(np.unique(blocks[:, 4]))
    packed = np.full(plan.packed_size, -1)
    apart = 0
    for block, (begin, count) in zip(blocks, starts, strict=True):
        order = tables["order"][begin : begin + count]
        natural = tables["cell_base"][block[6] + (order >> 16)] + np.arange(count)
        packed[block[0] + (order & 0xFFFF)] = natural
        apart += (np.diff(natural) != 1).any()
    assert np.array_equal(packed, plan.gather)
    assert apart  # several cells per block


@pytest.mark.parametrize(
    ("dtype", "symmetric", "rows"), [(np.float64, True, None), (np.float32, False, 3)]
)
@pytest.mark.parametrize("config", CONFIGS)
def test_natural_and_device_order_agree(queue, needs, config, dtype, symmetric, rows):
    needs(queue, dtype)
    for cells in (scattered_cells(), dissimilar(20), families()["random"]):
        forest = Forest.from_parents(cells)
        solver = make_solver(queue, forest, config, dtype)
        assert solver.engine.loaded.takes_natural
        system = make_system(forest, dtype, symmetric, rows)
        arrays = on_device(queue, system)
        x = solver.solve(**arrays)
        assert x.shape == system.b.shape
        system.assert_solved(x.get())
        system.assert_solved(solver.solve(**system.arrays))
        packed = {k: solver.to_device_order(a) for k, a in arrays.items() if a is not None}
        out = cla.empty_like(packed["b"])
        solver.enqueue(**packed, out=out)
        system.assert_solved(solver.from_device_order(out).get())
        for key, array in arrays.items():
            assert array is None or np.array_equal(array.get(), system.arrays[key])
        assert solver.solve(**arrays, overwrite=True) is arrays["b"]
        assert np.array_equal(arrays["b"].get(), x.get())


@pytest.mark.parametrize("config", CONFIGS)
def test_nothing_is_packed(queue, monkeypatch, config):
    forest = Forest.from_parents(scattered_cells())
    solver = make_solver(queue, forest, config, np.float32)
    system = make_system(forest, np.float32)

    def refuse(*_):
        raise AssertionError("pack or unpack")

    monkeypatch.setattr(solver.engine.loaded, "permute", refuse)
    system.assert_solved(solver.solve(**on_device(queue, system)).get())
    system.assert_solved(solver.solve(**system.arrays))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", ["d", "u"])
def test_out_may_be_part_of_the_matrix(queue, name, config):
    """An early row of x must not overwrite the matrix that later rows need."""
    forest = Forest.from_parents(scattered_cells())
    n = forest.num_nodes
    solver = make_solver(queue, forest, config, np.float32)
    system = make_system(forest, np.float32, rows=2)
    arrays = on_device(queue, system)
    out = cla.to_device(queue, np.stack((system.arrays[name], 0 * system.d)))
    arrays[name] = out[0]
    assert arrays[name].base_data == out.base_data
    assert arrays[name].shape == (n,)
    system.assert_solved(solver.solve(**arrays, out=out).get())
    host = np.stack((system.arrays[name], 0 * system.d))
    system.assert_solved(solver.solve(**{**system.arrays, name: host[0]}, out=host))
    one = make_system(forest, np.float32)
    room = one.arrays[name].copy()
    one.assert_solved(solver.solve(**{**one.arrays, name: room}, out=room))


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize("value", [-1.0, np.nan])
@pytest.mark.parametrize("config", CONFIGS)
def test_bad_pivots_in_natural_order(queue, value, symmetric, config):
    forest = Forest.from_parents(scattered_cells())
    solver = make_solver(queue, forest, config, np.float32)
    system = make_system(forest, np.float32, symmetric)
    for node in (0, 20, 60, 100, forest.num_nodes - 1):
        bad = system.copy()
        bad.d[node] = value
        bad.u[forest.parent == node] = 0
        cell = int(np.searchsorted(forest.cell_offsets, node, side="right")) - 1
        with pytest.raises(PivotError) as caught:
            solver.solve(**on_device(queue, bad))
        assert (caught.value.cell, caught.value.node) == (cell, node)
