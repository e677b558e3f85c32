"""Trust a device only after it has passed the self-test of a family of kernels.

The first use of a family starts its self-test: a process, which may hang or crash, solves a small
problem with a known solution. If that is wrong, the test is repeated with narrower vectors, then
with scalars. The outcome is stored in clhines' cache folder. Simulators are not tested.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pyopencl as cl
from numpy.typing import DTypeLike

import clhines
from clhines.core import files
from clhines.core.checks import is_switched_on
from clhines.core.errors import DeviceError, warn_caller
from clhines.core.progress import phase, showing
from clhines.solver.device import devices, pocl
from clhines.solver.plan.plan import Limits
from clhines.solver.plan.templates import digest

SWITCH = "CLHINES_TRUST"  # 1 turns the self-tests off
PROCESSOR_SECONDS = 30  # limit of processor time; good devices take one to three
MEMORY = 4 << 30  # bytes that a self-test may use on a CPU
_OF_THREAD = 128 << 20  # address space that a thread may reserve, bytes
SECONDS = 180.0  # limit of wall time, as a self-test may wait for ever
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from clhines.solver.device.trust import main; main(sys.argv[2:])"
)
_WORD = "clhines-known-answers: "  # begins the lines that the self-test's process prints
_UNCHECKED = "unchecked: "  # begins an answer that says nothing about the device
_SCHEMA = 1  # file format version
_log = logging.getLogger(__name__)
_LOCK = threading.RLock()


Problem = Callable[[cl.CommandQueue, np.dtype], str]  # solves it; returns the fault, or ""


@dataclass(frozen=True)
class SelfTest:
    """The self-test of a family of kernels, a function in the dict `PROBLEMS` of `module`."""

    title: str
    module: str
    needs_float64: bool


_SELF_TESTS: dict[str, SelfTest] = {}


def register(family: str, title: str, module: str, *, needs_float64: bool = False) -> None:
    _SELF_TESTS[family] = SelfTest(title, module, needs_float64)


def self_test(family: str) -> SelfTest:
    return _SELF_TESTS[family]


@dataclass(frozen=True)
class Outcome:
    """Result of a device's self-test of a family of kernels, or of several families in turn.

    A family is the solver's kernels (``solve``), or the kernels of one of the simulator's engines:
    ``steps``, ``epochs`` on GPUs and ``blocks`` on CPUs.
    """

    family: str
    dtype: str
    widest: int  # bytes in the widest vectors that were right; 0 if none were
    seconds: float  # wall time of all tests
    said: tuple[str, ...] = ()  # faults with wider vectors, widest first


class _TrustState:
    forced = 0  # vector bytes in a self-test's process; 0 elsewhere
    outcomes: dict[tuple[cl.Device, str, str], Outcome | None] = {}  # noqa: RUF012
    used: dict[cl.Device, dict[str, str]] = {}  # noqa: RUF012  family -> family to test
    wrong: set[tuple[cl.Device, str]] = set()  # noqa: RUF012  families that failed


def switched_off() -> bool:
    return is_switched_on(SWITCH)


def limits(device: cl.Device, family: str, dtype: DTypeLike) -> Limits:
    """Return a device's limits for a family of kernels; DeviceError if the self-test fails."""
    full = devices.limits(device)
    if _TrustState.forced:
        return _narrowed(full, _TrustState.forced)
    if switched_off() or devices.is_simulator(device):
        return full
    if self_test(family).needs_float64 and not devices.has_fp64(device):
        return full  # networks are refused on such devices
    whole = devices.whole_device(device)
    tested_family = family if family == "solve" else _after_another(whole, family)
    outcome = _stored_or_tested(whole, tested_family, np.dtype(dtype).name)
    if outcome is not None and not outcome.widest:
        _TrustState.wrong.add((whole, family))
        raise DeviceError(
            f"{devices.label(device)} is wrong in known answers ({title(tested_family)}, "
            f"{outcome.dtype}): "
            f"{outcome.said[-1]}; expected another device, driver or runtime ('clhines doctor' "
            f"checks again, {SWITCH}=1 uses it all the same)"
        )
    narrower = outcome is not None and outcome.widest < full.vector_bytes
    return _narrowed(full, outcome.widest) if outcome is not None and narrower else full


def _after_another(device: cl.Device, family: str) -> str:
    """Return the name of the self-test that this process needs for a family of kernels.

    If the process has used family A before, the test is ``A+B`` for family B: B is tested after A.
    """
    used = _TrustState.used.setdefault(device, {})
    if family not in used:
        right = [name for name in used if (device, name) not in _TrustState.wrong]
        used[family] = "+".join([*right[-1:], family])
    return used[family]


def is_right(device: cl.Device, family: str, dtype: DTypeLike) -> bool:
    """Whether a device passes the self-test of a family; a failure is only logged."""
    try:
        trusted_limits = limits(device, family, dtype)
    except DeviceError as error:
        _log.info("%s", error)
        return False
    if family == "blocks" and trusted_limits.vector_bytes <= np.dtype(dtype).itemsize:
        _TrustState.wrong.add((devices.whole_device(device), family))
        return False
    return True


