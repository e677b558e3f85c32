"""The command line: its tables, its exit codes, and one line for whatever a user gets wrong."""

import contextlib
import errno
import json
import os
import re
import select
import struct
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import clhines
from clhines import METHODS, Forest, reference
from clhines.cells.cable import discretise
from clhines.cells.swc import read_swc
from clhines.cells.synthetic import sample_cells
from clhines.cli.main import main
from clhines.device import devices, program, templates
from clhines.network.ring import ring_cables, ring_network
from clhines.plan.auto import CANDIDATES, Candidate
from clhines.simulate.passive import PassiveCells, PassiveSpec
from clhines.simulate.simulation import Simulation
from clhines.solve import store
from clhines.solve.solver import Solver

SWC = """# a ball and three sticks
1 1 0 0 0 10 -1
2 3 0 10 0 1 1
3 3 0 60 0 0.5 2
4 3 40 90 0 0.5 3
5 3 -40 90 0 0.5 3
"""
OTHER = "1 1 0 0 0 6 -1\n2 2 6 0 0 0.7 1\n3 2 200 0 0 0.7 2\n"
TWO_ROOTS = SWC + "6 3 500 0 0 1 -1\n7 3 600 0 0 1 6\n"
TREE_METHODS = [name for name, row in METHODS.items() if not row.chains_only]
SAMPLE_NODES = sum(discretise(cell).num_nodes for cell in sample_cells())


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def table(self):
        """First word of each line that is not indented -> the rest of it."""
        lines = [line for line in self.out.splitlines() if not line.startswith(" ")]
        return dict(line.split(maxsplit=1) for line in lines)

    def report(self):
        """The report of --json, which must be strict."""
        return json.loads(self.out, parse_constant=not_json)

    def assert_refused(self, *said):
        """Assert exit code 2 and one line on stderr that says so."""
        assert self.code == 2
        assert_one_line(self.err, *said)
        assert self.out == ""


def not_json(text):
    raise AssertionError(f"{text} is not JSON")


def assert_one_line(err, *said):
    assert "Traceback" not in err
    assert err.startswith("clhines")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    for text in said:
        assert text in err


@pytest.fixture
def cli(capsys):
    """Run the command line in this process; warnings count as lines on stderr, as for a user."""

    def run(*arguments):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                code = main([str(a) for a in arguments])
            except SystemExit as stop:
                code = stop.code
        hidden = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
        shown = {str(w.message) for w in caught if not issubclass(w.category, hidden)}
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return Result(code, captured.out, captured.err + "".join(f"{text}\n" for text in shown))

    return run


