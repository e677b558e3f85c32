"""`clhines solve`: its table, its check and its output."""

import contextlib
import errno
import os
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
from clhines.solver.device import program
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
    assert all(re.fullmatch(r"\S+ s", table[name]) for name in ("plan", "build"))
    assert re.match(r"\d+\.\d+ ms", table["step"])
    assert re.fullmatch(r"\d+\.\d+ ms, [\d.e-]+ GB/s, \d+\.\d+ x floor", table["solve"])
    eps = np.finfo(dtype).eps
    assert 0 < float(table["residual"].split()[0]) < 8 * eps
    difference = float(table["reference"].split()[0])
    assert 0 < difference < 500 * eps
    assert table["check"] == "good"


def test_solve_on_every_device(cli, every_queue, swc):
    """Also on simulators."""
    where = ["--device", index_of(every_queue), "--dtype", "float32"]
    result = cli("solve", swc(), "--steps", 2, "--cells", 3, *where)
    assert (result.code, result.err) == (0, "")
    assert result.table()["check"] == "good"


def test_json(cli):
    program.forget()  # without other tests' builds: build_s must be positive
    result = cli("solve", "--steps", 3, "--json")
    assert (result.code, result.err) == (0, "")
    report = result.report()
    assert (report["cells"], report["shapes"], report["nodes"]) == (6, 6, sample_nodes())
    assert (report["dtype"], report["steps"], report["check"]) == ("float64", 3, "good")
    assert report["method"] in METHODS
    assert 0 < report["residual"] < 1e-14
    assert 0 < report["difference"] < 1e-13
    for name in ("first_step_ms", "step_ms", "solve_ms", "gb_per_s", "x_floor"):
        assert report[name] > 0
    assert report["build_s"] > 0


def test_times_are_of_this_run(cli):
    """Builds of earlier runs in the same process are not counted again."""
    first, second = (cli("solve", "--steps", 2, "--json").report() for _ in range(2))
    assert second["plan_s"] >= 0
    assert second["build_s"] < first["build_s"] + 1


def test_no_check(cli):
    result = cli("solve", "--steps", 2, "--no-check")
    assert (result.code, result.err) == (0, "")
    assert "solve" in result.table()
    assert not {"residual", "reference", "check"} & set(result.table())
    report = cli("solve", "--steps", 2, "--no-check", "--json").report()
    assert not {"residual", "difference", "check"} & set(report)


def test_no_check_does_not_fail(cli):
    assert cli("solve", "--steps", 2, "--current", "1e308", "--no-check").code == 0


def test_options_reach_the_cells(cli, swc, tmp_path):
    """A finer cut has more nodes; --roots split makes one cell a root."""
    nodes = [
        cli("solve", swc(), "--steps", 1, "--json", "--max-length", um).report()["nodes"]
        for um in (100, 10, 1)
    ]
    assert nodes[0] < nodes[1] < nodes[2]
    path = swc(TWO_ROOTS, "two.swc")
    cli("solve", path).assert_refused(f"{path}:7:")
    split = cli("solve", path, "--roots", "split", "--steps", 1, "--json")
    assert (split.code, split.report()["cells"]) == (0, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--current", "1e308"],
        ["--current=-1e308", "--method", "fine"],
        ["--current", "1e39", "--dtype", "float32"],
    ],
    ids=" ".join,
)
def test_overflow_fails_the_check(cli, arguments):
    result = cli("solve", "--steps", 2, *arguments)
    assert result.code == 1
    assert_one_line(result.err, "clhines: the check failed: ")
    assert result.table()["check"] == "failed"


def test_negative_current(cli):
    """Also in the notation that argparse takes for an option."""
    for text in ("-0.1", "-1e-1"):
        result = cli("solve", "--steps", 1, "--current", text)
        assert (result.code, result.err) == (0, "")


def test_overflow_in_json(cli):
    result = cli("solve", "--steps", 2, "--current", "1e308", "--json")
    assert result.code == 1
    assert_one_line(result.err, "clhines: the check failed: ")
    report = result.report()
    assert report["check"] == "failed"
    assert report["residual"] is None


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize(
    "arguments", [["--dt", "1e-320"], ["--dt", "1e-45", "--dtype", "float32"]], ids=" ".join
)
def test_bad_pivot_fails_the_check(cli, arguments, form):
    """A step so short that capacitance / dt is infinite."""
    result = cli("solve", "--steps", 2, *arguments, *(["--json"] if form == "json" else []))
    assert result.code == 1
    assert_one_line(result.err, "clhines: the check failed: cell 0, node ", "pivot")
    if form == "json":
        assert result.report()["check"] == "failed"
    else:
        assert result.table()["check"] == "failed"


