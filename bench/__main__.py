"""Run a measure: ``python -m bench NAME [ARGUMENT ...]``; without a name, list them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

BENCH = Path(__file__).resolve().parent
MEASURES = {
    "solve": "measures.solve",
    "reach": "measures.reach",
    "calls": "measures.calls",
    "tridiagonal": "measures.tridiagonal",
    "adi": "measures.adi",
    "turns": "measures.turns",
    "starts": "measures.starts",
    "plan": "measures.plan",
    "tune": "measures.tune",
    "peers": "measures.peers",
    "ring": "measures.ring",
    "cells": "measures.cells",
    "variants": "measures.variants",
    "scale": "measures.scale",
    "models": "measures.models",
    "pieces": "measures.pieces",
    "frameworks": "measures.frameworks",
    "points": "measures.points",
    "features": "measures.features",
    "gradients": "measures.gradients",
    "fibres": "measures.fibres",
    "guard": "measures.guard",
    "papers": "papers.command",
    "random": "measures.random.command",
    "again": "again",
}


def first_line(module: str) -> str:
    spec = find_spec(f"bench.{module}")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module bench.{module}")
    source = Path(spec.origin).read_text("utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").split("\n")[0]


def listing() -> str:
    lines = [f"  {name:<9} {first_line(module)}" for name, module in MEASURES.items()]
    usage = "usage: python -m bench NAME [ARGUMENT ...]; NAME --help lists the arguments of NAME"
    return "\n".join([usage, "", *lines])


def prefer_installed() -> None:
    """Let an installed clhines precede this checkout's, which may lack its kernels."""
    root = str(BENCH.parent)
    if sys.path[0] in ("", root, str(BENCH)):
        del sys.path[0]
    if root not in sys.path:
        sys.path.append(root)


def main(arguments: Sequence[str]) -> int:
    """Run one measure; return its exit code, or 2 for an unknown name.

    A name with a dot is a module that a measure starts in a separate process.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(listing())
        return 0
    name, *rest = arguments
    if name not in MEASURES and "." not in name:
        print(f"there is no measure {name!r}; expected {', '.join(MEASURES)}", file=sys.stderr)
        return 2
    module = import_module(f"bench.{MEASURES.get(name, name)}")
    if "." in name:  # the parent process reports its errors
        return int(module.main(rest) or 0)
    from bench import MissingError
    from clhines.core.errors import ClhinesError

    try:
        return int(module.main(rest) or 0)
    except (ClhinesError, MissingError) as error:
        raise SystemExit(f"{name}: {error}") from error


if __name__ == "__main__":
    prefer_installed()
    sys.exit(main(sys.argv[1:]))