def process(*arguments, cwd, python=("-m", "clhines.cli"), **environment):
    """Run the command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, *python, *(str(a) for a in arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def swc(tmp_path):
    """Write an SWC file."""

    def write(text=SWC, name="cell.swc"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


def index_of(queue):
    return next(index for index, found in devices.all_devices() if found == queue.device)


def backward_euler(cables, num_cells, steps, dt, current):
    """Forest and voltages of cells in turn, step by step in float64."""
    cells = [cables[k % len(cables)] for k in range(num_cells)]
    forest = Forest.from_cells([c.parent for c in cells])
    systems = [c.system(dt) for c in cells]
    d, u, c, constant = (
        np.concatenate([getattr(s, name) for s in systems])
        for name in ("d", "u", "capacitance_over_dt", "constant")
    )
    constant[[o + c.soma for o, c in zip(forest.cell_offsets[:-1], cells, strict=True)]] += current
    v = np.full(forest.num_nodes, -65.0)
    for _ in range(steps):
        v = reference.solve_serial(forest, d, u, c * v + constant)
    return forest, v


# ------------------------------------------------------------------------------------- solve


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", ["auto", *TREE_METHODS])
def test_solve_the_sample(cli, fast_queue, needs, method, dtype):
    needs(fast_queue, dtype)
    where = ["--device", index_of(fast_queue)]
    result = cli("solve", "--steps", 2, "--cells", 7, "--method", method, "--dtype", dtype, *where)
    assert result.code == 0
    assert result.err == ""  # no progress bar either
    assert max(map(len, result.out.splitlines())) <= 100
    table = result.table()
    expected_nodes = SAMPLE_NODES + discretise(sample_cells()[0]).num_nodes
    assert table["cells"] == "7 (6 distinct shapes)"
    assert table["nodes"] == str(expected_nodes)
    assert int(table["branches"]) < expected_nodes
    used, precision = table["method"].split(", ")
    assert precision == dtype
    assert used == method if method != "auto" else used in METHODS
    assert fast_queue.device.name.strip()[:40] in table["device"]
    assert all(re.fullmatch(r"\S+ s", table[name]) for name in ("plan", "build"))
    assert re.match(r"\d+\.\d+ ms", table["step"])
    assert re.fullmatch(r"\d+\.\d+ ms, \d+\.\d+ GB/s, \d+\.\d+ x floor", table["solve"])
    eps = np.finfo(dtype).eps
    assert 0 < float(table["residual"].split()[0]) < 8 * eps
    difference = float(table["reference"].split()[0])
    assert 0 < difference < 500 * eps
    assert table["check"] == "good"


def test_solve_on_every_device(cli, queue, swc):
    """Simulators too."""
    where = ["--device", index_of(queue), "--dtype", "float32"]
    result = cli("solve", swc(), "--steps", 2, "--cells", 3, *where)
    assert (result.code, result.err) == (0, "")
    assert result.table()["check"] == "good"


def test_solve_on_two_devices(cli, tmp_path):
    """Half of the cells on each, and the same voltages as on one."""
    found = [(index, devices.is_simulator(d)) for index, d in devices.all_devices()]
    if len({simulator for _, simulator in found}) < 2:
        pytest.skip("needs a simulator and another device")
    indices = [next(i for i, s in found if s is kind) for kind in (False, True)]
    where = [word for index in indices for word in ("--device", index)]
    common = ["solve", "--steps", 2, "--cells", 12, "--dtype", "float32", "--method", "flat"]
    both = cli(*common, *where, "--out", tmp_path / "two.npz")
    assert both.code == 0
    table = both.table()
    assert table["check"] == "good"
    first, second = (float(text.rstrip("%")) for text in table["shares"].split(", "))
    assert first + second == pytest.approx(100, abs=0.1)
    assert 40 < first < 60
    lines = both.err.splitlines()
    assert len(lines) == 2
    assert all(re.match(r"clhines: \d+\.\d+ [KM]iB on the device: ", line) for line in lines)
    cli(*common, *where[:2], "--out", tmp_path / "one.npz")
    one, two = (np.load(tmp_path / f"{name}.npz")["v"] for name in ("one", "two"))
    assert np.abs(one - two).max() < 1e-3
    report = cli(*common, *where, "--json").report()
    assert (report["devices"], report["check"]) == (2, "good")
    assert sum(report["shares"]) == pytest.approx(1)


def test_solve_in_slices_states_its_memory_first(cli, fast_queue):
    where = ["--device", index_of(fast_queue), "--dtype", "float32"]
    result = cli("solve", "--steps", 2, "--cells", 60, "--max-memory", 0.5, *where)
    assert result.code == 0
    said = re.fullmatch(r"clhines: (.*) KiB on the device.*, in (\d+) slices: .*\n", result.err)
    assert 100 <= float(said[1]) <= 512
    assert int(said[2]) > 2
    table = result.table()
    assert table["slices"] == said[2]
    assert table["memory"].startswith(f"{said[1]} KiB at most")
    assert table["check"] == "good"


def test_json(cli):
    program.forget()  # what other tests have built: build_s is to be positive
    result = cli("solve", "--steps", 3, "--json")
    assert (result.code, result.err) == (0, "")
    report = result.report()
    assert (report["cells"], report["shapes"], report["nodes"]) == (6, 6, SAMPLE_NODES)
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


# ----------------------------------------------------------------------------- failed checks


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
    "arguments",
    [["--dt", "1e-320"], ["--dt", "1e-45", "--dtype", "float32"]],
    ids=" ".join,
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


@pytest.mark.parametrize(
    "wrong",
    [
        "0.5f * capacitance_over_dt[i] * v[i] - fixed[i]",
        "capacitance_over_dt[i] * v[i]",
        "capacitance_over_dt[i] * v[0] + fixed[i]",
        "capacitance_over_dt[i] * v[i] + (real) 1.000001 * fixed[i]",
    ],
)
def test_wrong_right_hand_side_fails_the_check(cli, monkeypatch, wrong):
    build, used = program.build, []

    def broken(context, spec, source=None):
        if not isinstance(spec, PassiveSpec):
            return build(context, spec, source)
        text, count = re.subn(r"b\[i\] = [^;]*;", f"b[i] = {wrong};", templates.render(spec))
        used.append(count)
        return build(context, spec, text)

    monkeypatch.setattr(program, "build", broken)
    result = cli("solve", "--steps", 3)
    assert used == [1]
    assert result.code == 1
    assert_one_line(result.err, "clhines: the check failed: residual ")
    assert result.table()["check"] == "failed"


def test_wrong_solve_fails_the_check(cli, monkeypatch):
    enqueue = Solver.enqueue
    monkeypatch.setattr(
        Solver, "enqueue", lambda self, d, u, b, out: enqueue(self, d, u, d, out=out)
    )
    result = cli("solve", "--steps", 2, "--json")
    assert result.code == 1
    assert_one_line(result.err, "clhines: the check failed: residual ")
    report = result.report()
    assert report["check"] == "failed"
    assert report["residual"] > 1e-3


# --------------------------------------------------------------------------------- bad input


BAD_FILES = {
    "no samples": ("# nothing\n\n", 2, "no samples"),
    "no bytes": ("", 1, "no samples"),
    "six columns": ("1 1 0 0 0 10 -1\n2 3 0 10 0 1\n", 2, "6 columns"),
    "twelve columns": ("1 1 0 0 0 10 -1 0 0 0 0 0\n", 1, "12 columns"),
    "a word": ("# a\n1 1 0 0 0 NA -1\n", 2, "radius is 'NA'"),
    "decimal comma": ("1 1 0,5 0 0 10 -1\n", 1, "x is '0,5'"),
    "nan": ("1 1 0 0 0 10 -1\n2 3 0 nan 0 1 1\n", 2, "y is 'nan'"),
    "inf": ("1 1 0 0 0 inf -1\n", 1, "radius is 'inf'"),
    "fraction as id": ("1.5 1 0 0 0 10 -1\n", 1, "id is '1.5'"),
    "negative id": ("-3 1 0 0 0 10 -1\n", 1, "id is -3"),
    "id of 2**63": (f"{2**63} 1 0 0 0 10 -1\n", 1, str(2**63)),
    "repeated id": (SWC + "4 3 0 0 9 1 1\n", 7, "id 4"),
    "absent parent": (SWC + "6 3 0 0 9 1 77\n", 7, "77"),
    "parent -2": (SWC + "6 3 0 0 9 1 -2\n", 7, "-2"),
    "own parent": (SWC + "6 3 0 0 9 1 6\n", 7, "own parent"),
    "cycle": (SWC + "6 3 0 0 9 1 7\n7 3 0 0 19 1 6\n", 7, "cycle"),
    "two roots": (TWO_ROOTS, 7, "second root"),
    "zero radius": (SWC.replace("60 0 0.5 2", "60 0 0 2"), 4, "radius 0"),
    "negative radius": (SWC.replace("60 0 0.5 2", "60 0 -0.5 2"), 4, "radius -0.5"),
    "nul": ("1 1 0 0 0 10 -1\n2 3 0 \x00 0 1 1\n", 2, "y is"),
}


@pytest.mark.parametrize("command", ["solve", "plan"])
@pytest.mark.parametrize("kind", list(BAD_FILES))
def test_malformed_file(cli, swc, kind, command):
    text, line, said = BAD_FILES[kind]
    good, bad = swc(), swc(text, "bad.swc")
    cli(command, good, bad).assert_refused(f"{bad}:{line}: ", said)


@pytest.mark.parametrize("command", ["solve", "plan"])
def test_files_that_cannot_be_read(cli, tmp_path, command):
    missing = tmp_path / "missing.swc"
    cli(command, missing).assert_refused(f"{missing}: ", "No such file")
    cli(command, tmp_path).assert_refused(f"{tmp_path}: ", "directory")
    cli(command, "").assert_refused("SWC file")


def test_name_with_a_line_break(cli, tmp_path):
    cli("solve", tmp_path / "a\nb.swc").assert_refused("a", "b.swc")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["solve", "--frequency", "3"],
        ["solve", "--cells", "0"],
        ["solve", "--cells", "-1"],
        ["solve", "--cells", "1.5"],
        ["solve", "--cells", "9" * 5000],
        ["solve", "--cells"],
        ["solve", "--dt", "-1"],
        ["solve", "--dt", "0"],
        ["solve", "--dt", "nan"],
        ["solve", "--dt", "inf"],
        ["solve", "--dt", "1e-400"],
        ["solve", "--steps", "x"],
        ["solve", "--steps", "0"],
        ["solve", "--steps", "\n"],
        ["solve", "--current", "nan"],
        ["solve", "--current", "1e309"],
        ["solve", "--method", "fastest"],
        ["solve", "--dtype", "float16"],
        ["solve", "--roots", "all"],
        ["solve", "--max-length", "nan"],
        ["solve", "--max-length", "0"],
        ["solve", "--max-length", "inf"],
        ["plan", "--method", "fastest"],
        ["plan", "--cells", "0"],
        ["plan", "--max-length", "-1"],
    ],
    ids=lambda a: ascii(" ".join(a))[:40],
)
def test_bad_arguments(cli, arguments):
    result = cli(*arguments)
    named = [a for a in arguments if a.startswith("--")]
    result.assert_refused(*named)


@pytest.mark.parametrize("command", ["solve", "plan"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-length", "1e-9"],
        ["--max-length", "1e-300"],
        ["--cells", str(10**15)],
        ["--cells", str(10**30)],
    ],
    ids=" ".join,
)
def test_too_much(cli, command, arguments):
    cli(command, *arguments).assert_refused()


def test_fewer_cells_than_files(cli, swc):
    files = [swc(), swc(OTHER, "other.swc")]
    cli("solve", *files, "--cells", 1).assert_refused("--cells 1", "2 cells")
    result = cli("solve", *files, "--cells", 2, "--steps", 1)
    assert (result.code, result.table()["cells"]) == (0, "2 (2 distinct shapes)")


def test_fewer_cells_than_the_sample(cli):
    result = cli("solve", "--cells", 1, "--steps", 1)
    assert (result.code, result.table()["cells"]) == (0, "1 (1 distinct shapes)")


@pytest.mark.parametrize("command", ["solve", "plan"])
@pytest.mark.parametrize("spec", ["no such device", "99:0", "0:99", "-5"])
def test_unknown_device(cli, command, spec):
    cli(command, f"--device={spec}").assert_refused(spec, "found: ")


def test_unknown_device_in_the_environment(cli, monkeypatch):
    monkeypatch.setenv("CLHINES_DEVICE", "no such device")
    cli("solve").assert_refused("CLHINES_DEVICE='no such device'")
    assert cli("plan").code == 0  # which needs none
    index, _ = devices.all_devices()[0]
    listed = cli("devices")  # the one place where it is found out what there is
    assert listed.code == 0
    assert index in listed.out
    assert "no such device" in listed.out


def test_dump_that_cannot_be_written(cli, monkeypatch, swc):
    file = swc()
    monkeypatch.setenv("CLHINES_DUMP", str(file))
    cli("solve").assert_refused(f"CLHINES_DUMP={file}")
    monkeypatch.setenv("CLHINES_DUMP", str(file / "below"))
    cli("solve").assert_refused("CLHINES_DUMP=")


def test_dump(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("CLHINES_DUMP", str(tmp_path / "new" / "folder"))
    assert cli("solve", "--steps", 1).code == 0
    text = "\n".join(p.read_text("utf-8") for p in (tmp_path / "new" / "folder").glob("*.cl"))
    for kernel in ("solve", "right_hand_side", "floor_copy", "pack", "unpack"):
        assert re.search(rf"\b{kernel}\(", text)


def test_interruption(cli, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(PassiveCells, "advance", interrupted)
    result = cli("solve")
    assert result.code == 130
    assert_one_line(result.err, "interrupted")


# ------------------------------------------------------------------------------------- --out


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_out(cli, swc, tmp_path, dtype):
    files, out = [swc(), swc(OTHER, "other.swc")], tmp_path / "result.npz"
    arguments = ["--cells", 5, "--steps", 6, "--dt", 0.1, "--current", 0.2, "--max-length", 15]
    assert cli("solve", *files, *arguments, "--dtype", dtype, "--out", out).code == 0
    cables = [discretise(read_swc(f), max_length=15) for f in files]
    forest, expected = backward_euler(cables, 5, 6, 0.1, 0.2)
    with np.load(out) as found:
        assert set(found) == {"v", "parent", "cell_offsets", "xyz"}
        np.testing.assert_array_equal(found["parent"], forest.parent)
        np.testing.assert_array_equal(found["cell_offsets"], forest.cell_offsets)
        xyz = np.concatenate([cables[k % 2].xyz for k in range(5)])
        np.testing.assert_array_equal(found["xyz"], xyz)
        assert found["xyz"].shape == (forest.num_nodes, 3)
        assert found["v"].dtype == np.dtype(dtype)
        assert found["v"].shape == (forest.num_nodes,)
        # mV; short compartments make the matrix nearly singular next to its axial entries
        atol = 1e-9 if dtype == "float64" else 0.05
        np.testing.assert_allclose(found["v"], expected, rtol=0, atol=atol)
    assert np.ptp(expected) > 1  # there is something to get wrong
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cell.swc", "other.swc", "result.npz"]


def test_out_replaces_an_older_file(cli, swc, tmp_path):
    out = tmp_path / "result.npz"
    out.write_bytes(b"older")
    assert cli("solve", swc(), "--steps", 1, "--out", out).code == 0
    with np.load(out) as found:
        assert np.isfinite(found["v"]).all()


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
    monkeypatch.setattr(PassiveCells, "__init__", lambda *_, **__: pytest.fail("work was done"))
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


# -------------------------------------------------------------------------- devices and plan


def test_devices(cli):
    result = cli("devices")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split()[:2] == ["index", "type"]
    default = devices.choose()
    for index, found in devices.all_devices():
        (row,) = [line.split() for line in lines if index in line.split()]
        kind = "CPU" if devices.is_cpu(found) else "GPU"
        assert ("simulator" if devices.is_simulator(found) else kind) in row
        assert found.name.split()[0] in row
        assert (row[0] == "*") == (found == default)


def test_methods_for_chains_refuse_cells_with_branches(cli):
    for command in ("plan", "solve"):
        result = cli(command, "--method", "cr_pcr")
        assert result.code == 2
        assert_one_line(result.err, "cell 0 branches: node", "'cr_pcr' solves chains only")


@pytest.mark.parametrize("method", TREE_METHODS)
def test_plan(cli, swc, method):
    result = cli("plan", swc(), "--cells", 9, "--method", method, "--max-length", 20)
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= 100
    table = result.table()
    nodes = 9 * discretise(read_swc(swc()), max_length=20).num_nodes
    assert table["method"] == method
    assert table["cells"] == "9 (1 distinct shapes)"
    assert table["nodes"] == str(nodes)
    assert "kernel" in table


def test_plan_is_drawn(cli, tmp_path):
    pytest.importorskip("matplotlib")
    result = cli("plan", "--method", "fine", "--plot", tmp_path / "plan.svg")
    assert result.code == 0
    assert "<svg" in (tmp_path / "plan.svg").read_text("utf-8")
    assert cli("plan", "--method", "fine", "--plot", "plan.bmp").code == 2


def test_plan_for_a_device(cli, queue):
    result = cli("plan", "--device", index_of(queue), "--dtype", "float32")
    assert (result.code, result.err) == (0, "")
    assert queue.device.name.strip()[:40] in result.out


def test_plan_without_opencl(cli, tmp_path):
    """With pyopencl missing altogether; `solve` then fails, so it really is missing."""
    code = (
        "import sys; sys.modules['pyopencl'] = None; "
        "from clhines.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["plan", "--cells", 100, "--method", "fine"]
    result = process(*arguments, cwd=tmp_path, python=("-c", code))
    assert (result.code, result.err) == (0, "")
    assert result.out == cli(*arguments).out
    assert process("solve", cwd=tmp_path, python=("-c", code)).code != 0


# --------------------------------------------------------------------------- whole processes


def test_solve_from_another_folder(swc, tmp_path):
    """A relative file and result; no progress bar where stderr is no terminal."""
    swc()
    result = process("solve", "cell.swc", "--steps", 100, "--out", "v.npz", cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    assert result.table()["check"] == "good"
    with np.load(tmp_path / "v.npz") as found:
        assert found["v"].shape == found["parent"].shape
        _, expected = backward_euler([discretise(read_swc(swc()))], 1, 100, 0.025, 0.1)
        np.testing.assert_allclose(found["v"], expected, rtol=1e-11)
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "v.npz").stat().st_mode & 0o777 == 0o666 & ~umask or os.name == "nt"


def test_failed_check_and_bad_file_as_processes(swc, tmp_path):
    failed = process("solve", "--current", "1e308", "--steps", 2, "--json", cwd=tmp_path)
    assert failed.code == 1
    assert_one_line(failed.err, "clhines: the check failed: ")
    assert failed.report()["check"] == "failed"
    swc("1 1 0 0 0 10 -1\n2 3 0 zehn 0 1 1\n")
    process("solve", "cell.swc", cwd=tmp_path).assert_refused("cell.swc:2: ", "'zehn'")
    process("solve", "--cells", "many", cwd=tmp_path).assert_refused("--cells", "'many'")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["solve", "--help"], ["simulate", "ring", "--help"], ["--version"]],
    ids=" ".join,
)
def test_help_in_ascii(tmp_path, arguments):
    result = process(*arguments, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (result.code, result.err) == (0, "")
    expected = clhines.__version__ if arguments == ["--version"] else "usage: clhines"
    assert expected in result.out


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals on Windows")
@pytest.mark.parametrize(
    ("arguments", "shown", "printed"),
    [
        ("solve --steps 50", b"steps:", b"check      good"),
        (
            "simulate ring --depth 2 --compartments 3 --cells 3 --path reference --duration 10",
            b"s a second",
            b"spikes     2, the first at ",
        ),
    ],
    ids=["solve", "ring"],
)
def test_progress_bar_on_a_terminal(tmp_path, arguments, shown, printed):
    """So that its absence elsewhere means something."""
    import fcntl
    import pty
    import termios

    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "clhines.cli", *arguments.split()]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=end, timeout=120, check=False
    )
    ready, _, _ = select.select([terminal], [], [], 0)
    seen = os.read(terminal, 1 << 16) if ready else b""
    os.close(end)
    os.close(terminal)
    assert done.returncode == 0
    assert shown in seen
    assert printed in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="pipes break otherwise on Windows")
def test_reader_that_has_gone(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "clhines.cli", "plan"]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False
    )
    os.close(writing)
    assert done.stderr == b""


# ------------------------------------------------------------------------------ simulate ring

RING = ("simulate", "ring", "--depth", 2, "--compartments", 3, "--cells", 3)
REFERENCE = (*RING, "--path", "reference", "--duration", 15)


def ring_by_hand(duration, **options):
    """The same ring from Python: its network, times and cells of spikes."""
    cables = ring_cables(3, levels=2, compartments=3)
    network = ring_network(cables, 3, **options)
    return network, Simulation(network, path="reference").run(duration)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ring_on_every_fast_device(cli, fast_queue, needs, dtype):
    needs(fast_queue, dtype)
    where = ["--device", index_of(fast_queue), "--dtype", dtype]
    result = cli(*RING, "--duration", 15, *where)
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= 100
    network, expected = ring_by_hand(15.0)
    table = result.table()
    membrane = np.count_nonzero(network.area)
    assert table["cells"] == "3 in a ring (3 distinct shapes)"
    assert table["nodes"] == f"{network.forest.num_nodes}, {membrane} of them with membrane"
    assert table["mechanisms"] == f"hh x 3, pas x {membrane - 3}, expsyn x 3"
    assert re.fullmatch(rf"(epochs|steps), {dtype}", table["path"])
    assert table["simulated"] == "15 ms in 600 steps of 0.025 ms"
    assert re.fullmatch(
        r"[\d.e+-]+ ns per compartment and step, [\d.e+-]+ x real time", table["speed"]
    )
    first, *_, last = expected.spike_time
    times = f"the first at {first:g} ms, the last at {last:g} ms"
    assert table["spikes"] == f"{len(expected.spike_time)}, {times}"


def test_ring_json(cli):
    report = cli(*REFERENCE, "--json", "--hh", "all", "--weight", 0.02, "--delay", 4).report()
    network, expected = ring_by_hand(15.0, hh="all", weight=0.02, delay=4.0)
    assert report["spikes"] == len(expected.spike_time) >= 2
    assert report["first_spike_ms"] == pytest.approx(expected.spike_time[0])
    assert report["last_spike_ms"] == pytest.approx(expected.spike_time[-1])
    assert report["compartments"] == np.count_nonzero(network.area)
    assert (report["path"], report["dtype"], report["steps"]) == ("reference", "float64", 600)
    per_step = report["step_ms"] * 1e6 / report["compartments"]
    assert report["ns_per_compartment"] == pytest.approx(per_step)
    assert report["real_time"] == pytest.approx(0.025 / report["step_ms"])


def test_ring_without_spikes(cli):
    result = cli(*REFERENCE[:-1], 0.025, "--weight", 0)
    assert result.table()["spikes"] == "none"
    assert cli(*REFERENCE[:-1], 0.025, "--json").report()["first_spike_ms"] is None


def test_ring_files(cli, tmp_path):
    """The .npz has what a run from Python gives, the .csv its spikes."""
    cli(*REFERENCE, "--out", tmp_path / "ring.npz")
    cli(*REFERENCE, "--out", tmp_path / "ring.csv")
    network, expected = ring_by_hand(15.0)
    with np.load(tmp_path / "ring.npz") as found:
        np.testing.assert_allclose(found["spike_time"], expected.spike_time)
        np.testing.assert_array_equal(found["spike_cell"], expected.spike_cell)
        np.testing.assert_allclose(found["t"], np.arange(601) * 0.025)
        np.testing.assert_array_equal(found["v_cell"], [0, 1, 2])
        assert found["v"].shape == (601, 3)
        again = Simulation(network, path="reference")
        again.record("v", network.soma)
        np.testing.assert_array_equal(found["v"], again.run(15.0)[0])
    head, *lines = (tmp_path / "ring.csv").read_text().splitlines()
    assert head == "time_ms,cell"
    table = np.array([line.split(",") for line in lines], float)
    np.testing.assert_allclose(table, np.stack((expected.spike_time, expected.spike_cell), 1))


def test_ring_picture(cli, tmp_path):
    pytest.importorskip("matplotlib")
    cli(*REFERENCE, "--plot", tmp_path / "ring.svg")
    text = (tmp_path / "ring.svg").read_text("utf-8")
    assert text.rstrip().endswith("</svg>")
    assert [p.name for p in tmp_path.iterdir()] == ["ring.svg"]


def test_ring_of_a_long_soma_is_active_in_all_of_it(cli, swc):
    """A soma of three discs, 40 µm long: at 10 µm five segments, as odd as NEURON's middle asks."""
    text = "1 1 0 0 0 9 -1\n2 1 20 0 0 9 1\n3 1 40 0 0 9 2\n4 3 50 0 0 1 3\n5 3 90 0 0 1 4\n"
    arguments = ["--path", "reference", "--duration", 1, "--max-length", 10]
    result = cli("simulate", "ring", "--swc", swc(text), *arguments)
    assert result.table()["mechanisms"] == "hh x 5, pas x 5, expsyn x 1"


