"""Command lines for the fuzz: only the codes 0, 1 and 2, one line of error, no damaged file."""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.measures.fuzz.common import WrongError, pick, shortened
from bench.measures.fuzz.swc import REAL

LINE = 300  # letters in an error, without file names
COLUMNS = 100
CELL = """1 1 0 0 0 5 -1
2 3 8 0 0 1 1
3 3 60 0 0 0.8 2
4 3 90 20 0 0.5 3
5 3 90 -20 0 0.5 3
"""
ODD = ["", "-", "--", "-1", "0", "nan", "inf", "-inf", "1e400", "1e-400", "1e308", "1e18", "abc"]
ODD += ["9" * 400, "9" * 5000, "1" * 16, "1000000000000000", "1000000000", "2147483648", "0x10"]
ODD += ["1_0", " 1", "1 ", "１", "½", "日本", "\udcff", "a\nb", "\x1b[31m", "%s", "{}", "-0", "1.5"]
COUNTS = ["1", "2", "3", "7", "20"]
LENGTHS = ["5", "20", "100", "1e9", "1e-9", "1e-300", "0.5", "2"]
HUGE = ["1000000000", "1000000000000000", "100000000000"]  # must be judged before it is taken
DEVICES = ["Oclgrind-no", "1:0", "0:9", "9:9", "Portable", "1:", ":", "-1:0", "1:0:0", "pthread"]
METHODS = """auto flat interleaved block_interleaved block_local levels fine cr pcr cr_pcr
    contraction""".split()
FILES = """good.swc good.swc two.swc bad.swc empty.swc folder.swc absent.swc /dev/null /dev/zero .
    link.swc huge.swc zero.swc split.swc -- -x.swc ~""".split()
FILES += ["real.swc", "real.swc"]
FILES += ["latin\udcff.swc", "new\nline.swc", ""]
OPTIONS = {
    "plan": {
        "--cells": COUNTS + HUGE, "--max-length": LENGTHS, "--roots": ["refuse", "split"],
        "--method": METHODS, "--dtype": ["float64", "float32", "half"],
        "--device": DEVICES,
    },
    "solve": {
        "--cells": COUNTS + HUGE, "--max-length": LENGTHS, "--roots": ["refuse", "split"],
        "--method": METHODS, "--dtype": ["float64", "float32"], "--device": DEVICES,
        "--steps": COUNTS,
    },
    "devices": {},
}  # fmt: skip
COUNT_OPTIONS = "--cells", "--steps"
POSITIVE_OPTIONS = ("--max-length",)
_FOLDER, _REAL = Path("."), REAL / "good" / "96ML.CNG.swc"


@dataclass(frozen=True)
class Case:
    """Arguments, and streams closed before the start (1, 2; then in a process of its own)."""

    argv: tuple[str, ...]
    closed: tuple[int, ...] = ()


def generate(rng):
    command = pick(rng, ["plan", "plan", "solve", "solve", "devices"])
    argv = command.split()
    options = OPTIONS[command]
    odd = float(pick(rng, [0.0, 0.0, 0.1, 0.3]))
    names = list(options)
    for _ in range(int(rng.integers(0, 5)) if names else 0):
        name = pick(rng, names)
        value = pick(rng, ODD if rng.random() < odd else options[name])
        argv += [f"{name}={value}"] if rng.random() < 0.3 else [name, value]
    if command in ("plan", "solve") and rng.random() < 0.7:
        argv += [pick(rng, FILES) for _ in range(int(pick(rng, [1, 1, 2])))]
    if rng.random() < 0.08:
        argv.insert(
            int(rng.integers(len(argv) + 1)), pick(rng, [*ODD, "--help", "--version", "-h"])
        )
    closed = pick(rng, [(1,), (2,), (1, 2), (0, 1, 2)]) if rng.random() < 0.06 else ()
    return Case(tuple(argv), closed)


# -------------------------------------------------------------------------------------- folder


def prepare(folder):
    global _FOLDER
    _FOLDER = folder
    _fill()
    _quietly(_run, ["solve", "--steps", "1", "good.swc"])
    if os.environ.get("DISPLAY") is None:
        os.environ.setdefault("MPLBACKEND", "agg")


