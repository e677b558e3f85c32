"""Solves by cyclic reduction, on every device."""

import warnings
from dataclasses import replace

import numpy as np
import pyopencl.array as cla
import pytest
from plans import local_places
from systems import SIZES, children_first, make_system, renumbered
from tolerances import REDUCTION_UPDATES, assert_close

from bench.made import chain
from clhines import METHODS, AccuracyWarning, Forest, PivotError, Solver
from clhines.solver import reference
from clhines.solver.accuracy import MOST_LOST
from clhines.solver.device import devices
from clhines.solver.plan.by_chain.reduction import SPARE_BYTES

pytestmark = pytest.mark.optimised
ROWS = [name for name, row in METHODS.items() if row.chains_only]
LENGTHS = (*SIZES, 3, 1000, 5000)


def give_local_memory(monkeypatch, size, **more):
    real, other = devices.limits, {"local_bytes": size, **more}
    monkeypatch.setattr(devices, "limits", lambda device: replace(real(device), **other))


def storages(solver):
    return [part.spec.storage for part in solver.plan.parts]


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize(("dtype", "symmetric"), [(np.float64, False), (np.float32, True)])
def test_chains_of_every_length(typed_queue, method, dtype, symmetric):
    """Solve them in one batch, for any numbering; they are longer than a work-group."""
    rng = np.random.default_rng(4)
    cells = [chain(n) for n in LENGTHS] + [renumbered(chain(n), rng) for n in LENGTHS]
    cells += [children_first(chain(n)) for n in LENGTHS]
    forest = Forest.from_parents([cells[k] for k in rng.permutation(len(cells))])
    system = make_system(forest, dtype, symmetric, rows=2)
    solver = Solver(forest, method, dtype, queue=typed_queue)
    x = solver.solve(**system.arrays)
    system.assert_solved(x, REDUCTION_UPDATES)
    other = Solver(forest, "interleaved", dtype, queue=typed_queue).solve(**system.arrays)
    assert_close(forest, x, other.astype(np.float64), dtype)