ZERO = SWC.replace("60 0 0.5 2", "60 0 0 2").replace("10 0 1 1", "10 0 2 1")
# Half way from sample 2 (2 µm) to 4 (0.25 µm); 5 is as near, and 4 the smaller id.
ZERO = ZERO.replace("4 3 40 90 0 0.5", "4 3 30 100 0 0.25")
REPAIRED = ":4: sample 3 has radius 0, repaired to 1.125 µm"


@pytest.mark.parametrize("command", ["solve", "plan", "tune", "ring"])
def test_repair_is_told(cli, swc, command):
    path = swc(ZERO)
    line = ["simulate", "ring", "--path", "reference", "--duration", 1, "--swc"]
    words = line if command == "ring" else [command]
    named = "by repair='zero-radius', --repair zero-radius"
    cli(*words, path).assert_refused(f"{path}:4: sample 3 has radius 0, ", named)
    result = cli(*words, path, "--repair", "zero-radius")
    assert result.code == 0
    assert result.err.splitlines()[0] == f"clhines: {path}{REPAIRED}"
    if command in ("solve", "ring"):
        assert result.table()["repaired"] == "1 radii of 0, interpolated"
        told = cli(*words, path, "--repair", "zero-radius", "--json")
        assert json.loads(told.out)["repaired"] == 1


