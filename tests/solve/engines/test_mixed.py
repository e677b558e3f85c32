"""dtype mixed: float32 factors refined with float64 residuals until they are as good as float64."""

import json
from dataclasses import replace

import numpy as np
import pyopencl.array as cla
import pytest
from solvers import on_device
from systems import System, dissimilar, forest_for, make_system
from tolerances import relative_errors

from bench.made import chain, star
from clhines import (
    METHODS,
    DeviceError,
    DeviceMemoryError,
    Forest,
    InputError,
    PivotError,
    Solver,
    reference,
)
from clhines.cli.main import main
from clhines.device import devices
from clhines.errors import RefinementWarning
from clhines.solve.engines import mixed
from clhines.solve.engines.mixed import LIMIT, MAX_STEPS, Refinement


@pytest.fixture
def device(fast_queue, needs):
    needs(fast_queue, np.float64)
    return fast_queue


def some_forest():
    return Forest.from_cells([*dissimilar(9), star(70), chain(1)])


def mixed_solver(queue, forest, method="flat", **options):
    return Solver(forest, method, "mixed", queue=queue, **options)


def hard_system(nodes=20_000, d=2.0):
    """A chain with a condition of about nodes ** 2, and good cells after it."""
    forest = Forest.from_cells([chain(nodes), *dissimilar(5)])
    system = make_system(forest)
    system.d[:nodes], system.u[1:nodes] = d, -1
    return system


# ------------------------------------------------------------------------------------ as float64


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_refined(device, method):
    """The bounds of float64, which a float32 solution misses by seven orders of magnitude."""
    forest = forest_for(method, [*dissimilar(9), star(70), chain(1)])
    solver = mixed_solver(device, forest, method)
    assert solver.dtype == np.float64
    assert solver.plan.parts[0].spec.real == "float"
    for symmetric, rows in ((True, None), (False, 6)):
        system = make_system(forest, symmetric=symmetric, rows=rows)
        kept = system.copy()
        x = solver.solve(**system.arrays)
        system.assert_solved(x)
        assert all(np.array_equal(a, system.arrays[k]) for k, a in kept.arrays.items() if k != "l")
        assert 1 <= solver.refinement.steps <= 4
        assert solver.refinement.residual <= LIMIT
        assert (solver.status() == -1).all()
        assert solver.kernel_events


def test_cells_of_several_chunks(device, monkeypatch):
    """However a cell is cut, each row is added up in one order."""
    forest = Forest.from_cells([chain(mixed.CHUNK * 2 + 1), star(mixed.CHUNK + 1), *dissimilar(6)])
    system = make_system(forest, symmetric=False, rows=2)
    x = mixed_solver(device, forest).solve(**system.arrays)
    system.assert_solved(x)
    monkeypatch.setattr(mixed, "CHUNK", 7)
    solver = mixed_solver(device, forest)
    for _ in range(2):
        assert np.array_equal(solver.solve(**system.arrays), x)


def test_factors_for_many_right_hand_sides(device):
    forest = some_forest()
    solver = mixed_solver(device, forest, "contraction")
    system = make_system(forest, symmetric=False, rows=3)
    arrays = on_device(device, system)
    factors = solver.factor(arrays["d"], arrays["u"], l=arrays["l"])
    for name in "dul":  # the caller may go on with its own
        arrays[name].fill(np.nan)
    plain = solver.solve(**system.arrays)
    x = factors.solve(arrays["b"])
    assert isinstance(x, cla.Array)
    assert np.array_equal(x.get(), plain)
    for row in range(3):
        one = factors.solve(system.b[row])
        System(forest, system.d, system.u, system.b[row], system.l).assert_solved(one)
    assert (factors.status() == -1).all()


@pytest.mark.parametrize("rows", [None, 6])
def test_device_arrays_in_device_arrays_out(device, rows):
    forest = some_forest()
    system = make_system(forest, rows=rows)
    solver = mixed_solver(device, forest)
    expected = solver.solve(**system.arrays)
    arrays = on_device(device, system)
    x = solver.solve(**arrays)
    assert x.dtype == np.float64
    assert np.array_equal(x.get(), expected)
    for name in "dub":
        assert np.array_equal(arrays[name].get(), system.arrays[name])
    out = cla.zeros_like(arrays["b"])
    assert solver.solve(**arrays, out=out, check=False) is out
    assert np.array_equal(out.get(), expected)
    assert solver.solve(**arrays, overwrite=True) is arrays["b"]
    assert np.array_equal(arrays["b"].get(), expected)
    out = np.empty_like(system.b)
    assert solver.solve(**system.arrays, out=out) is out
    assert solver.solve(**system.arrays, overwrite=True) is system.b
    assert np.array_equal(out, expected)
    assert np.array_equal(system.b, expected)


