"""`clhines solve`: its table, its check and its output."""

import re

import numpy as np
import pytest
from commands import (
    OTHER,
    TREE_METHODS,
    TWO_ROOTS,
    assert_one_line,
    backward_euler,
    index_of,
    sample_nodes,
)
from real_cells import FOLDER, needs_folder

from clhines import METHODS
from clhines.cli.solve import PassiveSteps
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.swc import read_swc
from clhines.simulator.cells.synthetic import sample_cells
from clhines.solver.solver import Solver


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", ["auto", *TREE_METHODS])
def test_solve_the_sample(cli, typed_queue, method, dtype):
    where = ["--device", index_of(typed_queue)]
    result = cli("solve", "--steps", 2, "--cells", 7, "--method", method, "--dtype", dtype, *where)
    assert result.code == 0
    assert result.err == ""  # no progress bar either
    table = result.table()
    expected_nodes = sample_nodes() + discretise(sample_cells()[0]).num_nodes
    assert table["cells"] == "7 (6 distinct shapes)"
    assert table["nodes"] == str(expected_nodes)
    assert int(table["branches"]) < expected_nodes
    used, precision = table["method"].split(", ")
    assert precision == dtype
    assert used == method if method != "auto" else used in METHODS
    assert typed_queue.device.name.strip()[:40] in table["device"]
    assert re.fullmatch(r"\S+ s, with kernels", table["plan"])
    assert re.match(r"\d+\.\d+ ms", table["step"])
    eps = np.finfo(dtype).eps
    assert 0 < float(table["residual"].split(",")[0]) < 8 * eps
    difference = float(table["reference"].split(",")[0])
    assert 0 < difference < 500 * eps
    assert table["check"] == "good"


def test_solve_on_every_device(cli, every_queue, swc):
    """Also on simulators."""
    where = ["--device", index_of(every_queue), "--dtype", "float32"]
    result = cli("solve", swc(), "--steps", 2, "--cells", 3, *where)
    assert (result.code, result.err) == (0, "")
    assert result.table()["check"] == "good"


def test_options_reach_the_cells(cli, swc, tmp_path):
    """A finer cut has more nodes; --roots split makes one cell a root."""
    nodes = [
        int(cli("solve", swc(), "--steps", 1, "--max-length", um).table()["nodes"])
        for um in (100, 10, 1)
    ]
    assert nodes[0] < nodes[1] < nodes[2]
    path = swc(TWO_ROOTS, "two.swc")
    cli("solve", path).assert_refused(f"{path}:7:")
    split = cli("solve", path, "--roots", "split", "--steps", 1)
    assert (split.code, split.table()["cells"].split()[0]) == (0, "2")


def test_wrong_solve_fails_the_check(cli, monkeypatch):
    solve = Solver.solve
    monkeypatch.setattr(
        Solver, "solve", lambda self, d, u, b, **given: solve(self, d, u, d, **given)
    )
    result = cli("solve", "--steps", 2)
    assert result.code == 1
    assert_one_line(result.err, "clhines: the check failed: residual ")
    table = result.table()
    assert table["check"] == "failed"
    assert float(table["residual"].split(",")[0]) > 1e-3


def test_bad_pivot_is_reported(cli, monkeypatch):
    monkeypatch.setattr(Solver, "status", lambda self: np.array([-1, 3, -1, -1, -1, -1]))
    result = cli("solve", "--steps", 2)
    assert result.code == 2
    assert_one_line(result.err, "clhines: cell 1, node ", "pivot")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_voltages(swc, fast_queue, dtype):
    files = swc(), swc(OTHER, "other.swc")
    cables = [discretise(read_swc(f), max_length=15) for f in files]
    cells = PassiveSteps(cables, 5, dtype=dtype, device=fast_queue.device)
    cells.advance(range(6))
    _, expected = backward_euler(cables, 5, 6)
    # mV; short compartments make the matrix nearly singular next to its axial entries
    atol = 1e-9 if dtype == "float64" else 0.05
    np.testing.assert_allclose(cells.v, expected, rtol=0, atol=atol)
    assert np.ptp(expected) > 0.1  # there is something to get wrong


def test_methods_for_chains_refuse_cells_with_branches(cli):
    for command in ("plan", "solve"):
        result = cli(command, "--method", "cr_pcr")
        assert result.code == 2
        assert_one_line(result.err, "cell 0 branches: node", "'cr_pcr' solves chains only")


@needs_folder
@pytest.mark.parametrize("length", ["2", "0.5"])
@pytest.mark.parametrize("name", ["96ML.CNG.swc", "BS0284.swc"])
def test_good_solutions_of_ill_conditioned_systems_are_good(cli, name, length):
    """Compartments with 0.5 um: off by 1e-12, with a componentwise backward error of 1e-16."""
    result = cli("solve", FOLDER / "good" / name, "--max-length", length, "--steps", 2)
    assert (result.code, result.table()["check"]) == (0, "good")


@needs_folder
@pytest.mark.parametrize("share", [1e-9, 1e-12])
def test_a_planted_fault_in_an_ill_conditioned_system(cli, monkeypatch, share):
    """One voltage of one node is off by less than the condition allows: the residual shows it."""
    solve = Solver.solve

    def wrong(self, *arrays, **given):
        v = solve(self, *arrays, **given)
        v[len(v) // 2] *= 1 + share
        return v

    monkeypatch.setattr(Solver, "solve", wrong)
    cell = FOLDER / "good" / "96ML.CNG.swc"
    result = cli("solve", cell, "--max-length", "0.5", "--steps", 2)
    assert result.code == 1
    assert_one_line(result.err, "the check failed: residual")