def test_repair_needs_files(cli):
    cli("simulate", "ring", "--repair", "zero-radius").assert_refused("got no --swc")


def test_ring_of_files(cli, swc):
    files = [swc(), swc(OTHER, "other.swc")]
    arguments = ["--path", "reference", "--duration", 5, "--max-length", 10]
    result = cli("simulate", "ring", "--swc", *files, "--cells", 3, *arguments)
    assert (result.code, result.err) == (0, "")
    table = result.table()
    assert table["cells"] == "3 in a ring (2 distinct shapes)"
    cables = [discretise(read_swc(file), max_length=10) for file in files]
    assert table["nodes"].startswith(f"{2 * cables[0].num_nodes + cables[1].num_nodes}, ")
    files = [swc(TWO_ROOTS, "two.swc"), "--roots", "split"]
    short = "--path", "reference", "--duration", 1
    no_soma = "has no soma, no sample of type 1; expected HH everywhere (hh='all', --hh all)"
    cli("simulate", "ring", "--swc", *files, *short).assert_refused("hh='soma': cell 1", no_soma)
    split = cli("simulate", "ring", "--swc", *files, *short, "--hh", "all")
    assert split.table()["cells"] == "2 in a ring (2 distinct shapes)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cells", "0"], "expected a whole number from 1"),
        (["--branching", "1.5"], "branching_probability is 1.5, expected 0 to 1"),
        (["--branching", "x"], "'x', expected a number"),
        (["--depth", "many"], "--depth"),
        (["--dt", "0"], "expected a positive number"),
        (
            ["--dt", "0.3"],
            "--duration 1 ms is 3.33333333333 steps of --dt 0.3 ms; expected a whole",
        ),
        (["--dt", "3"], "is 0.333333333333 steps of --dt 3 ms; expected a whole number from 1"),
        (
            ["--duration", "1e9"],
            "is 40000000000 steps of --dt 0.025 ms; expected a whole number from 1",
        ),
        (["--duration", "-1"], "expected a positive number"),
        (["--delay", "0.01"], "at least one step"),
        (["--seed", "-1"], "expected a whole number, 0 or more"),
        (["--path", "fast"], "invalid choice: 'fast'"),
        (["--method", "cr"], "invalid choice: 'cr'"),
        (["--dtype", "mixed"], "invalid choice: 'mixed'"),
        (["--path", "auto", "--device", "no such device"], "matches no device"),
        (["--swc", "missing.swc"], "missing.swc: cannot be read"),
        (["--swc", "cell.swc", "--depth", "3"], "--depth is for random cells"),
        (["--swc", "cell.swc", "cell.swc", "--cells", "1"], "is less than the 2 cells of --swc"),
        (["--max-length", "10"], "--max-length is for the cells of --swc"),
        (["--out", "ring.txt"], "the name ends in '.txt'; expected '.npz' or '.csv'"),
        (["--out", "no/folder.csv"], "--out no/folder.csv: cannot be written: No such file"),
        (["--plot", "ring.npz"], "the name ends in '.npz'; expected '.png' or '.svg' or '.pdf'"),
        (["--plot", "no/folder.png"], "--plot no/folder.png: cannot be written: No such file"),
        (["ring.swc"], "unrecognized arguments"),
    ],
    ids=lambda a: " ".join(a) if isinstance(a, list) else "",
)
def test_ring_bad_arguments(cli, swc, tmp_path, monkeypatch, arguments, said):
    swc()
    monkeypatch.chdir(tmp_path)
    given = ["simulate", "ring", "--path", "reference", "--duration", 1, *arguments]
    cli(*given).assert_refused(said)
    assert [p.name for p in tmp_path.iterdir()] == ["cell.swc"]


