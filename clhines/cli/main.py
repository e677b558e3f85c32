"""Parse the arguments, run the command, and report each error in one line."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module

import numpy as np

import clhines
from clhines.cli.arguments import CommandParser, add_command, add_verbose
from clhines.cli.plan import add_methods, add_plan
from clhines.cli.simulate import add_simulate, with_script_last
from clhines.cli.solve import add_solve
from clhines.core.errors import BuildError, ClhinesError, RankError, tell
from clhines.simulator.common.launchers import other_ranks

EXAMPLES = """\
examples:
  clhines simulate script.py           run a NEURON script, unedited
  clhines simulate script.py --check   only list what is not supported
  clhines doctor                       check this installation
`clhines COMMAND --help` lists the options of a command."""

DIAGNOSES = {  # command: summary, text, examples
    "doctor": (
        "find out what is wrong with an installation",
        """\
Check this installation: OpenCL devices, caches, MPI and optional packages.
Each device solves small problems with known answers, which compiles kernels.
A fault is followed by advice; the exit code is 1 if there is one.""",
        "  clhines doctor",
    ),
    "devices": (
        "list the OpenCL devices",
        "List the OpenCL devices; * marks the one that is used by default.",
        """\
  clhines devices
  clhines simulate script.py --device 0:0    use one of them""",
    ),
    "engines": (
        "list the engines of simulations",
        """\
List the engines of simulations, and what each does not support.
`auto` is the first in the list that supports the network.""",
        """\
  clhines engines
  clhines simulate script.py --engine steps  use one of them""",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    if not _streams_open():
        return 2
    words = with_script_last(sys.argv[1:] if argv is None else argv)
    arguments = _parser().parse_args(words)
    with _logged_to_stderr(arguments):
        return _end(arguments)


def _end(arguments: argparse.Namespace) -> int:
    code, message = _run(arguments)
    comm = other_ranks() if code else None
    if comm is not None:
        from clhines.simulator.ranks import mpi

        return mpi.finish(comm, message, code % 256 or int(code != 0))
    if message:
        tell(message)
    return code


@contextmanager
def _logged_to_stderr(arguments: argparse.Namespace) -> Iterator[None]:
    """Print clhines' log on stderr: its main lines with -v, all of it with -vv."""
    if not getattr(arguments, "verbose", 0):
        yield
        return
    logger, handler = logging.getLogger("clhines"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("clhines: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if arguments.verbose == 1 else logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _streams_open() -> bool:
    """Reopen streams that were closed at the start as /dev/null; return whether stdout was open."""
    closed = sys.stdout is None
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is not None:
            continue
        mode = "r" if number == 0 else "w"
        file = open(os.devnull, mode, encoding="utf-8")
        if file.fileno() != number:  # else a file opened later would get that number
            with suppress(OSError):
                os.dup2(file.fileno(), number)
        setattr(sys, name, file)
    if closed:
        tell("the standard output is closed; expected a file, /dev/null at least")
    return not closed


def _run(arguments: argparse.Namespace) -> tuple[int, str]:
    try:
        # checks report values that are not finite
        with np.errstate(all="ignore"), _warnings_in_one_line():
            code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code, ""
    except RankError:  # the rank that failed prints the message
        return 2, ""
    except BuildError as error:  # the one message with lines: the numbered source
        return 2, str(error)
    except ClhinesError as error:
        return getattr(error, "status", 2), " ".join(str(error).splitlines())
    except KeyboardInterrupt:
        return 130, "interrupted"
    except BrokenPipeError:  # nobody reads the output any more
        _drop_output()
        return 2, ""
    except OSError as error:
        with suppress(OSError):
            sys.stdout.flush()
        if error.filename is None:  # the standard output is full
            _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return 2, f"{where}{error.strerror or error}"
    except MemoryError as error:
        return 2, f"out of memory: {error}"


def _drop_output() -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    with warnings.catch_warnings():

        def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
            ours = category.__module__.startswith("clhines")
            what = "" if ours else f"{category.__name__}: "
            tell(f"{what}{' '.join(str(message).split())}")

        warnings.showwarning = show
        yield


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="clhines",
        usage="clhines [-v] COMMAND ...",
        description="Run NEURON models and networks of neurons on GPUs and CPUs (OpenCL).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_verbose(parser)
    parser.add_argument("--version", action="version", version=f"clhines {clhines.__version__}")
    commands = parser.add_subparsers(
        dest="command", required=True, title="commands", metavar="COMMAND", prog="clhines"
    )
    add_simulate(commands)
    add_solve(commands)
    add_plan(commands)
    add_methods(commands)
    for name, (summary, text, examples) in DIAGNOSES.items():
        command = add_command(commands, name, summary, text, examples)
        command.set_defaults(run=partial(_run_module, "doctor"))
    for command in commands.choices.values():
        add_verbose(command)
    return parser


def _run_module(name: str, arguments: argparse.Namespace) -> int:
    """Import a module only now, because it imports pyopencl, and run its command."""
    run = getattr(import_module(f"clhines.cli.{name}"), f"run_{arguments.command}")
    return int(run(arguments))
