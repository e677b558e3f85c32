"""Write the tables and pictures of result files again, without a device.

    python -m bench again bench/results/ring-<device>.json ...

The head of an existing table stays, as it names the device.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import MissingError, record


def module_of(path: Path, result: dict[str, Any]) -> ModuleType:
    """Return the module that wrote a result: that of the papers, or the first word of the name."""
    if "figure" in result:
        return import_module("bench.papers.command")
    name = path.stem.split("-")[0]
    try:
        return import_module(f"bench.measures.{name}")
    except ModuleNotFoundError as error:
        raise MissingError(f"{path}: no measure {name!r} writes such a file") from error


def write(path: Path) -> None:
    """Write the table and the picture of one result."""
    try:
        result = json.loads(path.read_text("utf-8"))
        module = module_of(path, result)
        text = module.text(result)
    except OSError as error:
        raise MissingError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MissingError(f"{path}: expected the JSON of a result") from error
    old = path.with_suffix(".txt")
    head = f"commit {result['record']['commit']}\n"
    if old.is_file():
        head = old.read_text("utf-8").partition("\n\n")[0] + "\n"
    old.write_text(f"{head}\n{text}\n", "utf-8")
    record.picture(path, result, getattr(module, "draw", None))


def main(arguments: Sequence[str]) -> None:
    """Write the tables and pictures of the files given."""
    parser = argparse.ArgumentParser("python -m bench again", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="JSON")
    for path in parser.parse_args(arguments).files:
        write(path)