def test_simulate_needs_a_network(cli):
    cli("simulate").assert_refused("network")
    cli("simulate", "star").assert_refused("invalid choice: 'star'")


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("name", ["ring.npz", "ring.csv", "ring.png"])
def test_ring_on_a_full_disk(cli, tmp_path, monkeypatch, name, older):
    """What is there stays as it was; what is not, is not there afterwards either."""
    if name.endswith("png"):
        pytest.importorskip("matplotlib")
    out = tmp_path / name
    if older:
        out.write_bytes(b"older")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    option = "--plot" if name.endswith("png") else "--out"
    cli(*REFERENCE[:-1], 1, option, out).assert_refused(
        f"{option} {out}", os.strerror(errno.ENOSPC)
    )
    assert [p.name for p in tmp_path.iterdir()] == ([name] if older else [])
    assert not older or out.read_bytes() == b"older"


def test_ring_without_matplotlib(cli, tmp_path, monkeypatch):
    """Said before any work is done."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(Simulation, "__init__", lambda *_, **__: pytest.fail("work was done"))
    cli(*REFERENCE, "--plot", tmp_path / "ring.png").assert_refused("pip install 'clhines[plot]'")


# -------------------------------------------------------------------------------------- tune

TUNE_ROW = re.compile(
    r"(?P<name>[a-z_]+( [a-z_]+=\d+)*) +\d+\.\d{3} ms +\d+\.\d\d x floor(  (?P<notes>[a-z, ]+))?"
)


def tune_rows(result):
    return [found for line in result.out.splitlines() if (found := TUNE_ROW.fullmatch(line))]


def test_tune_the_sample_on_every_fast_device(cli, fast_queue):
    where = ["--device", index_of(fast_queue), "--dtype", "float32"]
    result = cli("tune", "--cells", 7, *where)
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= 100
    assert "cells      7 (6 distinct shapes)" in result.out
    rows = tune_rows(result)
    names = {str(c) for c in CANDIDATES["cpu" if devices.is_cpu(fast_queue.device) else "gpu"]}
    assert rows and {row["name"] for row in rows} <= names
    notes = [note for row in rows if row["notes"] for note in row["notes"].split(", ")]
    assert sorted(notes) == ["chosen", "heuristic"]
    (chosen,) = [row["name"] for row in rows if "chosen" in (row["notes"] or "")]
    (entry,) = store.stored()
    assert str(Candidate(entry["method"], entry["options"])) == chosen

    table = cli("solve", "--steps", 2, "--cells", 7, "--tune", "cached", *where).table()
    assert table["method"] == f"{entry['method']}, float32"
    assert table["check"] == "good"


def test_solve_uses_what_is_stored(cli):
    """A winner that the heuristic would not choose shows that the store was read."""
    cli("tune", "--dtype", "float32")
    (path,) = Path(os.environ["CLHINES_CACHE_DIR"]).glob("*.json")
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({**entry, "method": "interleaved", "options": {}}))
    for mode in ("cached", "heuristic", "measure"):
        arguments = ["--steps", 2, "--dtype", "float32", "--tune", mode, "--json"]
        report = cli("solve", *arguments).report()
        assert report["check"] == "good"
        if mode == "cached":
            assert report["method"] == "interleaved"
        elif devices.is_cpu(devices.choose(dtype="float32")):
            assert report["method"] != "interleaved"


def test_tune_json(cli, swc):
    result = cli("tune", swc(), "--cells", 3, "--json")
    report = result.report()
    assert (report["cells"], report["shapes"], report["dtype"]) == (3, 1, "float64")
    times = [row["solve_ms"] for row in report["candidates"]]
    assert times == sorted(times) and times[0] > 0
    for row in report["candidates"]:
        assert row["x_floor"] == pytest.approx(row["solve_ms"] / report["floor_ms"])
    assert sum(row["chosen"] for row in report["candidates"]) == 1
    assert sum(row["heuristic"] for row in report["candidates"]) == 1


def test_tune_list_and_clear(cli, swc):
    folder = os.environ["CLHINES_CACHE_DIR"]
    assert cli("tune", "--list").out == f"0 stored in {folder}\n"
    assert cli("tune", "--clear").out == f"0 removed from {folder}\n"
    cli("tune", "--dtype", "float32")
    cli("tune", swc(), "--dtype", "float32")
    result = cli("tune", "--list")
    assert (result.code, result.err) == (0, "")
    head, *lines = result.out.splitlines()
    assert head == f"2 stored in {folder}"
    assert len(lines) == 2 and all(len(line) <= 100 and "float32: " in line for line in lines)
    assert any(line.startswith(f"6 cells, {SAMPLE_NODES} nodes, ") for line in lines)
    entries = json.loads(cli("tune", "--list", "--json").out)
    assert entries == list(store.stored())
    (Path(folder) / "tuned-broken.json").write_text("{")
    assert cli("tune", "--list").out.startswith("2 stored in ")
    assert cli("tune", "--clear").out == f"3 removed from {folder}\n"
    assert cli("tune", "--list").out == f"0 stored in {folder}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--clear", "cell.swc"], "--clear takes no files; got cell.swc"),
        (["--list", "cell.swc"], "--list takes no files; got cell.swc"),
        (["--list", "--clear"], "not allowed with argument"),
        (["missing.swc"], "missing.swc"),
        (["--cells", "0"], "expected a whole number from 1"),
        (["--device", "no such device"], "matches no device"),
        (["--method", "fine"], "unrecognized arguments"),
    ],
)
def test_tune_bad_arguments(cli, arguments, said):
    cli("tune", *arguments).assert_refused(said)
    assert list(store.stored()) == []


def test_solve_refuses_tuning_of_a_named_method(cli):
    cli("solve", "--method", "fine", "--tune", "measure").assert_refused(
        "tune='measure' is for method 'auto'; got method 'fine'"
    )
    cli("solve", "--tune", "fast").assert_refused("invalid choice: 'fast'")


def test_tune_unwritable_folder(cli, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path / "file"))
    result = cli("tune", "--dtype", "float32")
    assert result.code == 0
    assert tune_rows(result)
    assert result.err.startswith("clhines: the winner was not stored: ")
    assert len(result.err.splitlines()) == 1
    assert cli("tune", "--list").out.startswith("0 stored in ")
    assert cli("tune", "--clear").out.startswith("0 removed from ")