def title(family: str) -> str:
    return ", then ".join(self_test(name).title for name in family.split("+"))


def examine(device: cl.Device, family: str, dtype: DTypeLike) -> Outcome | None:
    device, dtype = devices.whole_device(device), np.dtype(dtype).name
    index = next((index for index, d in devices.all_devices() if d == device), None)
    if index is None:
        return None
    outcome = _tried(device, index, family, dtype)
    _TrustState.outcomes[device, family, dtype] = outcome
    if outcome is not None:
        key = _key(device, family, dtype)
        files.keep_entry("trust", _SCHEMA, key, outcome=asdict(outcome))
    return outcome


def families(device: cl.Device) -> list[str]:
    """Return the families of kernels whose self-tests a device needs, in order.

    The last entry joins all families of the simulator, which are tested in turn in one process.
    """
    left = {"epochs"} if devices.is_cpu(device) else {"blocks"}
    if not devices.has_fp64(device):
        left |= {name for name, test in _SELF_TESTS.items() if test.needs_float64}
    names = [name for name in _SELF_TESTS if name not in left]
    return [*names, "+".join(names[1:])]


def forget() -> None:
    with _LOCK:
        _TrustState.outcomes, _TrustState.used, _TrustState.wrong = {}, {}, set()


def widths(device: cl.Device, family: str, dtype: str) -> tuple[int, ...]:
    """Return the widths of vectors to test, bytes, from the device's width down to scalars."""
    device_limits, scalar = devices.limits(device), np.dtype(dtype).itemsize
    if not device_limits.is_cpu:
        return (device_limits.vector_bytes,)
    halves = [device_limits.vector_bytes >> k for k in range(8)]
    least = 2 * scalar if family == "blocks" else scalar
    return tuple(width for width in halves if width >= 16 or width == least)


# -------------------------------------------------------------------- in the self-test's process


def force(width: int) -> None:
    _TrustState.forced = width


def say(text: str) -> None:
    print(_WORD + text, flush=True)


def limit_process(seconds: int, memory: bool) -> None:
    """Limit this process to `seconds` of processor time and, if `memory`, to a few more GiB."""
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    with suppress(OSError, ValueError):
        if memory:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + MEMORY + (os.cpu_count() or 1) * _OF_THREAD
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(arguments: Sequence[str]) -> None:
    """Run self-tests in a process of their own, and print the result.

    The arguments are the index of the device, the tests as "module:family+...", the dtype, the
    width of vectors in bytes, and the limit of processor time in seconds.
    """
    index, tests, dtype, width, seconds = arguments
    queue = devices.make_queue(dict(devices.all_devices())[index])
    limit_process(int(seconds), devices.is_cpu(queue.device))
    say("started")
    force(int(width))
    try:
        answers = (_problem(test)(queue, np.dtype(dtype)) for test in tests.split("+"))
        fault = next((answer for answer in answers if answer), "")
    except (MemoryError, cl.MemoryError):
        say("unsure")
        return
    except Exception as error:  # a wrong compiler can cause any error
        fault = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    say(f"wrong: {fault}" if fault else "right")


def _problem(test: str) -> Problem:
    module, _, family = test.partition(":")
    problem: Problem = import_module(module).PROBLEMS[family]
    return problem


def compared(what: str, result: np.ndarray, expected: np.ndarray, roundings: float) -> str:
    """Return "" if `result` is accurate to `roundings` eps, else a text about `what`."""
    largest = float(np.abs(expected).max())
    difference = float(np.abs(result - expected).max()) / largest
    limit = roundings * float(np.finfo(result.dtype).eps)
    if difference <= limit:  # False for NaN
        return ""
    return f"{what} differs by {difference:.1e} from the reference; expected at most {limit:.1e}"


# ---------------------------------------------------------------------------- in the user's process


def _narrowed(device_limits: Limits, width: int) -> Limits:
    if width == device_limits.vector_bytes:
        return device_limits
    return replace(device_limits, vector_bytes=width, trusted_bytes=width)


def _stored_or_tested(device: cl.Device, family: str, dtype: str) -> Outcome | None:
    place = device, family, dtype
    with _LOCK:
        if place in _TrustState.outcomes:
            return _TrustState.outcomes[place]
        key = _key(device, family, dtype)
        outcome = _load(key)
        if outcome is None:
            with files.one_process("trust"):
                outcome = _load(key)  # another process may have stored it meanwhile
                if outcome is None:
                    outcome = examine(device, family, dtype)
                    _warn(device, outcome)
        _TrustState.outcomes[place] = outcome
        return outcome


