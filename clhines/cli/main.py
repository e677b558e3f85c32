"""The command line: arguments in, tables out; everything else is done by the other modules."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

import clhines
from clhines.cli.arguments import Parser, add_cells
from clhines.cli.devices import run_devices
from clhines.cli.model import add_model, with_model
from clhines.cli.plan import add_plan
from clhines.cli.simulate import add_ring
from clhines.cli.solve import add_solve
from clhines.cli.tune import run_tune
from clhines.errors import BuildError, ClhinesError, RankError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0 for success, 1 for a failed check, 2 for bad input."""
    if not _streams_open():
        return 2
    arguments = _parser().parse_args(with_model(sys.argv[1:] if argv is None else argv))
    arguments.told = None  # how the ranks of several processes end together
    code, message = _run(arguments)
    if arguments.told is not None:
        from clhines.simulate import mpi

        return mpi.finish(arguments.told, message, code)
    if message:
        _tell(f"clhines: {message}")
    return code


def _tell(text: str) -> None:
    """Print to the standard error, which may be closed at the other end."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _streams_open() -> bool:
    """Replace closed streams, for which Python has no object; a closed output is an error."""
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
        _tell("clhines: the standard output is closed; expected a file, /dev/null at least")
    return not closed


def _run(arguments: argparse.Namespace) -> tuple[int, str]:
    """Run the command; returns the exit code, and the message of an error."""
    try:
        # The checks find values that are not finite.
        with np.errstate(all="ignore"), _warnings_in_one_line():
            code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code, ""
    except RankError:  # that rank says what it is
        return 2, ""
    except BuildError as error:  # the one message with lines: the numbered source
        return 2, str(error)
    except ClhinesError as error:
        return 2, " ".join(str(error).splitlines())
    except KeyboardInterrupt:
        return 130, "interrupted"
    except BrokenPipeError:  # the reader of our output has gone
        _drop_output()
        return 2, ""
    except OSError as error:
        with suppress(OSError):
            sys.stdout.flush()
        if error.filename is None:  # of the standard output, which is full
            _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return 2, f"{where}{error.strerror or error}"
    except MemoryError as error:
        return 2, f"out of memory: {error}"


def _drop_output() -> None:
    """Drop printed text that cannot be written, so that nothing tries again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Show warnings as the errors are shown, without a place in the source."""
    with warnings.catch_warnings():

        def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
            ours = category.__module__.startswith("clhines")
            what = "" if ours else f"{category.__name__}: "
            _tell(f"clhines: {what}{' '.join(str(message).split())}")

        warnings.showwarning = show
        yield


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="clhines",
        description="Batches of Hines matrices of neurons, and networks of spiking cells, on any "
        "OpenCL device.",
        epilog="See also: clhines COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"clhines {clhines.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    devices = commands.add_parser("devices", help="list the OpenCL devices")
    devices.set_defaults(run=run_devices)

    add_plan(commands)
    add_solve(commands)

    simulate = commands.add_parser("simulate", help="simulate a network of spiking cells")
    networks = simulate.add_subparsers(dest="network", required=True)
    add_ring(networks)
    add_model(networks)

    tune = commands.add_parser(
        "tune", help="time what auto may choose on these cells, and store the fastest"
    )
    add_cells(tune, method=False)
    tune.add_argument("--json", action="store_true", help="print JSON instead of a table")
    instead = tune.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="only list what is stored")
    instead.add_argument("--clear", action="store_true", help="only remove all that is stored")
    tune.set_defaults(run=run_tune)
    return parser
