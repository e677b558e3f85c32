"""The process in which the cases of a fuzz run, its measurements, and the watchdog over it."""

import contextlib
import multiprocessing as mp
import os
import time
import traceback
from importlib import import_module
from pathlib import Path

from bench.measures.fuzz.common import MIB, Verdict, WrongError, without_numbers

CASE_SECONDS = 5.0  # CPU time; more is a hang
KILL_SECONDS = 30.0  # CPU time that ends a worker; a case between the two is repeated
WALL_SECONDS = 90.0  # a worker that waits for something
GROWTH = 200 * MIB  # bytes in one case, or over all cases of a worker
KILL_GROWTH = 1500 * MIB
WARM_CASES = 25  # before leaks are counted
_PAGE, _TICK = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


def work(target, folder, pipe):
    """Run cases until None comes; each answer is a `Verdict`."""
    os.chdir(folder)
    errors = os.open("stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(errors, 2)
    os.environ["CLHINES_CACHE_DIR"] = str(Path(folder) / "store")
    module = import_module(target)
    module.prepare(Path(folder))
    pipe.send("ready")
    while (case := pipe.recv()) is not None:
        pipe.send(measured(module, case))


def measured(module, case):
    before = _reset_peak()
    begin = time.process_time()
    try:
        verdict = Verdict(module.check(case))
    except WrongError as error:
        detail = str(error)
        verdict = Verdict("wrong", without_numbers(detail), detail)
    except BaseException as error:  # whatever comes out is a fault
        if isinstance(error, KeyboardInterrupt):
            raise
        verdict = Verdict("traceback", _place(error), _end_of(error))
    verdict.seconds = time.process_time() - begin
    verdict.peak = max(_memory("VmHWM") - before, 0)
    verdict.resident = _memory("VmRSS")
    if not verdict.failed and verdict.peak > getattr(module, "most_memory", lambda _: GROWTH)(case):
        verdict.detail = f"{verdict.peak / MIB:.0f} MiB for one case, then {verdict.outcome}"
        verdict.outcome, verdict.signature = "memory", "memory of a case"
    return verdict


def _reset_peak():
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # the peak is then over all cases so far
        return _memory("VmHWM")
    return _memory("VmRSS")


def _memory(name, process="self"):
    """Return a process's memory from a line of its status, in bytes; 0 if it has ended."""
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _place(error):
    """Return the type of an error, and the last line of clhines in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f"{os.sep}clhines{os.sep}" in f.filename]
    frame = (ours or frames)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno} {frame.name}"


def _end_of(error):
    text = "".join(traceback.format_exception_only(error)).strip()
    return text if len(text) < 400 else f"{text[:200]} ... {text[-150:]}"


class Worker:
    """A process that runs cases of one target, started again after its end."""

    def __init__(self, target, folder):
        self.target, self.folder = target, folder
        self.kept = self._cases = self._base = 0
        self._process = None
        self._idle = True  # it waits for a case

    def run(self, case):
        """Run a case; repeat a slow one, as the first build of a kernel is slow."""
        verdict = self._once(case)
        if not verdict.failed and verdict.seconds > CASE_SECONDS:
            verdict = self._once(case)
            if not verdict.failed and verdict.seconds > CASE_SECONDS:
                what = f"{verdict.seconds:.1f} s of CPU, then {verdict.outcome}"
                verdict = Verdict("hang", "too slow", what, verdict.seconds)
        return self._judged(verdict)

    def close(self):
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._pipe.send(None)
                self._process.join(2 if self._idle else 0)
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _judged(self, verdict):
        resident = verdict.resident
        self._cases += 1
        if self._cases == WARM_CASES:
            self._base = resident
        if self._cases > WARM_CASES and resident:
            grown = resident - self._base
            self.kept = max(self.kept, grown)
            if grown > GROWTH:
                what = f"{grown / MIB:.0f} MiB more after {self._cases} cases in one process"
                self.close()
                if not verdict.failed:
                    return Verdict("memory", "memory kept", what, verdict.seconds, verdict.peak)
        return verdict

    def _start(self):
        context = mp.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=work, args=(self.target, str(self.folder), other), daemon=True
        )
        self._process.start()
        self._idle = True
        other.close()
        self._cases = 0
        if not self._pipe.poll(300):
            self.close()
            raise RuntimeError(f"the worker of {self.target} does not begin")
        self._pipe.recv()  # EOFError: its prepare() failed, see stderr.txt

    def _once(self, case):
        if self._process is None:
            try:
                self._start()
            except EOFError:
                text = (self.folder / "stderr.txt").read_text()[-2000:]
                raise RuntimeError(f"the worker of {self.target} ended:\n{text}") from None
        process = self._process.pid
        cpu, resident, begin = _cpu(process), _memory("VmRSS", process), time.monotonic()
        try:
            self._pipe.send(case)
            self._idle = False
            while not self._pipe.poll(0.03):
                used = _cpu(process) - cpu
                grown = _memory("VmRSS", process) - resident
                verdict = _too_much(used, time.monotonic() - begin, grown)
                if verdict is not None:
                    self.close()
                    return verdict
            self._idle = True
            return self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            self._idle = False
            code = self._process.exitcode
            self.close()
            said = (self.folder / "stderr.txt").read_text(errors="replace")[-300:]
            return Verdict("crash", f"the process ended with {code}", said.strip())


def _too_much(used, wall, grown):
    if grown > KILL_GROWTH:
        what = f"more than {grown / MIB:.0f} MiB; ended"
        return Verdict("memory", "memory of a case", what, used, grown)
    if used > KILL_SECONDS:
        return Verdict("hang", "never ends", f"more than {used:.0f} s of CPU; ended", used)
    if wall > WALL_SECONDS and used < wall / 10:
        what = f"waits: {used:.1f} s of CPU in {wall:.0f} s; ended"
        return Verdict("hang", "waits", what, used)
    return None


def _cpu(process):
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK
