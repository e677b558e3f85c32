"""Passive cells in time, on every device, against a loop over the serial reference."""

import numpy as np
import pytest
from commands import backward_euler, plant_right_hand_side
from real_cells import FOLDER, needs_folder
from tolerances import assert_close, forward_bound, relative_errors

from clhines import METHODS, InputError, PivotError
from clhines.cli.main import main
from clhines.core.errors import ClhinesError
from clhines.simulator.cells.cable import Cable, System, discretise
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.cells.synthetic import sample_cells
from clhines.simulator.passive import PassiveCells

CABLES = [discretise(cell) for cell in sample_cells()[:3]]
SMALL = [discretise(cell, max_length=100) for cell in sample_cells()[:2]]


def assert_voltages(cells, cables, steps, **options):
    """Each step adds no more than the error of one solve: errors shrink from step to step."""
    forest, expected = backward_euler(cables, cells.forest.num_cells, steps, **options)
    v = cells.voltages()
    assert v.shape == (forest.num_nodes,)
    assert v.dtype == cells.solver.dtype
    np.testing.assert_array_equal(cells.forest.parent, forest.parent)
    np.testing.assert_array_equal(cells.forest.cell_offsets, forest.cell_offsets)
    errors = relative_errors(forest, v, expected)
    assert (errors <= steps * forward_bound(forest, v.dtype)).all(), errors.max()


def ball(radius):
    """A soma of one sample: a single compartment."""
    return Morphology(
        parent=np.array([-1]),
        xyz=np.zeros((1, 3)),
        radius=np.array([float(radius)]),
        type=np.array([1]),
        id=np.array([1]),
        line=np.array([0]),
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", [m for m, row in METHODS.items() if not row.chains_only])
def test_repeated_cells_follow_the_reference(fast_queue, needs, method, dtype):
    needs(fast_queue, dtype)
    cells = PassiveCells(CABLES, 8, method=method, dtype=dtype, queue=fast_queue)
    np.testing.assert_array_equal(cells.voltages(), np.float32(-65))
    assert cells.advance(range(5)) > 0
    assert cells.steps == 5
    assert_voltages(cells, CABLES, 5)
    v, offsets = cells.voltages(), cells.forest.cell_offsets
    for k in range(3, 8):  # copies are equal, so that an answer cannot hang on the place
        a, b = (v[offsets[i] : offsets[i + 1]] for i in (k % 3, k))
        np.testing.assert_allclose(b, a, rtol=64 * np.finfo(dtype).eps)


def test_all_devices(every_queue):
    """Simulators too: a few steps of two small cells."""
    cells = PassiveCells(SMALL, 3, dtype="float32", queue=every_queue)
    cells.advance(range(2))
    assert_voltages(cells, SMALL, 2)


@pytest.mark.parametrize(
    "options",
    [{"dt": 1.0}, {"current": 0.0}, {"current": -0.3, "v_init": -80.0}, {"dt": 100.0}],
    ids=str,
)
def test_step_current_and_start(fast_queue, needs, options):
    needs(fast_queue, "float64")
    cells = PassiveCells(CABLES, queue=fast_queue, **options)
    assert cells.forest.num_cells == len(CABLES)
    cells.advance(range(4))
    assert_voltages(cells, CABLES, 4, **options)


def test_fewer_cells_than_cables(fast_queue, needs):
    needs(fast_queue, "float64")
    cells = PassiveCells(CABLES, 2, queue=fast_queue)
    cells.advance(range(3))
    assert_voltages(cells, CABLES, 3)
    assert cells.check()["residual"] < 1e-14


@pytest.mark.parametrize("cut", [1, 4, 32])
def test_two_calls_equal_one(fast_queue, needs, cut):
    """40 steps pass the mark at which the host waits for the device."""
    needs(fast_queue, "float64")
    once, twice = (PassiveCells(SMALL, 5, queue=fast_queue) for _ in range(2))
    once.advance(range(40))
    twice.advance(range(cut))
    half = twice.voltages()
    twice.advance(range(cut, 40))
    assert once.steps == twice.steps == 40
    np.testing.assert_array_equal(once.voltages(), twice.voltages())
    assert not np.array_equal(half, twice.voltages())
    assert once.check() == twice.check()


def test_looking_changes_nothing(fast_queue, needs):
    needs(fast_queue, "float64")
    plain, watched = (PassiveCells(SMALL, 4, queue=fast_queue) for _ in range(2))
    plain.advance(range(6))
    for k in range(6):
        watched.advance(range(k, k + 1))
        watched.voltages()
        watched.check()
        watched.solve_again()[-1].wait()
    np.testing.assert_array_equal(plain.voltages(), watched.voltages())


def test_any_iterable_of_steps(fast_queue, needs):
    needs(fast_queue, "float64")
    cells = PassiveCells(SMALL, queue=fast_queue)
    cells.advance(range(0))
    np.testing.assert_array_equal(cells.voltages(), -65.0)
    cells.advance(iter([7, 3]))
    assert cells.steps == 2
    assert_voltages(cells, SMALL, 2)


@pytest.mark.parametrize("method", ["block_interleaved", "contraction"])
def test_slices_give_the_same(fast_queue, needs, method):
    needs(fast_queue, "float64")
    options = {"method": method, "queue": fast_queue}
    whole = PassiveCells(CABLES, 20, **options)
    sliced = PassiveCells(CABLES, 20, max_memory=150_000, **options)
    assert whole.solver.num_slices == 1
    assert sliced.solver.num_slices > 2
    for cells in (whole, sliced):
        cells.advance(range(3))
        cells.advance(range(3, 5))
        assert_voltages(cells, CABLES, 5)
        assert cells.check()["residual"] < 1e-14
    forest = whole.forest
    assert_close(forest, sliced.voltages(), whole.voltages(), np.float64)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_check_compares_with_the_reference(fast_queue, needs, dtype):
    needs(fast_queue, dtype)
    eps = np.finfo(dtype).eps
    cells = PassiveCells(CABLES, 7, dtype=dtype, queue=fast_queue)
    cells.advance(range(3))
    found = cells.check()
    height = cells.forest.heights.max()
    assert set(found) == {"residual", "difference", "condition"}
    assert all(isinstance(value, float) for value in found.values())
    assert 0 < found["residual"] <= 8 * eps
    assert 0 < found["difference"] <= 8 * eps * np.sqrt(height)


@pytest.mark.parametrize(
    "wrong",
    [
        "0.5f * capacitance_over_dt[i] * v[i] - fixed[i]",
        "capacitance_over_dt[i] * v[i]",
        "capacitance_over_dt[i] * v[0] + fixed[i]",
        "capacitance_over_dt[i] * v[i] + (real) 1.000001 * fixed[i]",
        "capacitance_over_dt[i] * v[i] + fixed[i] + (i == 17)",
    ],
)
def test_check_finds_a_wrong_right_hand_side(fast_queue, needs, monkeypatch, wrong):
    needs(fast_queue, "float64")
    good = PassiveCells(SMALL, 3, queue=fast_queue)
    good.advance(range(3))
    plant_right_hand_side(monkeypatch, wrong)
    bad = PassiveCells(SMALL, 3, queue=fast_queue)
    bad.advance(range(3))
    assert not np.allclose(good.voltages(), bad.voltages(), rtol=1e-13)
    expected = good.check()
    for name in ("residual", "difference"):  # the condition is that of the matrix
        assert bad.check()[name] > 100 * expected[name]


@pytest.mark.parametrize("sliced", [False, True])
def test_check_names_a_bad_pivot(fast_queue, needs, monkeypatch, sliced):
    needs(fast_queue, "float64")
    system, broken_node = Cable.system, SMALL[1].num_nodes - 1

    def broken(self, dt, *arguments):
        good = system(self, dt, *arguments)
        if self is SMALL[1]:
            good.d[broken_node] = -1.0
        return System(good.d, good.u, good.capacitance_over_dt, good.constant)

    monkeypatch.setattr(Cable, "system", broken)
    nodes = 2 * sum(c.num_nodes for c in SMALL)
    limit = {"max_memory": 40 * nodes} if sliced else {}  # of at least 64 bytes a node
    cells = PassiveCells(SMALL, 4, queue=fast_queue, **limit)
    assert (cells.solver.num_slices > 1) == sliced
    cells.advance(range(2))
    with pytest.raises(PivotError, match=f"number {broken_node} of its cell") as caught:
        cells.check()
    assert caught.value.cell == 1
    assert caught.value.node == SMALL[0].num_nodes + broken_node


@pytest.mark.core
def test_isopotential_cell_against_its_closed_form(fast_queue, needs):
    """Steps as long as the time constant (cm / g_pas = 10 ms) halve what is left each time."""
    needs(fast_queue, "float64")
    radii, current = (5.0, 10.0, 20.0), 0.05
    cells = PassiveCells(
        [discretise(ball(r)) for r in radii], dt=10.0, current=current, queue=fast_queue
    )
    assert cells.forest.num_nodes == 3
    areas = 4 * np.pi * np.array(radii) ** 2 * 1e-8  # cm²
    rise = current * 1e-9 / (1e-4 * areas) * 1e3  # mV
    assert rise.min() > 5
    for step in (1, 2, 3, 10):
        cells.advance(range(cells.steps, step))
        expected = -65 + rise * (1 - 0.5**step)
        np.testing.assert_allclose(cells.voltages(), expected, rtol=1e-6)  # float32 coordinates
    cells.advance(range(10, 70))
    np.testing.assert_allclose(cells.voltages(), -65 + rise, rtol=1e-6)
    steady = cells.voltages()
    cells.advance(range(70, 75))
    np.testing.assert_allclose(cells.voltages(), steady, rtol=1e-13)


def test_cells_without_a_current_stay_at_rest(fast_queue, needs):
    needs(fast_queue, "float64")
    cells = PassiveCells(SMALL, 4, current=0.0, queue=fast_queue)
    cells.advance(range(20))
    np.testing.assert_allclose(cells.voltages(), -65.0, rtol=1e-13)


def test_no_cells(fast_queue):
    with pytest.raises(InputError, match="no cables; expected at least one"):
        PassiveCells([], queue=fast_queue)
    with pytest.raises(ClhinesError, match="0 cells|1 or more"):
        PassiveCells(SMALL, 0, queue=fast_queue)


@pytest.mark.parametrize("dt", [0, -0.025, np.nan, np.inf, "fast"])
def test_bad_dt(fast_queue, dt):
    with pytest.raises(InputError, match="dt is .*expected a positive number"):
        PassiveCells(SMALL, dt=dt, queue=fast_queue)


def test_bad_options(fast_queue):
    with pytest.raises(InputError, match="fastest"):
        PassiveCells(SMALL, method="fastest", queue=fast_queue)
    with pytest.raises(InputError, match="int32"):
        PassiveCells(SMALL, dtype="int32", queue=fast_queue)


def test_nothing_to_check_before_the_first_step(fast_queue):
    cells = PassiveCells(SMALL, dtype="float32", queue=fast_queue)
    with pytest.raises(InputError, match="no step to check"):
        cells.check()


@needs_folder
@pytest.mark.parametrize("length", ["2", "0.5"])
@pytest.mark.parametrize("name", ["96ML.CNG.swc", "BS0284.swc"])
def test_good_solutions_of_ill_conditioned_systems_are_good(
    fast_queue, needs, capsys, name, length
):
    """Compartments of 0.5 um: off by 1e-12, with a componentwise backward error of 1e-16."""
    needs(fast_queue, "float64")
    arguments = ["solve", str(FOLDER / "good" / name), "--max-length", length, "--steps", "2"]
    assert main([*arguments, "--device", fast_queue.device.name.strip()]) == 0
    assert "check      good" in capsys.readouterr().out


@needs_folder
@pytest.mark.parametrize("share", [1e-9, 1e-12])
def test_a_planted_fault_in_an_ill_conditioned_system(
    fast_queue, needs, capsys, monkeypatch, share
):
    """One voltage of one node is off by less than the condition allows: the residual shows it."""
    needs(fast_queue, "float64")
    voltages = PassiveCells.voltages

    def wrong(self):
        found = voltages(self)
        found[len(found) // 2] *= 1 + share
        return found

    monkeypatch.setattr(PassiveCells, "voltages", wrong)
    cell = str(FOLDER / "good" / "96ML.CNG.swc")
    assert main(["solve", cell, "--max-length", "0.5", "--steps", "2"]) == 1
    assert "the check failed: residual" in capsys.readouterr().err


def test_passive_cells_pass_it_on(fast_queue):
    from clhines.simulator.cells.cable import discretise
    from clhines.simulator.cells.synthetic import sample_cells

    cables = [discretise(sample_cells()[0])]
    cells = PassiveCells(cables, 2, queue=fast_queue, dtype="float32", tune="measure")
    assert cells.solver.tuning is not None