def test_right_hand_sides_of_any_size(device):
    """Residuals are scaled, each cell's by itself: float32's range does not bound b."""
    forest = some_forest()
    solver = mixed_solver(device, forest)
    system = make_system(forest, rows=4)
    system.b[:] *= np.array([1e-250, 1e-30, 1e60, 0])[:, None]
    system.b[1, : forest.sizes[0]] = 0
    x = solver.solve(**system.arrays)
    assert reference.residual(forest, system.d, system.u, system.b, x) <= LIMIT
    assert (x[3] == 0).all()
    for row in (0, 2):
        System(forest, system.d, system.u, system.b[row]).assert_solved(x[row])
    assert solver.solve(system.d, system.u, 0 * system.b).any() == False  # noqa: E712
    assert solver.refinement == Refinement(0, 0.0)


def test_one_cell_goes_not_the_way_of_another(device):
    """A slow cell takes all its corrections; those that are done keep their bits."""
    slow = hard_system(3000)
    solver = mixed_solver(device, slow.forest)
    x = solver.solve(**slow.arrays)
    assert 3 <= solver.refinement.steps <= MAX_STEPS
    assert reference.residual(slow.forest, slow.d, slow.u, slow.b, x) <= LIMIT
    n = slow.forest.sizes[0]
    rest = slow.forest.take(np.arange(1, slow.forest.num_cells))
    y = mixed_solver(device, rest).solve(slow.d[n:], slow.u[n:], slow.b[n:])
    assert np.array_equal(x[n:], y)


# ------------------------------------------------------------------------------ what goes wrong


def test_what_cannot_be_refined_is_not_silent(device):
    system = hard_system()
    solver = mixed_solver(device, system.forest)
    with pytest.warns(RefinementWarning, match=r"residual is .* after \d+ corrections") as caught:
        x = solver.solve(**system.arrays)
    assert caught[0].filename == __file__
    assert not solver.refinement.reached
    assert solver.refinement.steps < MAX_STEPS
    arrays = {"d": system.d, "u": system.u, "b": system.b}
    found = reference.residual(system.forest, x=x, **arrays)
    assert found == pytest.approx(solver.refinement.residual, rel=1e-3)
    n = system.forest.sizes[0]  # the other cells are as good as ever
    errors = relative_errors(system.forest, x, system.truth())
    assert errors[1:].max() < 1e-14
    with pytest.warns(RefinementWarning) as caught:
        solver.factor(system.d, system.u).solve(system.b)
    assert caught[0].filename == __file__
    system.d[:n] = 4
    system.assert_solved(solver.solve(**system.arrays))
    assert solver.refinement.reached


@pytest.mark.parametrize("kind", ["numpy", "device"])
def test_values_beyond_float32_are_refused(device, kind):
    forest = some_forest()
    solver = mixed_solver(device, forest)
    node = int(forest.cell_offsets[4]) + 1
    for name, value, symmetric in (
        ("d", 1e39, True),
        ("d", 1e-39, True),
        ("u", -3.5e38, True),
        ("l", 1e300, False),
    ):
        system = make_system(forest, symmetric=symmetric)
        system.arrays[name][node] = value
        roots = forest.parent < 0
        system.u[roots] = 1e300  # nobody looks at these
        arrays = system.arrays if kind == "numpy" else on_device(device, system)
        words = rf"cell 4, node {node}: {name} is {value:.6g}; expected .* range of float32"
        for call in (solver.solve, lambda b, **matrix: solver.factor(**matrix)):
            with pytest.raises(InputError, match=words.replace("+", r"\+")):
                call(**arrays)
        system.arrays[name][node] = 3
    system.assert_solved(solver.solve(**system.arrays))


@pytest.mark.parametrize("value", [-2.0, 0.0, np.nan, np.inf])
def test_bad_pivots_name_cell_and_node(device, value):
    forest = some_forest()
    solver = mixed_solver(device, forest, "contraction")
    system = make_system(forest)
    clean = solver.solve(**system.arrays)
    here = np.arange(*forest.cell_offsets[3:5])
    node = here[-1]
    system.d[node] = value
    system.u[forest.parent == node] = 0
    with pytest.raises(PivotError, match=f"cell 3, node {node} "):
        solver.solve(**system.arrays)
    assert solver.status()[3] == node
    with pytest.raises(PivotError, match=f"cell 3, node {node} "):
        solver.factor(system.d, system.u)
    with np.errstate(all="ignore"):
        if value == -2:
            x = solver.solve(**system.arrays, check=False)
        else:
            with pytest.warns(RefinementWarning, match="inf"):
                x = solver.solve(**system.arrays, check=False)
            assert np.isnan(x[here]).all()
    assert (np.delete(solver.status(), 3) == -1).all()
    others = np.delete(np.arange(forest.num_nodes), here)
    assert np.array_equal(x[others], clean[others])