def _fill():
    texts = {
        "good.swc": CELL,
        "two.swc": CELL + CELL.replace(" ", "0 ", 1).replace("\n", "\n"),
        "bad.swc": CELL.replace("60", "nan"),
        "empty.swc": "",
        "huge.swc": CELL.replace("60 0 0 0.8", "60 0 0 1e9"),
        "zero.swc": CELL.replace("0.8", "0"),
        "split.swc": CELL + "6 3 200 0 0 1 -1\n7 3 220 0 0 1 6\n",
        "-x.swc": CELL,
        "--": CELL,
        "latin\udcff.swc": CELL,
        "new\nline.swc": CELL,
        "real.swc": _REAL.read_text() if _REAL.is_file() else CELL,
    }
    for name, text in texts.items():
        path = _FOLDER / name
        if path.exists():
            os.chmod(path, 0o644)
        path.write_text(text)
    (_FOLDER / "folder.swc").mkdir(exist_ok=True)
    (_FOLDER / "link.swc").unlink(missing_ok=True)
    (_FOLDER / "link.swc").symlink_to("good.swc")


# -------------------------------------------------------------------------------------- checks


def check(case):
    if any("\0" in word for word in case.argv):
        return "refused"
    _fill()
    code, out, err = _in_process(case) if case.closed else _called(case.argv)
    _check_code(case, code, out, err)
    return "accepted" if code == 0 else "refused"


def unlawful(argv):
    """Return the first option whose value is not of its number type."""
    words = list(argv)
    for k, word in enumerate(words):
        name, sign, value = word.partition("=")
        value = value if sign else (words[k + 1] if k + 1 < len(words) else "")
        if name in COUNT_OPTIONS and not re.fullmatch("0*[1-9][0-9]{0,15}", value, re.ASCII):
            return word
        if name in POSITIVE_OPTIONS:
            try:
                good = 0 < float(value) < float("inf")
            except ValueError:
                good = False
            if not good:
                return word
    return ""


def _check_code(case, code, out, err):
    if "Traceback" in err or "Traceback" in out:
        last = (err or out).strip().splitlines()[-1]
        raise WrongError(f"traceback printed: {shortened(last)}")
    if code not in (0, 1, 2):
        raise WrongError(f"exit code {code}: '{shortened(err)}'")
    odd = unlawful(case.argv)
    if code == 0 and odd and not {"-h", "--help", "--version"} & set(case.argv):
        raise WrongError(f"accepted: {odd.partition('=')[0]} of no number: '{odd}'")
    hidden = err
    for word in sorted(case.argv, key=len, reverse=True):
        if len(word) > 2:
            hidden = hidden.replace(word, "A").replace(" ".join(word.split("\n")), "A")
    lines = [line for line in hidden.splitlines() if line.strip()]
    for line in lines:
        if "site-packages" in line or "Warning" in line or "/clhines/" in line:
            raise WrongError(f"a place in the source is shown: {shortened(line)}")
    if code == 2 and 2 not in case.closed:
        if len(lines) != 1 or not lines[0].startswith("clhines"):
            raise WrongError(f"{len(lines)} lines of error for code 2: {shortened(err)}")
        if len(lines[0]) > LINE:
            raise WrongError(f"a line of {len(lines[0])} letters: {shortened(lines[0])}")
    if code == 0 and not case.closed and not {"-h", "--help"} & set(case.argv):
        long = [line for line in out.splitlines() if len(line) > COLUMNS]
        if long:
            raise WrongError(f"output of {len(long[0])} columns: {shortened(long[0])}")


def _run(argv):
    """Run ``python -m clhines.cli`` in this process; return its exit code."""
    argv_before, sys.argv = sys.argv, ["clhines", *argv]
    try:
        runpy.run_module("clhines.cli", run_name="__main__")
    except SystemExit as error:
        return error.code
    finally:
        sys.argv = argv_before


def _quietly(function, argv):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        function(argv)


class _Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def _called(argv):
    """Run the command line in this process on a terminal; return code, stdout, stderr."""
    make = _Terminal, io.TextIOWrapper
    streams = [one(io.BytesIO(), "utf-8", "surrogateescape") for one in make]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            code = _run(list(argv))
        except SystemExit as error:
            code = error.code
    texts = []
    for stream in streams:
        stream.flush()
        data = stream.buffer.getvalue()
        texts.append(data.decode("utf-8", "surrogateescape"))
    return code, *texts


def _in_process(case):
    program = (
        "import os, sys\n"
        f"[os.close(k) for k in {list(case.closed)}]\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'clhines.cli', *sys.argv[1:]])\n"
    )
    argv = [os.fsencode(word) for word in case.argv]
    done = subprocess.run(
        [sys.executable, "-c", program, *argv], capture_output=True, timeout=80, check=False
    )
    texts = (data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr))
    return done.returncode, *texts
