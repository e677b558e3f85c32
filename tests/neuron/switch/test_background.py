"""A child process compiles kernels for later calls, and ends with its script."""

import json
import os
import time
from pathlib import Path

import pytest
from processes import output_of, run_python

from clhines.core import files
from clhines.core.errors import InputError
from clhines.neuron.calls import RunOptions
from clhines.neuron.memory.versions import child_command
from clhines.neuron.switch import background
from clhines.neuron.switch.background import BackgroundWork

pytestmark = pytest.mark.neuron
ROOT = Path(__file__).parents[3]
REQUEST = RunOptions(None, "float64", "auto")
LOOP = """
import json
from neuron import h
h.load_file("stdrun.hoc")
cells = [h.Section(name=f"cell{k}") for k in range(1000)]
for cell in cells:
    cell.L = cell.diam = 20
    cell.insert("hh")
synapses = [h.ExpSyn(cell(0.5)) for cell in cells]
times, numbers = h.Vector(), h.Vector()
wires = []
for k, cell in enumerate(cells):
    wires.append(h.NetCon(cell(0.5)._ref_v, synapses[k - 1], 0, 2 + k % 3, 0.05, sec=cell))
    wires[-1].record(times, numbers, k)
stimulus = h.NetStim()
stimulus.number = stimulus.start = 1
wires.append(h.NetCon(stimulus, synapses[0], 0, 1, 0.1))
import clhines
from clhines.neuron.switch import cost, enabled
cost._TRUST, cost._AHEAD = 1e3, 10  # until the child has tested the device; whatever reading takes
h.tstop, rows = 200, []
with clhines.neuron.enable() as on:
    work = enabled._switch[0]._runner._background
    for _ in range(6):
        h.run()
        rows.append([on.steps, work.is_running, list(times), list(numbers)])
        if work.is_running:
            work._process.wait(300)
print(json.dumps(rows))
"""
ENDS = """
import os, signal, time
from clhines.neuron.switch.background import BackgroundWork
work = BackgroundWork()
work.test_neuron()
print(work._process.pid, flush=True)
"""


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    """Empty caches, for the script, too."""
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_later_run_of_a_loop_finds_kernels_that_are_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("CLHINES_NEURON_TRUST", "1")
    monkeypatch.delenv("CLHINES_TRUST")
    out = output_of("-c", LOOP, timeout=500)
    steps, has_child, *spikes = zip(*json.loads(out), strict=True)
    assert has_child == (False, True, False, False, False, False)
    assert steps[:3] == (0, 0, 8000)  # who takes the next ones depends on times that are measured
    times, numbers = ({tuple(run) for run in runs} for runs in spikes)
    assert len(times) == len(numbers) == 1 and len(times.pop()) > 50  # the same bits in all runs
    (record,) = tmp_path.glob("times-*.json")
    assert json.loads(record.read_text())["compiled"] == 1
    assert not [*tmp_path.glob("network-*")]


@pytest.mark.parametrize(
    "end, status",
    [
        ("", 0),
        ("raise ValueError", 1),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", -2),
        ("os._exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    ],
)
def test_the_child_ends_with_its_script(end, status):
    begin = time.monotonic()
    done = run_python("-c", ENDS + end)
    assert done.returncode == status, done.stderr
    child = int(done.stdout)
    while is_alive(child) and time.monotonic() < begin + 60:
        time.sleep(0.05)
    assert not is_alive(child)


def is_alive(process):
    """Return whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_a_child_that_fails_is_none():
    work, calls = BackgroundWork(), []
    work.compile(lambda path: path.write_text("no network"), REQUEST, lambda: calls.append(1))
    assert work.is_running and not work.can_start
    work._process.wait(100)
    work.check()
    assert work.can_start and not calls and not [*files.cache_folder().glob("network-*")]


def test_a_folder_that_cannot_be_written_starts_no_child(monkeypatch):
    monkeypatch.setenv("CLHINES_CACHE_DIR", os.devnull)
    work = BackgroundWork()
    work.compile(lambda path: files.write_text(path, "a network"), REQUEST, bool)
    assert work.can_start


def test_models_that_cannot_be_saved_start_no_child():
    def save(path):
        raise InputError("a network with gids cannot be saved")

    work = BackgroundWork()
    work.compile(save, REQUEST, bool)
    work.compile(lambda path: path.touch(), REQUEST._replace(device=object()), bool)
    assert work.can_start


def test_a_forked_process_starts_no_child(monkeypatch):
    work = BackgroundWork()
    monkeypatch.setattr(background.os, "getpid", lambda: 1)
    assert not work.can_start and not work.is_running


def test_a_child_is_no_rank(monkeypatch):
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "CLHINES_NEURON"):
        monkeypatch.setenv(name, "1")
    _, variables = child_command("module")
    assert not [name for name in variables if name.startswith(("PMI", "OMPI", "CLHINES_NEURON="))]
    assert "CLHINES_NEURON" not in variables
