"""Write the tables and pictures of results again, without a device.

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
from bench.__main__ import MEASURES


def module_of(path: Path, result: dict[str, Any]) -> ModuleType:
    """Return the module that wrote a result: one of the papers, or the name's first word."""
    name = "papers" if "figure" in result else path.stem.split("-")[0]
    if name not in MEASURES:
        raise MissingError(f"{path}: no measure {name!r} writes such a file")
    return import_module(f"bench.{MEASURES[name]}")


def write(path: Path) -> None:
    try:
        result = json.loads(path.read_text("utf-8"))
        module = module_of(path, result)
        text, commit = module.text(result), result["record"]["commit"]
    except OSError as error:
        raise MissingError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MissingError(f"{path}: expected the JSON of a result") from error
    old = path.with_suffix(".txt")
    head = f"commit {commit}\n"
    if old.is_file():
        head = old.read_text("utf-8").partition("\n\n")[0] + "\n"
    old.write_text(f"{head}\n{text}\n", "utf-8")
    record.picture(path, result, getattr(module, "draw", None))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench again", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="JSON")
    for path in parser.parse_args(arguments).files:
        write(path)