def test_right_hand_sides_that_are_not_finite(device):
    forest = some_forest()
    system = make_system(forest)
    solver = mixed_solver(device, forest)
    clean = solver.solve(**system.arrays)
    system.b[2] = np.nan
    with pytest.raises(InputError, match="cell 0, node 2: b is nan; expected finite"):
        solver.solve(**system.arrays)
    with pytest.warns(RefinementWarning):
        x = solver.solve(**on_device(device, system)).get()
    n = forest.sizes[0]
    assert np.isnan(x[:n]).all()
    assert np.array_equal(x[n:], clean[n:])


def test_device_order_is_refused(device):
    forest = Forest(chain(5))
    solver = mixed_solver(device, forest)
    assert not solver.takes_device_order
    system = make_system(forest)
    a = cla.to_device(device, system.d)
    factors = solver.factor(system.d, system.u)
    for call in (
        lambda: solver.pack(system.d),
        lambda: solver.unpack(a),
        lambda: solver.enqueue(a, a, a, out=a),
        lambda: factors.enqueue(a, out=a),
    ):
        with pytest.raises(InputError, match="dtype 'mixed' has natural order only: use solve"):
            call()
    with pytest.raises(InputError, match="d has dtype float32; expected float64"):
        solver.solve(a.astype(np.float32), a, a)


def test_other_names_and_devices_without_float64(device, monkeypatch):
    forest = Forest(chain(5))
    with pytest.raises(InputError, match=r"dtype 'mixt' is not supported; .* 'mixed'"):
        Solver(forest, "flat", "mixt", queue=device)
    monkeypatch.setattr(devices, "has_fp64", lambda device: False)
    with pytest.raises(DeviceError, match="has no float64"):
        mixed_solver(device, forest)
    with pytest.raises(DeviceError, match="no device for float64|has no float64"):
        Solver(forest, "flat", "mixed", device=device.device)


def test_memory(device):
    forest = Forest.from_cells(dissimilar(60, least=5))
    system = make_system(forest, rows=6)
    roomy = mixed_solver(device, forest)
    assert roomy.engine.rows_at_once > 1
    expected = roomy.solve(**system.arrays)
    rounded = roomy.engine.rounded
    tight = rounded.room.needed(rounded.plan) + mixed.bytes_beside(forest, 1)
    solver = mixed_solver(device, forest, max_memory=tight)
    assert solver.engine.rows_at_once == 1
    assert solver.memory[0].device == tight < roomy.memory[0].device
    assert np.array_equal(solver.solve(**system.arrays), expected)
    for most in (1000, tight - 1):
        with pytest.raises(DeviceMemoryError, match=r"'mixed' needs the whole batch|MiB"):
            mixed_solver(device, forest, max_memory=most)


# ------------------------------------------------------------------------------------- the rest


def test_tables_by_hand(monkeypatch):
    monkeypatch.setattr(mixed, "CHUNK", 2)
    fork = np.array([1, -1, 1])  # the root is node 1
    tables = mixed.refinement_tables(Forest.from_cells([fork, np.array([-1]), fork]))
    assert {name: table.tolist() for name, table in tables.items()} == {
        "chunks": [[0, 2, 0, 0], [2, 3, 0, 0], [3, 4, 1, 0], [4, 6, 2, -4], [6, 7, 2, -4]],
        "cell_chunks": [0, 2, 3, 5],
        "parent": [1, -1, 1, -1],
        "child_start": [0, 0, 2, 2, 2],
        "child": [0, 2, -1],
    }


def test_on_the_command_line(device, monkeypatch, capsys):
    monkeypatch.setenv("CLHINES_DEVICE", device.device.name.strip())
    assert main(["solve", "--dtype", "mixed", "--method", "flat", "--steps", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["dtype"], report["check"]) == ("mixed", "good")
    assert report["residual"] < 1e-15
    assert report["plan_s"] > 0
    assert main(["plan", "--dtype", "mixed", "--method", "flat"]) == 0
    assert "method            flat" in capsys.readouterr().out


def test_what_a_report_says():
    assert Refinement(2, LIMIT).reached
    assert not replace(Refinement(2, LIMIT), residual=np.inf).reached
    assert not Refinement(2, np.nan).reached
