"""The command line: exit codes, listings of devices, and one line for each mistake of a user."""

import os
import re
import select
import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest
from commands import OTHER, SWC, TWO_ROOTS, assert_one_line, process

import clhines
from clhines.cli.solve import PassiveSteps
from clhines.simulator.choose import described
from clhines.solver.device import devices, pocl

BAD_FILES = {  # of each kind one; `tests/simulator/cells/test_swc.py` has all
    "no samples": ("# nothing\n\n", 2, "no samples"),
    "twelve columns": ("1 1 0 0 0 10 -1 0 0 0 0 0\n", 1, "12 columns"),
    "decimal comma": ("1 1 0,5 0 0 10 -1\n", 1, "x is '0,5'"),
    "cycle": (SWC + "6 3 0 0 9 1 7\n7 3 0 0 19 1 6\n", 7, "cycle"),
    "two roots": (TWO_ROOTS, 7, "second root"),
    "zero radius": (SWC.replace("60 0 0.5 2", "60 0 0 2"), 4, "radius 0"),
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
    cli(command, tmp_path).assert_refused(f"{tmp_path}: ", "is a folder")
    cli(command, "").assert_refused("SWC file")


def test_name_with_a_line_break(cli, tmp_path):
    cli("solve", tmp_path / "a\nb.swc").assert_refused("a", "b.swc")


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
    assert cli("plan").code == 0  # it needs no device
    index, _ = devices.all_devices()[0]
    listed = cli("devices")  # the only command that looks for devices
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
    for kernel in ("solve", "pack", "unpack"):
        assert re.search(rf"\b{kernel}\(", text)


def test_interruption(cli, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(PassiveSteps, "advance", interrupted)
    result = cli("solve")
    assert result.code == 130
    assert_one_line(result.err, "interrupted")


def test_solve_from_another_folder(swc, tmp_path):
    """A relative file; no progress bar if stderr is no terminal."""
    swc()
    result = process("solve", "cell.swc", "--steps", 100, cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    assert result.table()["check"] == "good"


def test_bad_file_as_process(swc, tmp_path):
    swc("1 1 0 0 0 10 -1\n2 3 0 zehn 0 1 1\n")
    process("solve", "cell.swc", cwd=tmp_path).assert_refused("cell.swc:2: ", "'zehn'")
    process("solve", "--cells", "many", cwd=tmp_path).assert_refused("--cells", "'many'")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["solve", "--help"], ["simulate", "--help"], ["--version"]],
    ids=" ".join,
)
def test_help_in_ascii(tmp_path, arguments):
    result = process(*arguments, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (result.code, result.err) == (0, "")
    expected = clhines.__version__ if arguments == ["--version"] else "usage: clhines"
    assert expected in result.out


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals on Windows")
def test_progress_bar_on_a_terminal(tmp_path):
    """The bar appears, so its absence elsewhere means something."""
    import fcntl
    import pty
    import termios

    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "clhines.cli", "solve", "--steps", "50"]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=end, timeout=120, check=False
    )
    ready, _, _ = select.select([terminal], [], [], 0)
    seen = os.read(terminal, 1 << 16) if ready else b""
    os.close(end)
    os.close(terminal)
    assert done.returncode == 0
    assert b"steps:" in seen
    assert b"check      good" in done.stdout


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


ZERO = SWC.replace("60 0 0.5 2", "60 0 0 2").replace("10 0 1 1", "10 0 2 1")
# Half way from sample 2 (2 µm) to 4 (0.25 µm); 5 is as near, and 4 the smaller id.
ZERO = ZERO.replace("4 3 40 90 0 0.5", "4 3 30 100 0 0.25")
REPAIRED = ":4: sample 3 has radius 0, repaired to 1.125 µm"


@pytest.mark.parametrize("command", ["solve", "plan"])
def test_repair_is_told(cli, swc, command):
    path = swc(ZERO)
    named = "by repair='zero-radius', --repair zero-radius"
    cli(command, path).assert_refused(f"{path}:4: sample 3 has radius 0, ", named)
    result = cli(command, path, "--repair", "zero-radius")
    assert result.code == 0
    assert result.err.splitlines()[0] == f"clhines: {path}{REPAIRED}"


def test_devices(cli):
    result = cli("devices")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert "engines" not in result.out
    assert lines[0].split()[:2] == ["index", "type"]
    default = devices.choose()
    for index, device in devices.all_devices():
        (row,) = [line.split() for line in lines if index in line.split()]
        kind = "CPU" if devices.is_cpu(device) else "GPU"
        assert ("simulator" if devices.is_simulator(device) else kind) in row
        assert device.name.split()[0] in row
        assert (row[0] == "*") == (device == default)


def test_the_workaround_for_pocl_is_shown(cli, monkeypatch):
    """A PoCL that calls the processor `generic`: the listing names the processor of the kernels."""
    found = SimpleNamespace(
        name="cpu",
        platform=SimpleNamespace(name="Portable Computing Language"),
        version="OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic",
        driver_version="3.0",
        type=2,
        extensions="cl_khr_fp64",
        double_fp_config=0,
        max_compute_units=2,
        global_mem_size=2**30,
        local_mem_size=2**15,
    )
    monkeypatch.delenv("CLHINES_DEVICE", raising=False)
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)
    monkeypatch.setattr(devices, "all_devices", lambda: [("0:0", found)])
    monkeypatch.setattr(pocl, "name_processor", lambda device: "x86-64-v3")
    lines = cli("devices").out.splitlines()
    assert "PoCL (3.0) does not know this processor; clhines lets it build for x86-64-v3" in lines


def test_engines(cli):
    """Each engine, with the features that it does not support."""
    text = " ".join(cli("engines").out.split())
    for name, on, about, lacks, limits in described():
        assert f"{name} {on} {about}" in text and lacks in text and limits in text
