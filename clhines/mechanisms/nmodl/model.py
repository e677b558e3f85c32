"""An NMODL file as a mechanism: what `Mechanism` asks of a language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from clhines.errors import InputError, shown
from clhines.mechanisms.emit import random123
from clhines.mechanisms.ir.expressions import ExpressionError
from clhines.mechanisms.ir.program import Argument
from clhines.mechanisms.nmodl.build import Model, build
from clhines.mechanisms.nmodl.reading.lexer import Includes, tokens
from clhines.mechanisms.nmodl.reading.tree import Refused
from clhines.mechanisms.nmodl.source import Functions, name_of


@dataclass(frozen=True)
class Nmodl:
    """What there is to an NMODL mechanism beside its text.

    Attributes
    ----------
    path : str
        What messages call the file.
    includes : tuple of (str, str)
        Names and texts of the files that it includes.
    use_tables : bool
        Value of usetable: whether TABLE statements count.
    secondorder : bool
        Whether NEURON's secondorder is not 0.
    """

    path: str = ""
    includes: tuple[tuple[str, str], ...] = ()
    use_tables: bool = True
    secondorder: bool = False


def read(
    text_or_path: str | Path, path: str = "", use_tables: bool = True, secondorder: bool = False
) -> tuple[str, Nmodl]:
    """Return an NMODL text and what there is to it, of a text or the path of a file."""
    folder = None
    if not isinstance(text_or_path, (str, Path)):
        raise InputError(f"text_or_path is {shown(text_or_path)}; expected a text or a path")
    if isinstance(text_or_path, Path) or "\n" not in text_or_path.strip():
        file = Path(text_or_path)
        if "{" in str(text_or_path) and not file.is_file():
            return str(text_or_path), Nmodl(path, (), use_tables, secondorder)
        try:
            text = file.read_text("utf-8", "replace")
        except OSError as error:
            raise InputError(f"cannot read {str(file)!r}: {error.strerror}") from error
        path, folder = path or str(file), file.parent
    else:
        text = text_or_path
        folder = Path(path).parent if path else None
    includes = Includes(folder)
    with suppress(Refused):  # said where the text is read
        tokens(text, includes)
    return text, Nmodl(path, tuple(includes.texts.items()), use_tables, secondorder)


@lru_cache(maxsize=256)
def model_of(text: str, nmodl: Nmodl) -> Model:
    """Return the model of a text."""
    includes = Includes(None, dict(nmodl.includes))
    return build(text, nmodl.path, includes, nmodl.use_tables, nmodl.secondorder)


@lru_cache(maxsize=256)
def functions_of(
    text: str, nmodl: Nmodl, real: str, outputs: tuple[str, ...], blocks: tuple[str, ...] | None
) -> str:
    """Return the functions of a mechanism as source, or of some of its blocks."""
    try:
        return Functions(model_of(text, nmodl), real, outputs).text(blocks)
    except ExpressionError as error:
        raise InputError(f"{nmodl.path or 'NMODL text'}: its functions take {error}") from error


@lru_cache(maxsize=256)
def takes_vectors(text: str, nmodl: Nmodl, block: str, outputs: tuple[str, ...]) -> bool:
    """Whether there can be a function of a block, with outputs, for several instances at once."""
    return Functions(model_of(text, nmodl), "double", outputs).takes_vectors(block)


@lru_cache(maxsize=256)
def vectors_of(
    text: str,
    nmodl: Nmodl,
    blocks: tuple[str, ...],
    real: str,
    outputs: tuple[str, ...],
    width: int,
    single: tuple[str, ...],
) -> str:
    """Return the functions of blocks that `takes_vectors` for `width` instances at once.

    Their names begin with ``NAME__vWIDTH``; voltages, states, ions, results and parameters that are
    not in `single` are ``realWIDTH``.
    """
    functions = Functions(model_of(text, nmodl), real, outputs, width, single)
    return functions.text(blocks) if blocks else ""


def calls_of(text: str, nmodl: Nmodl, block: str, outputs: tuple[str, ...]) -> tuple[Argument, ...]:
    """Return the arguments of a block's function."""
    model = model_of(text, nmodl)
    if block not in model.program.blocks:
        known = ", ".join(model.program.blocks)
        raise InputError(f"mechanism {model.program.name} has no block '{block}'; it has {known}")
    return Functions(model, "numpy", outputs).calls(block)


@lru_cache(maxsize=2048)
def twin_of(text: str, nmodl: Nmodl, outputs: tuple[str, ...], block: str) -> Callable[..., Any]:
    """Return the NumPy function of a block. What is run is printed of numbers and checked names."""
    source = functions_of(text, nmodl, "numpy", outputs, (block,))
    name = model_of(text, nmodl).program.name
    space: dict[str, Any] = {"np": np, "random123": random123}
    exec(compile(source, f"<mechanism {name}>", "exec"), space)
    found: Callable[..., Any] = space[f"{name}_{block}"]
    return found


def described(text: str, nmodl: Nmodl) -> str:
    """Return the mechanism in lines: its variables, and what its blocks do."""
    model = model_of(text, nmodl)
    program = model.program
    lines = [
        f"{program.name}: {program.kind} mechanism" + (f" ({nmodl.path})" if nmodl.path else "")
    ]
    for q in program.parameters:
        shown = f"  parameter {q.public or q.name} = {q.default:g} {q.unit}".rstrip()
        lines.append(shown + (", one for all" if q.is_global else ""))
    for q in program.states:
        lines.append(f"  state {q.public or q.name} {q.unit}".rstrip())
    for ion in program.ions:
        does = [f"reads {', '.join(ion.reads)}"] if ion.reads else []
        does += [f"writes {', '.join(ion.writes)}"] if ion.writes else []
        lines.append(f"  ion {ion.name}: {'; '.join(does)}")
    for pointer in program.pointers:
        lines.append(f"  pointer {pointer}")
    for table in program.tables:
        lines.append(f"  table of {table.name}: {', '.join(table.columns)} at {table.n + 1} places")
    net = program.net
    if net is not None:
        lines.append(f"  an event has {', '.join(net.weights) or 'no weight'}")
    for name in program.blocks:
        if not name.startswith("grid_"):
            lines += _equations(model, name)
    return "\n".join(lines)


def _equations(model: Model, name: str) -> list[str]:
    functions = Functions(model, "double")
    source = functions.function(name).split("\n")
    first = next(k for k, line in enumerate(source) if line == "{")
    inner = [line for line in source[first + 1 : -2] if " = *" not in line]
    shown = [line.replace("const real ", "").replace("real ", "").rstrip(";") for line in inner]
    names = {f"*{name_of(a)}_": _result(a) for a in functions.calls(name) if a.direction != "in"}
    for target, plain in names.items():
        shown = [line.replace(f"{target} =", f"{plain} =") for line in shown]
    return [f"  {name}:", *(f"  {line}" for line in shown)]


def _result(a: Argument) -> str:
    if a.role in ("send", "arm", "watch", "column", "grid"):
        return f"{a.role} {a.name}"
    return {"ion_current": f"d{a.name}/dv", "g": "di/dv"}.get(a.role, a.name)


__all__ = [
    "Nmodl",
    "Sequence",
    "calls_of",
    "described",
    "functions_of",
    "model_of",
    "read",
    "twin_of",
    "vectors_of",
]
