"""Rows `cr`, `pcr` and `cr_pcr`: chains of every length, with every switch, and what is refused."""

import warnings
from dataclasses import replace

import numpy as np
import pyopencl.array as cla
import pytest
from systems import SIZES, children_first, make_system, renumbered
from tolerances import REDUCTION_UPDATES, assert_close

from clhines import (
    METHODS,
    AccuracyWarning,
    Forest,
    InputError,
    PivotError,
    Solver,
    make_plan,
    reference,
)
from clhines.cells.shapes import chain, star
from clhines.device import devices
from clhines.plan import auto
from clhines.plan.by_cell.reduction import SPARE_BYTES
from clhines.plan.plan import Limits
from clhines.solve import accuracy

ROWS = [name for name, row in METHODS.items() if row.chains_only]
LENGTHS = (*SIZES, 3, 1000, 5000)


def give_local_memory(monkeypatch, size, **more):
    real, other = devices.limits, {"local_bytes": size, **more}
    monkeypatch.setattr(devices, "limits", lambda device: replace(real(device), **other))


def local_places(spec):
    """Places in local memory of so many unknowns: PCR has its own beside those of CR."""
    places = spec.capacity + spec.capacity // 32
    return places + (spec.switch + spec.switch // 32 if spec.switch > 1 else 0)


def storages(solver):
    return [part.spec.storage for part in solver.plan.parts]


def test_the_rows():
    assert set(ROWS) == {"cr", "pcr", "cr_pcr"}
    chains = Forest.from_cells([chain(100), chain(7)])
    switch = {m: make_plan(chains, m).parts[0].spec.switch for m in ROWS}
    capacity = make_plan(chains, "pcr").parts[0].spec.capacity
    assert switch == {"cr": 1, "pcr": capacity, "cr_pcr": capacity}  # shorter than the switch
    assert make_plan(chains, "cr_pcr", switch=9).parts[0].spec.switch == 9
    assert make_plan(Forest(chain(900)), "cr_pcr").parts[0].spec.switch == 256


# ----------------------------------------------------------------------------------- right


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize(("dtype", "symmetric"), [(np.float64, False), (np.float32, True)])
def test_chains_of_every_length(fast_queue, needs, method, dtype, symmetric):
    """In one batch, whatever the numbering; they are longer than a work-group."""
    needs(fast_queue, dtype)
    rng = np.random.default_rng(4)
    cells = [chain(n) for n in LENGTHS] + [renumbered(chain(n), rng) for n in LENGTHS]
    cells += [children_first(chain(n)) for n in LENGTHS]
    forest = Forest.from_cells([cells[k] for k in rng.permutation(len(cells))])
    system = make_system(forest, dtype, symmetric, rows=2)
    solver = Solver(forest, method, dtype, queue=fast_queue)
    x = solver.solve(**system.arrays)
    system.assert_solved(x, REDUCTION_UPDATES)
    other = Solver(forest, "interleaved", dtype, queue=fast_queue).solve(**system.arrays)
    assert_close(forest, x, other.astype(np.float64), dtype)


@pytest.mark.parametrize(("method", "is_cpu"), [*((m, True) for m in ROWS), ("cr_pcr", False)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_around_the_limit_of_local_memory(fast_queue, needs, method, is_cpu, dtype, monkeypatch):
    """Chains that just fit, that just do not, and that halve a few times until they do.

    `cr_pcr` hands over to PCR at 16 unknowns on CPUs; on GPUs at as many as fit here.
    """
    needs(fast_queue, dtype)
    give_local_memory(monkeypatch, 4 << 10, is_cpu=is_cpu)
    itemsize = np.dtype(dtype).itemsize
    solver = Solver(Forest(chain(10**4)), method, dtype, queue=fast_queue, work_group=8)
    most = solver.plan.parts[0].spec.capacity
    assert storages(solver) == ["global"]
    spare = 4096 - SPARE_BYTES - 4 * local_places(solver.plan.parts[0].spec) * itemsize
    assert 0 <= spare < 128  # the next one would need more local memory than there is
    for lengths, expected in (
        ([most - 1, most], ["local"]),
        ([1, most + 1, 2, most, 2 * most - 1, 2 * most, 9], ["local", "global"]),
        ([2 * most + 1, 10 * most, most + 2], ["global"]),
    ):
        forest = Forest.from_cells([chain(n) for n in lengths])
        solver = Solver(forest, method, dtype, queue=fast_queue, work_group=8)
        assert storages(solver) == expected
        system = make_system(forest, dtype, symmetric=dtype == np.float32)
        system.assert_solved(solver.solve(**system.arrays), REDUCTION_UPDATES)


@pytest.mark.parametrize("switch", [1, 2, 3, 33, 100, 10**6])
def test_every_switch(fast_queue, switch):
    forest = Forest.from_cells([chain(n) for n in (1, 2, 3, 33, 64, 100)])
    system = make_system(forest, np.float32, symmetric=False)
    solver = Solver(forest, "cr_pcr", np.float32, queue=fast_queue, work_group=32, switch=switch)
    system.assert_solved(solver.solve(**system.arrays), REDUCTION_UPDATES)
    if switch in (1, 10**6):
        row = "cr" if switch == 1 else "pcr"
        other = Solver(forest, row, np.float32, queue=fast_queue, work_group=32)
        assert other.plan.parts[0].spec == solver.plan.parts[0].spec


def test_a_million_nodes(fast_queue, needs):
    needs(fast_queue, np.float64)
    forest = Forest.from_cells([chain(10**6), chain(5)])
    system = make_system(forest)
    known = np.random.default_rng(2).uniform(0.5, 1, forest.num_nodes)
    system.b[:] = reference.multiply(forest, system.d, system.u, known)
    x = Solver(forest, "cr_pcr", queue=fast_queue).solve(**system.arrays)
    assert_close(forest, x, known, np.float64)


@pytest.mark.parametrize("method", ROWS)
def test_device_order_in_place_above_local_memory(fast_queue, method, monkeypatch):
    """`out` may be `b`, and `d` go; several rows; factors, which are worked out anew."""
    give_local_memory(monkeypatch, 2 << 10)
    forest = Forest.from_cells([chain(5), chain(700), chain(300)])
    system = make_system(forest, np.float32, rows=3)
    solver = Solver(forest, method, np.float32, queue=fast_queue, work_group=8)
    assert storages(solver) == ["local", "global"]
    x = solver.solve(**system.arrays)
    system.assert_solved(x, REDUCTION_UPDATES)
    packed = {k: solver.pack(a) for k, a in system.arrays.items() if a is not None}
    solver.enqueue(**packed, out=packed["b"], overwrite=True).wait()
    assert np.array_equal(solver.unpack(packed["b"]).get(), x)
    assert np.array_equal(solver.factor(system.d, system.u).solve(system.b), x)
    again = Solver(forest, method, np.float32, queue=fast_queue, work_group=8)
    assert np.array_equal(again.solve(**system.arrays), x)


# ----------------------------------------------------------------------------------- pivots


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("size", [2 << 10, None], ids=["global", "local"])
def test_every_bad_pivot_is_named(fast_queue, method, size, monkeypatch):
    """Whichever step eliminates it, and with its neighbours' couplings as they are."""
    if size:
        give_local_memory(monkeypatch, size)
    forest = Forest.from_cells([chain(3), chain(297)])
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
def test_matrices_that_are_not_positive_definite(fast_queue, needs, method):
    """No diagonal is bad by itself; the node is the one that elimination from the tip names."""
    needs(fast_queue, np.float64)
    rng = np.random.default_rng(6)
    forest = Forest.from_cells([chain(n) for n in rng.integers(2, 90, 60)])
    d, u = rng.uniform(0.5, 4, forest.num_nodes), rng.uniform(-1, 1, forest.num_nodes)
    solver = Solver(forest, method, queue=fast_queue)
    solver.solve(d, u, np.ones(forest.num_nodes), check=False)
    found = 0
    for cell, status in enumerate(solver.status()):
        here = slice(*forest.cell_offsets[cell : cell + 2])
        try:
            reference.solve_serial(forest.take(np.array([cell])), d[here], u[here], d[here])
        except PivotError as error:
            assert status == error.node + here.start
            found += 1
        else:
            assert status == -1
    assert 10 < found < 50


# ----------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("local_bytes", [600, 5000, 48 << 10, 1 << 20])
@pytest.mark.parametrize("options", [{}, {"switch": 3}], ids=str)
def test_local_memory_is_never_exceeded(method, dtype, local_bytes, options):
    if not set(options) <= set(METHODS[method].options):
        return
    limits = Limits(local_bytes=local_bytes)
    cells = [chain(n) for n in (1, 33, 700, 1500, 3001, 70_000)]
    plan = make_plan(Forest.from_cells(cells), method, dtype, limits, **options)
    for part in plan.parts:
        spec = part.spec
        assert 4 * local_places(spec) * np.dtype(dtype).itemsize + SPARE_BYTES <= local_bytes
        assert 1 <= spec.switch <= spec.capacity
        assert 0 <= part.statistics["idle_lanes"] < 1
    assert np.array_equal(np.sort(plan.gather), np.arange(plan.forest.num_nodes))


def test_statistics_of_a_chain_of_eight():
    forest = Forest(chain(8))
    cr = make_plan(forest, "cr", work_group=4).parts[0].statistics
    assert cr["rounds"] == cr["dependent_steps"] == 3 + 1 + 3
    assert cr["idle_lanes"] == 1 - (2 * (4 + 2 + 1) + 1) / (7 * 4)
    pcr = make_plan(forest, "pcr", work_group=4).parts[0].statistics
    assert (pcr["rounds"], pcr["dependent_steps"], pcr["idle_lanes"]) == (3 + 1, 8, 0)
    both = make_plan(forest, "cr_pcr", work_group=4, switch=4).parts[0].statistics
    assert (both["rounds"], both["idle_lanes"]) == (1 + 2 + 1 + 1, 0)


@pytest.mark.parametrize("method", ROWS)
def test_branches_are_refused(method):
    root_inside = np.array([1, 2, -1, 2])  # a chain, but its root has two children
    for cells, words in (
        ([chain(4), chain(1), star(4), star(5)], r"cell 2 branches: node 5 \(number 0 of its cell"),
        ([chain(4), root_inside], r"cell 1 branches: node 6 \(number 2 of its cell\) has 2 child"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            make_plan(Forest.from_cells(cells), method)
        assert f"method {method!r} solves chains only" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_bad_options():
    forest = Forest(chain(5000))
    for options, words in (
        ({"switch": 0}, r"switch=0 is not valid; expected a whole number of at least 1"),
        ({"switch": 2.5}, r"switch=2.5 is not valid"),
        ({"switch": 745}, r"switch=745 is above the limit of 744 unknowns that PCR can hold"),
        ({"work_group": 257}, r"work_group=257 is above the device's limit of 256 work-items"),
        ({"max_cells": 4}, r"option 'max_cells' is not one of method 'cr_pcr'"),
    ):
        with pytest.raises(InputError, match=words):
            make_plan(forest, "cr_pcr", **options)
    assert make_plan(forest, "cr_pcr", switch=744).parts[0].spec.switch == 744
    with pytest.raises(InputError, match="'switch' is not one of method 'cr'"):
        make_plan(forest, "cr", switch=3)
    with pytest.raises(InputError, match="needs more local memory than 64 B"):
        make_plan(forest, "cr", limits=Limits(local_bytes=64))


# -------------------------------------------------------------------------------- accuracy


def barely_dominant(forest, dtype, kind, seed=0):
    """Rows that are dominant by the least, or couplings over many orders of magnitude."""
    rng, n = np.random.default_rng(seed), forest.num_nodes
    scale = 1.0 if kind == "barely" else 10.0 ** rng.uniform(-6, 6, n)
    u = (-scale * rng.uniform(0.1, 1, n)).astype(dtype)
    d = reference.multiply(forest, np.zeros(n), -u, np.ones(n))
    d = (d * (1 + 4 * np.finfo(dtype).eps)).astype(dtype)
    d[forest.parent < 0] *= 2
    return d, u, rng.uniform(-1, 1, n).astype(dtype)


@pytest.mark.parametrize("kind", ["barely", "graded"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_lost_is_said(fast_queue, needs, dtype, kind):
    """By NumPy's own product with the matrix, not by the code that warns."""
    needs(fast_queue, dtype)
    n, eps = 256, np.finfo(dtype).eps
    forest = Forest.repeated([chain(n)], 4)
    d, u, b = barely_dominant(forest, dtype, kind)
    dense = reference.dense(forest, d, u, cell=2)
    lost = {}
    for method in (*ROWS, "auto", "flat", "contraction", "fine", "levels"):
        solver = Solver(forest, method, dtype, queue=fast_queue)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = solver.solve(d, u, b)
        said = [w for w in caught if issubclass(w.category, AccuracyWarning)]
        assert all(w.filename == __file__ for w in said)
        errors = []
        for lo in range(0, forest.num_nodes, n):
            k = slice(lo, lo + n)
            dense = reference.dense(forest, d, u, cell=lo // n)
            here, given = x[k].astype(np.float64), b[k].astype(np.float64)
            errors.append(
                np.abs(given - dense @ here) / (np.abs(dense) @ np.abs(here) + abs(given))
            )
        lost[method] = np.max(errors) / eps
        assert len(said) == (lost[method] > accuracy.LIMIT), (method, lost[method])
        if method not in ROWS:
            assert lost[method] <= 4  # `tolerances`: as of any elimination from the tips
        device = [cla.to_device(fast_queue, a) for a in (d, u, b)]
        factors = solver.factor(d, u)
        for call in (lambda s=solver, a=device: s.solve(*a), lambda f=factors: f.solve(b)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
            assert [w.category for w in caught] == [w.category for w in said]
    assert lost["pcr"] > 100 * accuracy.LIMIT  # or the test has lost its point


def test_auto_takes_none_of_them():
    for candidates in auto.CANDIDATES.values():
        assert not {c.method for c in candidates} & set(ROWS)


def test_without_check_nothing_is_measured(fast_queue, monkeypatch):
    def measured(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(accuracy, "warn_where_lost", measured)
    forest = Forest(chain(30))
    system = make_system(forest, np.float32)
    solver = Solver(forest, "cr", np.float32, queue=fast_queue)
    solver.solve(**system.arrays, check=False)
    with pytest.raises(AssertionError, match="measured"):
        solver.solve(**system.arrays)