@pytest.mark.parametrize(("method", "is_cpu"), [*((m, True) for m in ROWS), ("cr_pcr", False)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_around_the_limit_of_local_memory(typed_queue, method, is_cpu, dtype, monkeypatch):
    """Chains that just fit, that just do not fit, and that halve a few times until they fit.

    `cr_pcr` hands over to PCR at 16 unknowns on CPUs; on GPUs at as many as fit here.
    """
    give_local_memory(monkeypatch, 4 << 10, is_cpu=is_cpu)
    itemsize = np.dtype(dtype).itemsize
    solver = Solver(Forest(chain(10**4)), method, dtype, queue=typed_queue, work_group=8)
    most = solver.plan.parts[0].spec.capacity
    assert storages(solver) == ["global"]
    spare = 4096 - SPARE_BYTES - 4 * local_places(solver.plan.parts[0].spec) * itemsize
    assert 0 <= spare < 128  # the next one would need more local memory than there is
    for lengths, expected in (
        ([most - 1, most], ["local"]),
        ([1, most + 1, 2, most, 2 * most - 1, 2 * most, 9], ["local", "global"]),
        ([2 * most + 1, 10 * most, most + 2], ["global"]),
    ):
        forest = Forest.from_parents([chain(n) for n in lengths])
        solver = Solver(forest, method, dtype, queue=typed_queue, work_group=8)
        assert storages(solver) == expected
        system = make_system(forest, dtype, symmetric=dtype == np.float32)
        system.assert_solved(solver.solve(**system.arrays), REDUCTION_UPDATES)


@pytest.mark.parametrize("switch", [1, 2, 3, 33, 100, 10**6])
def test_every_switch(fast_queue, switch):
    forest = Forest.from_parents([chain(n) for n in (1, 2, 3, 33, 64, 100)])
    system = make_system(forest, np.float32, symmetric=False)
    solver = Solver(forest, "cr_pcr", np.float32, queue=fast_queue, work_group=32, switch=switch)
    system.assert_solved(solver.solve(**system.arrays), REDUCTION_UPDATES)
    if switch in (1, 10**6):
        row = "cr" if switch == 1 else "pcr"
        other = Solver(forest, row, np.float32, queue=fast_queue, work_group=32)
        assert other.plan.parts[0].spec == solver.plan.parts[0].spec


def test_a_million_nodes(double_queue):
    forest = Forest.from_parents([chain(10**6), chain(5)])
    system = make_system(forest)
    truth = np.random.default_rng(2).uniform(0.5, 1, forest.num_nodes)
    system.b[:] = reference.multiply(forest, system.d, system.u, truth)
    x = Solver(forest, "cr_pcr", queue=double_queue).solve(**system.arrays)
    assert_close(forest, x, truth, np.float64)


@pytest.mark.parametrize("method", ROWS)
def test_device_order_in_place_above_local_memory(fast_queue, method, monkeypatch):
    """`out` may be `b`, and `d` go; several rows; factors, which are computed again."""
    give_local_memory(monkeypatch, 2 << 10)
    forest = Forest.from_parents([chain(5), chain(700), chain(300)])
    system = make_system(forest, np.float32, rows=3)
    solver = Solver(forest, method, np.float32, queue=fast_queue, work_group=8)
    assert storages(solver) == ["local", "global"]
    x = solver.solve(**system.arrays)
    system.assert_solved(x, REDUCTION_UPDATES)
    packed = {k: solver.to_device_order(a) for k, a in system.arrays.items() if a is not None}
    solver.enqueue(**packed, out=packed["b"], overwrite=True).wait()
    assert np.array_equal(solver.from_device_order(packed["b"]).get(), x)
    assert np.array_equal(solver.factor(system.d, system.u).solve(system.b), x)
    again = Solver(forest, method, np.float32, queue=fast_queue, work_group=8)
    assert np.array_equal(again.solve(**system.arrays), x)


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("size", [2 << 10, None], ids=["global", "local"])
def test_every_bad_pivot_is_named(fast_queue, method, size, monkeypatch):
    if size:
        give_local_memory(monkeypatch, size)
    forest = Forest.from_parents([chain(3), chain(297)])
    system = make_system(forest, np.float32)
    solver = Solver(forest, method, np.float32, queue=fast_queue, work_group=8)
    assert storages(solver) == (["local", "global"] if size else ["local"])
    clean = solver.solve(**system.arrays)
    for node in (0, 2, *range(3, 40), 150, 298, 299):
        for value in (0.0, np.nan, -np.inf):
            d = system.d.copy()
            d[node] = value
            u = np.where(forest.parent == node, 0, system.u)
            x = solver.solve(d, u, system.b, check=False)
            cell = int(node > 2)
            assert solver.status().tolist() == ([-1, node] if cell else [node, -1])
            other = slice(0, 3) if cell else slice(3, 300)
            assert np.array_equal(x[other], clean[other])


@pytest.mark.parametrize("method", ROWS)
def test_matrices_that_are_not_positive_definite(double_queue, method):
    """No diagonal is bad by itself; elimination from the tip names the node."""
    rng = np.random.default_rng(6)
    forest = Forest.from_parents([chain(n) for n in rng.integers(2, 90, 60)])
    d, u = rng.uniform(0.5, 4, forest.num_nodes), rng.uniform(-1, 1, forest.num_nodes)
    solver = Solver(forest, method, queue=double_queue)
    solver.solve(d, u, np.ones(forest.num_nodes), check=False)
    count = 0
    for cell, status in enumerate(solver.status()):
        here = slice(*forest.cell_offsets[cell : cell + 2])
        try:
            reference.solve_serial(forest.subset(np.array([cell])), d[here], u[here], d[here])
        except PivotError as error:
            assert status == error.node + here.start
            count += 1
        else:
            assert status == -1
    assert 10 < count < 50


def barely_dominant(forest, dtype, kind, seed=0):
    """Rows that are barely dominant, or couplings over many orders of magnitude."""
    rng, n = np.random.default_rng(seed), forest.num_nodes
    scale = 1.0 if kind == "barely" else 10.0 ** rng.uniform(-6, 6, n)
    u = (-scale * rng.uniform(0.1, 1, n)).astype(dtype)
    d = reference.multiply(forest, np.zeros(n), -u, np.ones(n))
    d = (d * (1 + 4 * np.finfo(dtype).eps)).astype(dtype)
    d[forest.parent < 0] *= 2
    return d, u, rng.uniform(-1, 1, n).astype(dtype)


@pytest.mark.parametrize("kind", ["barely", "graded"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_lost_is_said(typed_queue, dtype, kind):
    """NumPy's own product with the matrix measures it, not the code that warns."""
    n, eps = 256, np.finfo(dtype).eps
    forest = Forest.repeat([chain(n)], 4)
    d, u, b = barely_dominant(forest, dtype, kind)
    dense = reference.dense(forest, d, u, cell=2)
    lost = {}
    for method in (*ROWS, "auto", "flat", "contraction", "fine", "levels"):
        solver = Solver(forest, method, dtype, queue=typed_queue)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = solver.solve(d, u, b)
        said = [w for w in caught if issubclass(w.category, AccuracyWarning)]
        assert all(w.filename == __file__ for w in said)
        errors = []
        for lo in range(0, forest.num_nodes, n):
            k = slice(lo, lo + n)
            dense = reference.dense(forest, d, u, cell=lo // n)
            here, right = x[k].astype(np.float64), b[k].astype(np.float64)
            errors.append(
                np.abs(right - dense @ here) / (np.abs(dense) @ np.abs(here) + abs(right))
            )
        lost[method] = np.max(errors) / eps
        assert len(said) == (lost[method] > MOST_LOST), (method, lost[method])
        if method not in ROWS:
            assert lost[method] <= 4  # `tolerances`: as of any elimination from the tips
        device = [cla.to_device(typed_queue, a) for a in (d, u, b)]
        factors = solver.factor(d, u)
        for call in (lambda s=solver, a=device: s.solve(*a), lambda f=factors: f.solve(b)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
            assert [w.category for w in caught] == [w.category for w in said]
    assert lost["pcr"] > 100 * MOST_LOST  # or the test has lost its point


def test_without_check_nothing_is_measured(fast_queue, monkeypatch):
    def measured(*_):
        raise AssertionError("measured")

    monkeypatch.setattr("clhines.solver.solver.report_error", measured)
    forest = Forest(chain(30))
    system = make_system(forest, np.float32)
    solver = Solver(forest, "cr", np.float32, queue=fast_queue)
    solver.solve(**system.arrays, check=False)
    with pytest.raises(AssertionError, match="measured"):
        solver.solve(**system.arrays)
