"""A long compilation is reported in one line; watching costs no time otherwise."""

import time
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from processes import run_python

from clhines import Forest, Solver
from clhines.solver.device import devices, pocl, program, trust, watch
from clhines.solver.device.timing import FloorSpec

STATUS = cl.command_execution_status


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(watch, "SECONDS", 0.2)


def watchers_end():
    """Return whether the watching thread ends by itself."""
    for _ in range(300):
        if watch._WATCHER._thread is None:
            return True
        time.sleep(0.01)
    return False


def slow_compiler(monkeypatch, seconds):
    build = cl.Program.build

    def slow(self, *arguments, **named):
        time.sleep(seconds)
        return build(self, *arguments, **named)

    monkeypatch.setattr(cl.Program, "build", slow)


def test_a_compiler_that_sleeps(fast_queue, soon, monkeypatch, capsys):
    slow_compiler(monkeypatch, 0.9)
    program.forget()
    program.build(fast_queue.context, FloorSpec("float", 1))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("clhines: the build of solver/around/floor for ")
    assert devices.label(fast_queue.device) in line
    assert "clhines doctor" in line and "CLHINES_DEVICE" in line
    assert watchers_end()


def test_a_compiler_that_is_quick(fast_queue, capsys):
    program.forget()
    program.build(fast_queue.context, FloorSpec("float", 1))
    assert watchers_end() and capsys.readouterr().err == ""


def test_a_minute_is_not_over_before_it_is_said():
    assert watch.SECONDS + 1 < 60


def test_a_child_that_takes_long(soon, monkeypatch, capsys, fast_queue):
    monkeypatch.setattr(trust, "_answer", lambda _: time.sleep(0.9) or "right")
    trust._tried(fast_queue.device, "0:0", "solve", "float64")
    (line,) = capsys.readouterr().err.splitlines()
    assert "the check of " in line and "solves in vectors" in line and "CLHINES_TRUST=1" in line


@pytest.mark.parametrize(
    ("states", "lines"),
    [
        ([STATUS.SUBMITTED], 1),  # PoCL compiles
        ([STATUS.RUNNING], 0),
        ([STATUS.QUEUED], 0),  # not begun, because not flushed
        ([STATUS.COMPLETE], 0),
        ([-5], 0),  # failed
        ([STATUS.RUNNING, STATUS.SUBMITTED], 0),  # the second one waits
    ],
)
def test_first_launches(soon, capsys, states, lines):
    events = [SimpleNamespace(command_execution_status=state) for state in states]
    for event in events:
        watch.first_launch("the compilation of X for Y", event)
    time.sleep(0.9)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == lines and all("the compilation of X for Y has taken" in t for t in told)
    for event in events:
        event.command_execution_status = STATUS.COMPLETE
    assert watchers_end()


def test_each_kernel_is_watched_once(fast_queue, monkeypatch):
    names = []
    monkeypatch.setattr(program, "first_launch", lambda what, event: names.append(what))
    program.forget()
    forest = Forest.from_parents([np.array([-1, 0, 1])] * 5)
    solver = Solver(forest, "flat", np.float32, queue=fast_queue)
    system = [np.full(15, value, np.float32) for value in (3.0, -1.0, 1.0)]
    for _ in range(2):
        solver.solve(*system)
    compiles_late = "Portable Computing" in fast_queue.device.platform.name
    assert len(names) == len(set(names)) and bool(names) == compiles_late
    assert all(n.startswith("the compilation of ") for n in names), names
    name = f"{solver.plan.parts[0].spec.template}, kernel solve, for"
    assert any(name in n for n in names) == compiles_late, names
    kernel = program.kernel_of(fast_queue.context, FloorSpec("float", 1), "floor_copy")
    arrays = [cla.zeros(fast_queue, 8, np.float32) for _ in range(4)]
    before = len(names)
    for _ in range(2):
        kernel(fast_queue, (1,), (1,), 8, *(a.data for a in arrays)).wait()
    assert len(names) - before == compiles_late


HANG = """
import numpy as np
from clhines import Forest, Solver
from clhines.solver.device import devices, trust, watch
watch.SECONDS = 2.0
trust.limit_process(9, True)
trust.force(64)
forest = Forest.from_parents([np.array([-1, *(k // 2 for k in range(39))])] * 17)
one = np.ones(forest.num_nodes)
Solver(forest, "fine", device={index!r}).solve(9 * one, -one, one)
"""


@pytest.mark.slow
def test_a_real_hang_at_the_first_launch(fast_queue):
    """If LLVM mistakes the processor, `fine` with 64-byte vectors does not compile."""
    registers = pocl.register_bytes(fast_queue.device)
    if registers is None or registers >= 4 * fast_queue.device.native_vector_width_float:
        pytest.skip("this device compiles for all the registers that it reports")
    index = next(i for i, d in devices.all_devices() if d == fast_queue.device)
    done = run_python("-c", HANG.format(index=index), timeout=300)
    assert done.returncode != 0
    (line,) = [t for t in done.stderr.splitlines() if t.startswith("clhines: ")]
    assert "solver/by_branch/fine_vector, kernel solve" in line
