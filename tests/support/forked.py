"""Programs in processes of their own, forked from one that has imported NEURON and this package.

The imports take a second, and a fork some milliseconds. That process uses no OpenCL itself.
"""

import atexit
import functools
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
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
    command = [where, *text, *map(str, arguments)]
    if sys.platform == "linux":
        code, out, err = _forked(command)
    else:
        paths = {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), TESTS])}
        command, environment = [sys.executable, *command], {**os.environ, **paths}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    assert not code, err[-2000:]
    return json.loads(out.splitlines()[-1])


def printed_by(program):
    """Return the last line that a text prints, as JSON; warnings are errors in it."""
    return result_of('warnings.simplefilter("error")\n' + program)


def found_by(program):
    """Return the final value of `found` in a text."""
    return result_of(f"{program}\nprint(json.dumps(found))")


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


def _forked(command, timeout=400):
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        asked = [command, [*map(str, files)], dict(os.environ), os.getcwd(), timeout]
        server.stdin.write(json.dumps(asked) + "\n")
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
    inherited = {*os.environ}  # of the first test; variables set by imports stay
    import neuron  # noqa: F401
    import raised  # noqa: F401

    import clhines
    import clhines.neuron

    clhines.Simulation  # noqa: B018 triggers lazy imports
    clhines.neuron.run  # noqa: B018
    sys.path.pop(0)  # this folder
    sys.path.append(TESTS)
    from support import mod_files

    mod_files.versions()  # or each program would ask the compiler
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            for name in inherited - asked[2].keys():
                del os.environ[name]
            _run(*asked)
        end = time.monotonic() + asked[-1]
        while not (found := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
        print(os.waitstatus_to_exitcode(found[1]), flush=True)


def _run(command, files, environment, folder, _):
    code = 1
    try:
        for descriptor, path in zip((1, 2), files):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
        os.environ.update(environment)
        os.chdir(folder)
        sys.modules["raised"].note()
        if command[0] == "-c":
            sys.argv = ["-c", *command[2:]]
            sys.modules["__main__"] = main = ModuleType("__main__")
            exec(compile(command[1], "<string>", "exec"), main.__dict__)
        else:
            sys.argv = command
            sys.path.insert(0, str(Path(command[0]).parent))
            runpy.run_path(command[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