def test_wrong_solve_fails_the_check(cli, monkeypatch):
    solve = Solver.solve
    monkeypatch.setattr(
        Solver, "solve", lambda self, d, u, b, **given: solve(self, d, u, d, **given)
    )
    result = cli("solve", "--steps", 2, "--json")
    assert result.code == 1
    assert_one_line(result.err, "clhines: the check failed: residual ")
    report = result.report()
    assert report["check"] == "failed"
    assert report["residual"] > 1e-3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_out(cli, swc, tmp_path, dtype):
    files, out = [swc(), swc(OTHER, "other.swc")], tmp_path / "result.npz"
    arguments = ["--cells", 5, "--steps", 6, "--dt", 0.1, "--current", 0.2, "--max-length", 15]
    assert cli("solve", *files, *arguments, "--dtype", dtype, "--out", out).code == 0
    cables = [discretise(read_swc(f), max_length=15) for f in files]
    forest, expected = backward_euler(cables, 5, 6, 0.1, 0.2)
    with np.load(out) as archive:
        assert set(archive) == {"v", "parent", "cell_offsets", "xyz"}
        np.testing.assert_array_equal(archive["parent"], forest.parent)
        np.testing.assert_array_equal(archive["cell_offsets"], forest.cell_offsets)
        xyz = np.concatenate([cables[k % 2].xyz for k in range(5)])
        np.testing.assert_array_equal(archive["xyz"], xyz)
        assert archive["xyz"].shape == (forest.num_nodes, 3)
        assert archive["v"].dtype == np.dtype(dtype)
        assert archive["v"].shape == (forest.num_nodes,)
        # mV; short compartments make the matrix nearly singular next to its axial entries
        atol = 1e-9 if dtype == "float64" else 0.05
        np.testing.assert_allclose(archive["v"], expected, rtol=0, atol=atol)
    assert np.ptp(expected) > 1  # there is something to get wrong
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cell.swc", "other.swc", "result.npz"]


def test_out_replaces_an_older_file(cli, swc, tmp_path):
    out = tmp_path / "result.npz"
    out.write_bytes(b"older")
    assert cli("solve", swc(), "--steps", 1, "--out", out).code == 0
    with np.load(out) as archive:
        assert np.isfinite(archive["v"]).all()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing/folder/a.npz", "a.npz"),
        ("", "--out"),
        (".", "folder"),
        ("folder.npz", "folder.npz"),
        ("result.txt", ".npz"),
        ("result", ".npz"),
        ("cell.swc/a.npz", "a.npz"),
    ],
)
def test_out_that_cannot_be_written(cli, swc, tmp_path, monkeypatch, name, said):
    """Refused before any work is done: no solver is made."""
    file = swc()
    (tmp_path / "folder.npz").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PassiveSteps, "__init__", lambda *_, **__: pytest.fail("work was done"))
    cli("solve", file, "--out", name).assert_refused(said)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cell.swc", "folder.npz"]


@pytest.mark.parametrize("older", [False, True])
def test_out_on_a_full_disk(cli, swc, tmp_path, monkeypatch, older):
    out = tmp_path / "result.npz"
    if older:
        out.write_bytes(b"older")
    reached = []

    def savez(file, **_):
        reached.append(True)
        with contextlib.nullcontext(file) if hasattr(file, "write") else open(file, "wb") as f:
            f.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", savez)
    result = cli("solve", swc(), "--steps", 1, "--out", out)
    assert reached
    assert result.code == 2
    assert_one_line(result.err, os.strerror(errno.ENOSPC))
    expected = ["cell.swc", "result.npz"] if older else ["cell.swc"]
    assert sorted(p.name for p in tmp_path.iterdir()) == expected
    if older:
        assert out.read_bytes() == b"older"


def test_full_disk_names_the_file(cli, swc, tmp_path, monkeypatch):
    def savez(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", savez)
    out = tmp_path / "result.npz"
    cli("solve", swc(), "--steps", 1, "--out", out).assert_refused(str(out))


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