def _warn(device: cl.Device, outcome: Outcome | None) -> None:
    if outcome is not None and outcome.said and outcome.widest:
        warn_caller(
            f"{devices.label(device)} is wrong in known answers ({title(outcome.family)}, "
            f"{outcome.dtype}), {'; '.join(outcome.said)}; from now on vectors have "
            f"{outcome.widest} bytes there",
            UserWarning,
        )


def _tried(device: cl.Device, index: str, family: str, dtype: str) -> Outcome | None:
    """Run the self-test with ever narrower vectors; return the outcome, None if it cannot run."""
    _log.info("known answers of %s: %s, %s", devices.label(device), title(family), dtype)
    begin, said = time.perf_counter(), list[str]()
    for width in widths(device, family, dtype):
        with showing(sys.stderr.isatty()):  # a user's first call waits some seconds for it
            name = device.name.strip()
            phase(f"checking kernels once on {name} ({dtype}, vectors of {width} bytes)")
        answer = _answer(command(index, family, dtype, width))
        if answer.startswith(_UNCHECKED):
            warn_caller(
                f"{devices.label(device)} could not be checked for known answers ({title(family)}, "
                f"{dtype}): {answer[len(_UNCHECKED) :]}; it is used unchecked: 'clhines doctor' "
                "tries again",
                UserWarning,
            )
            return None
        seconds = round(time.perf_counter() - begin, 3)
        if answer == "right":
            _log.info("known answers: right in %.2f s", seconds)
            return Outcome(family, dtype, width, seconds, tuple(said))
        said.append(f"vectors of {width} bytes: {answer}")
        _log.info("known answers: %s", said[-1])
    return Outcome(family, dtype, 0, seconds, tuple(said))


def command(index: str, family: str, dtype: str, width: int) -> list[str]:
    path = [os.path.abspath(folder) for folder in sys.path if isinstance(folder, str)]
    tests = "+".join(f"{self_test(name).module}:{name}" for name in family.split("+"))
    numbers = str(width), str(PROCESSOR_SECONDS)
    return [sys.executable, "-c", _PROGRAM, json.dumps(path), index, tests, dtype, *numbers]


def _answer(arguments: Sequence[str]) -> str:
    """Run a self-test in another process; `arguments` are those of `main`.

    Return "right", or a description of the fault. If the test could not be run, return `_UNCHECKED`
    and the reason.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="clhines-") as folder:
            # Use another cache: a killed build spoils a cache, and the self-test has to compile.
            variables = {SWITCH: "1", "POCL_CACHE_DIR": folder, "PYOPENCL_NO_CACHE": "1"}
            out, code = _run(arguments, {**os.environ, **variables, "CLHINES_DUMP": ""})
    except OSError as error:
        return f"{_UNCHECKED}its process could not be started ({error})"
    words = [line[len(_WORD) :] for line in out.splitlines() if line.startswith(_WORD)]
    if not words:
        return f"{_UNCHECKED}its process ended before it began (code {code})"
    if words[-1] == "unsure":
        return f"{_UNCHECKED}its process had too little memory"
    if words[-1] == "right":
        return "right"
    if words[-1].startswith("wrong: "):
        return words[-1][len("wrong: ") :]
    if code is None:
        return f"no answer within {SECONDS:.0f} s"
    if -code in [getattr(signal, name, None) for name in ("SIGXCPU", "SIGKILL")]:
        return f"no answer within {PROCESSOR_SECONDS} s of processor time, or with the memory left"
    return f"the process ended with code {code}" if code >= 0 else f"a crash (signal {-code})"


def _run(arguments: Sequence[str], environment: dict[str, str]) -> tuple[str, int | None]:
    with subprocess.Popen(
        arguments,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as process:
        try:
            out, _ = process.communicate(timeout=SECONDS)
            return out, process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0], None
        except BaseException:
            process.kill()
            raise


# ---------------------------------------------------------------------------------------- the store


def _key(device: cl.Device, family: str, dtype: str) -> dict[str, object]:
    return {
        "platform": device.platform.name.strip(),
        "platform_version": device.platform.version.strip(),
        "device": device.name.strip(),
        "version": device.version.strip(),
        "driver": device.driver_version,
        "workaround": not pocl.switched_off(),
        "clhines": clhines.__version__,
        "kernels": digest(),
        "family": family,
        "dtype": dtype,
    }


def _load(key: dict[str, object]) -> Outcome | None:
    fields = files.kept_entry("trust", _SCHEMA, key).get("outcome")
    if not isinstance(fields, dict) or set(fields) != set(Outcome.__dataclass_fields__):
        return None
    widest, seconds, said = fields["widest"], fields["seconds"], fields["said"]
    good = type(widest) is int and 0 <= widest <= 128 and type(seconds) in (int, float)
    if not good or not isinstance(said, list) or not all(isinstance(s, str) for s in said):
        return None
    if (fields["family"], fields["dtype"]) != (key["family"], key["dtype"]) or not (widest or said):
        return None
    return Outcome(fields["family"], fields["dtype"], widest, float(seconds), tuple(said))
