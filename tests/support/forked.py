"""Programs in processes of their own, forked from one that has imported NEURON and this package.

The imports take a second, and a fork some milliseconds. That process uses no OpenCL itself. The
ranks of MPI are forks, too: what the launcher starts hands over its channels and waits.
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import ModuleType

TESTS = str(Path(__file__).parents[1])
BEGIN = """
import json, sys, warnings
import numpy as np
from neuron import h
import clhines, clhines.neuron
from support.mod_files import loaded
from support.neuron_scripts import listed, make_section, refusal, with_values
h.load_file("stdrun.hoc")
"""


def result_of(program, *arguments):
    """Return the last line that a program prints, as JSON.

    The program is a path of a file, or a text, to which `BEGIN` is prepended and which can import
    ``support``.
    """
    where, text = ("-c", [BEGIN + program]) if isinstance(program, str) else (str(program), [])
    code, out, err = ended([where, *text, *map(str, arguments)])
    assert not code, err[-2000:]
    return json.loads(out.splitlines()[-1])


def ended(command, launcher=()):
    """Code, output and errors of a program with its arguments.

    `launcher`: of MPI ranks, with options; the last word is how many ranks there are.
    """
    if sys.platform == "linux":
        return _forked(command, launcher)
    paths = {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), TESTS])}
    done = subprocess.run(
        [*launcher, sys.executable, *command], env={**os.environ, **paths}, capture_output=True,
        text=True, timeout=400, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def printed_by(program):
    """Return the last line that a text prints, as JSON; warnings are errors in it."""
    return result_of('warnings.simplefilter("error")\n' + program)


def found_by(program):
    """Return the final value of `found` in a text."""
    return result_of(f"{program}\nprint(json.dumps(found))")


def verdict_of(module, fault):
    """Return the verdict of a self-test's module after a text has planted a fault."""
    from clhines.neuron.memory.versions import WORD

    printed = found_by(f"""
import contextlib, io
{fault}
import {module} as selftest
with contextlib.redirect_stdout(io.StringIO()) as printed:
    selftest.main()
found = printed.getvalue()
""")
    (line,) = [x for x in printed.splitlines() if x.startswith(WORD)]
    return json.loads(line.removeprefix(WORD))


def refusal_of(program):
    """Return the message of RejectedError from `ask`, a function in a text, or an empty text."""
    return found_by(
        program
        + """
try:
    ask()
    found = ""
except clhines.neuron.RejectedError as error:
    found = str(error)
"""
    )


def _forked(command, launcher, timeout=400):
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        request = [command, launcher, [*map(str, files)], dict(os.environ), os.getcwd(), timeout]
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return code, *(f.read_text("utf-8") for f in files)


@functools.cache
def _server():
    """The process that forks: one for each process of pytest."""
    server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(server.communicate)  # closes its input, which ends it
    return server


def _serve():
    inherited = {*os.environ}  # the first test's; variables set by imports stay
    import neuron  # noqa: F401
    import raised  # noqa: F401

    import clhines
    import clhines.neuron

    clhines.Simulation  # noqa: B018 triggers lazy imports
    clhines.neuron.run  # noqa: B018
    sys.path.pop(0)  # this folder
    sys.path.append(TESTS)
    from clhines.solver.plan import templates
    from support import mod_files

    mod_files.versions()  # or each program would ask the compiler
    for path in templates.FOLDER.rglob("*.mako"):
        templates.compiled(path.relative_to(templates.FOLDER).with_suffix("").as_posix())
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            os.setsid()
            for name in inherited - request[3].keys():
                del os.environ[name]
            _run(*request)
        end = time.monotonic() + request[-1]
        while not (results := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.02)
        print(os.waitstatus_to_exitcode(results[1]), flush=True)


def _run(command, launcher, files, environment, folder, _):
    for descriptor, path in zip((1, 2), files):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.update(environment)
    os.chdir(folder)
    _end_with(_launched, command, launcher) if launcher else _end_with(_executed, command)


def _end_with(do, *arguments):
    """End this process with what a function returns, a status."""
    code = 1
    try:
        code = do(*arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _executed(command):
    sys.modules["raised"].note()
    if command[0] == "-c":
        sys.argv = ["-c", *command[2:]]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(command[1], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = command
        sys.path.insert(0, str(Path(command[0]).parent))
        runpy.run_path(command[0], run_name="__main__")
    return 0


# What the launcher starts as a rank: it sends its environment, its output and the launcher's
# channel to the process that forks, and ends with the status that comes back.
RANK = """
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
channel = [int(os.environ["PMI_FD"])] if "PMI_FD" in os.environ else []
socket.send_fds(server, [b"."], [1, 2, *channel])
server.sendall(json.dumps(dict(os.environ)).encode() + b"\\n")
sys.exit(int(server.makefile().readline()))
"""


def _launched(command, launcher):
    """Start the launcher, fork a process for each rank, and return the launcher's status."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(60)
        listener.bind(f"{folder}/ranks")
        listener.listen()
        words = [*launcher, sys.executable, "-I", "-S", "-c", RANK, f"{folder}/ranks"]
        launched, started = subprocess.Popen(words, stdin=subprocess.DEVNULL), {}
        for _ in range(int(launcher[-1])):
            rank, _ = listener.accept()
            _, channels, *_ = socket.recv_fds(rank, 1, 3)
            environment = json.loads(rank.makefile().readline())
            child = os.fork()
            if not child:
                _end_with(_executed_as_rank, command, channels, environment)
            for channel in channels:
                os.close(channel)
            started[child] = rank
        while launched.poll() is None:
            time.sleep(0.02)
            for child, rank in [*started.items()]:
                if select.select([rank], [], [], 0)[0]:  # the launcher has killed what it started
                    os.kill(child, signal.SIGKILL)
                ended_child, status = os.waitpid(child, os.WNOHANG)
                if ended_child:
                    del started[child]
                    with suppress(BrokenPipeError):
                        rank.sendall(f"{os.waitstatus_to_exitcode(status) & 255}\n".encode())
        for child in started:
            os.kill(child, signal.SIGKILL)
        return launched.returncode


def _executed_as_rank(command, channels, environment):
    numbers = 1, 2, *([int(environment["PMI_FD"])] if len(channels) > 2 else [])
    free = [fcntl.fcntl(channel, fcntl.F_DUPFD, 100) for channel in channels]  # no number of these
    for channel, number in zip(free, numbers, strict=True):
        os.dup2(channel, number)
        os.close(channel)
    os.environ.update(environment)
    code = _executed(command)
    if mpi := sys.modules.get("mpi4py.MPI"):  # `os._exit` would leave the launcher waiting
        mpi.Is_finalized() or mpi.Finalize()
        sys.stdout.flush()
        ctypes.CDLL(None).exit(code)  # MPICH says good-bye in the C library's exit
    return code


if __name__ == "__main__":
    _serve()
