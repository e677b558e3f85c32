"""Options that several commands share, and cells from files."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

import clhines
from clhines.cli.report import bar
from clhines.core.checks import MAX_COUNT
from clhines.core.errors import InputError, meant, shown
from clhines.simulator.cells import cable, swc, synthetic
from clhines.simulator.cells.samples import REPAIRS
from clhines.simulator.engines.table import CHOICES


class CommandParser(argparse.ArgumentParser):
    """A parser that reports wrong arguments in one line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands: Commands | None = None
        self._words: list[str] = []

    def add_subparsers(self, **options: Any) -> Any:
        commands: Any = super().add_subparsers(**options)
        self.commands = commands
        return commands

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as usual, but refuse ``--option=--``: argparse would drop the value."""
        self._words = [str(text) for text in (sys.argv[1:] if args is None else args)]
        for text in self._words:
            if text == "--":
                break
            if re.fullmatch(r"--[a-z][a-z-]*=--", text):
                self.error(f"argument {text[:-3]}: got '--', expected a value")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the message in one line, on the first rank only, and exit with status 2."""
        numbers = "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"
        if any(os.environ.get(name, "0") != "0" for name in numbers):
            self.exit(2)  # all ranks have the same arguments; rank 0 prints the message
        message = " ".join(message.split())
        hint = self._meant(message)
        message = message if len(message) <= 240 else message[:237] + "..."
        parser = self.of_command() if "unrecognized arguments" in message else self
        self.exit(2, f"{parser.prog}: {message}{hint} (see {parser.prog} --help)\n")

    def _meant(self, message: str) -> str:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*?)\)?$", message)
        if choice:
            return meant(choice[1], re.findall(r"[\w.-]+", choice[2]))
        option = re.search(r"unrecognized arguments: (?:.* )?(--[\w-]+)", message)
        return meant(option[1], self.of_command().long_options()) if option else ""

    def of_command(self) -> CommandParser:
        """Return the parser of the typed command; this parser if no command was typed."""
        for name, parser in self.commands.choices.items() if self.commands is not None else ():
            if name in self._words:
                return parser.of_command()
        return self

    def long_options(self) -> set[str]:
        return {name for name in self._option_string_actions if name.startswith("--")}


class Once(argparse.Action):
    """An option that must not be repeated; argparse would silently use the last value."""

    def __call__(self, parser: Any, namespace: Any, values: object, option: Any = None) -> None:
        before = getattr(namespace, self.dest)
        if before is not None:
            parser.error(f"got {option} {before} and {option} {values}; expected one device")
        setattr(namespace, self.dest, values)


Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"


def add_command(
    commands: Commands, name: str, summary: str, text: str, examples: str
) -> CommandParser:
    """Return a new command's parser; its help begins with `text` and ends with `examples`."""
    return commands.add_parser(
        name,
        help=summary,
        description=text,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_cells(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE.swc", help="default: built-in sample")
    parser.add_argument("--cells", type=count, metavar="N", help="repeat the cells to N cells")
    # fmt: off
    parser.add_argument("--max-length", type=positive_number, metavar="UM",
                        help="longest compartment [um]; default: the d_lambda rule")
    parser.add_argument("--roots", choices=("refuse", "split"), default="refuse",
                        help="refuse files with several roots, or one cell per root")
    parser.add_argument("--repair", choices=REPAIRS,
                        help="interpolate radii of 0 inside neurites, and warn")
    methods = ["auto", *clhines.METHODS]
    parser.add_argument("--method", choices=methods, default="auto", metavar="M",
                        help=", ".join(methods) + " (default: auto)")
    # fmt: on
    add_device(parser)


def add_verbose(parser: argparse.ArgumentParser) -> None:
    # fmt: off
    parser.add_argument("-v", "--verbose", action="count", default=argparse.SUPPRESS,
                        help="say what is chosen and why; -vv says more")
    # fmt: on


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {shown(text)}, expected a number") from None


def positive_number(text: str) -> float:
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {shown(text)}, expected a positive number")
    return value


def count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_COUNT:
        raise argparse.ArgumentTypeError(
            f"got {shown(text)}, expected a whole number from 1 to 1e15"
        )
    return int(text)


def add_device(parser: argparse.ArgumentParser) -> None:
    # fmt: off
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64",
                        help="precision on the device (default: float64)")
    parser.add_argument("--device", metavar="SPEC", action=Once,
                        help="index pair like 0:1, or part of a name")
    # fmt: on


def add_engine(parser: argparse.ArgumentParser) -> None:
    add_device(parser)
    # fmt: off
    parser.add_argument("--engine", choices=CHOICES, default="auto", metavar="E",
                        help=f"{', '.join(CHOICES)} (default: auto; see 'clhines engines')")
    # fmt: on


def read_cells(arguments: argparse.Namespace) -> list[cable.Cable]:
    """Read and discretise the cells in SWC files; without files, return the built-in samples."""
    names = arguments.files
    cells = list[clhines.Morphology]()
    for name in bar(names, "reading"):
        file_cells = swc.read_swc(name, roots=arguments.roots, repair=arguments.repair)
        cells += file_cells if isinstance(file_cells, list) else [file_cells]
    if names and arguments.cells and arguments.cells < len(cells):
        raise InputError(
            f"--cells {arguments.cells} is less than the {len(cells)} cells in the files; expected "
            "at least as many"
        )
    each = bar(cells or synthetic.sample_cells(), "discretising")
    return [cable.discretise(cell, max_length=arguments.max_length) for cell in each]
