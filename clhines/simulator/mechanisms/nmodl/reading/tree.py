"""The tree of an NMODL file, as `parse` makes it: blocks, statements and expressions.

Expressions are tuples, whose first entry says what they are::

    ("number", Fraction)   ("name", name, index or None)   ("text", str)
    ("call", name, (arguments ...), line)
    ("+", a, b)  and - * / ^ < <= > >= == != && ||         ("neg", a)   ("not", a)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from clhines.core.errors import InputError
from clhines.simulator.refusals import Sentence, refusal, way_out_of

Expression: TypeAlias = tuple[Any, ...]  # the first entry is its sort
PICK = "nrn_random_pick"  # draws a number of a Random, in VERBATIM
GIVEN = "given"  # end of the name of a parameter: 1 where a POINTER has a stream, else 0; or none
PICKED = "low", "width", "mean"  # ends of names of parameters: distribution of a POINTER's Random


@dataclass(frozen=True)
class Rejection:
    """A construct that cannot be simulated, its line, and the way out, if there is one.

    Attributes
    ----------
    line : int
        0 where it has none.
    """

    construct: Sentence
    file: str
    line: int
    way_out: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.construct}" + (f"; {self.way_out}" if self.way_out else "")


class NmodlError(InputError):
    """A file that cannot be simulated."""

    def __init__(self, rejections: list[Rejection]) -> None:
        super().__init__("\n".join(str(r) for r in rejections))
        self.rejections = rejections


class Refused(Exception):  # noqa: N818  (it is no error of its own)
    """One construct that is refused, on its way to the list of all."""

    def __init__(self, construct: Sentence, line: int = 0, way_out: str = "") -> None:
        super().__init__(construct)
        self.construct, self.line = construct, line
        self.way_out = way_out or way_out_of(construct)


def refuse(id_: str, line: int = 0, way_out: str = "", /, **fields: object) -> Refused:
    """Return a construct that is refused, by its id in the catalogue of refusals."""
    return Refused(refusal(id_, **fields), line, way_out)


def not_neuron(what: str, line: int, way_out: str = "") -> Refused:
    """Return a construct that NEURON's translator refuses, too."""
    return refuse("mod.neuron-refuses", line, way_out, what=what)


def error_of(refusals: Sequence[Refused], file: str) -> NmodlError:
    """Return an error that lists refusals, each once."""
    unique = {(r.construct, r.line): r for r in refusals}.values()
    return NmodlError([Rejection(r.construct, file, r.line, r.way_out) for r in unique])


@dataclass
class Statement:
    """One statement; `names` are its subjects, of an assignment the name and its index.

    `kind` is ``assign``, ``prime``, ``call``, ``if``, ``while``, ``from``, ``local``, ``solve``,
    ``table``, ``reaction``, ``equation``, ``conserve``, ``compartment``, ``diffuse``, ``verbatim``,
    ``watch``, ``for_netcons``, ``initial``, ``conductance`` or ``other``.
    """

    kind: str
    line: int
    names: tuple[Any, ...] = ()  # depends on `kind`
    values: tuple[Expression, ...] = ()
    blocks: list[list[Statement]] = field(default_factory=list)


def all_of(body: Sequence[Statement], kind: str) -> list[Statement]:
    """Return the statements of a kind, also from inside of others."""
    statements = []
    for s in body:
        statements += [s] if s.kind == kind else []
        for inner in s.blocks:
            statements += all_of(inner, kind)
    return statements


def uses(body: Sequence[Statement], name: str) -> bool:
    """Whether statements have a variable of that name in their expressions, or set it."""
    pending: list[object] = [part for s in body for part in (s.names, s.values)]
    while pending:
        one = pending.pop()
        if one == name:
            return True
        pending += one if isinstance(one, (tuple, list)) else ()
    return any(uses(inner, name) for s in body for inner in s.blocks)


def set_by(
    body: Sequence[Statement], blocks: Mapping[str, Block], visited: frozenset[str] = frozenset()
) -> set[str]:
    """Return names of variables that statements set, by `blocks` that they call, too."""
    names = {str(s.names[0]) for s in all_of(body, "assign")}
    for name, block in blocks.items():
        if name not in visited and uses(body, name):
            local = {one[0] for s in block.body if s.kind == "local" for one in s.names}
            names |= set_by(block.body, blocks, visited | {name}).difference(local, block.arguments)
    return names


@dataclass
class Block:
    """A block with statements: its sort, name, arguments and body."""

    sort: str
    name: str
    line: int
    arguments: tuple[str, ...]
    body: list[Statement]


@dataclass
class Declaration:
    """A declared variable, with its value as declared."""

    name: str
    sort: str  # ``parameter``, ``assigned``, ``state``, ``constant``, ``local`` or ``pointer``
    line: int
    length: int = 0  # 0 if it is no array
    value: Fraction | None = None
    unit: str = ""


@dataclass(frozen=True)
class FunctionTable:
    """Values of a FUNCTION_TABLE from hoc: knots of each argument, and values, the last fastest.

    Between knots it is linear, beyond them constant.
    """

    axes: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]


@dataclass
class UseIon:
    """USEION."""

    name: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    valence: float | None = None


@dataclass
class File:
    """An NMODL file."""

    path: str
    suffix: str = ""
    kind: str = "density"
    line: int = 0
    variables: dict[str, Declaration] = field(default_factory=dict)
    range: dict[str, int] = field(default_factory=dict)  # name -> line, and so below
    globals: dict[str, int] = field(default_factory=dict)
    nonspecific: dict[str, int] = field(default_factory=dict)
    electrode: dict[str, int] = field(default_factory=dict)
    pointers: dict[str, int] = field(default_factory=dict)
    core_pointers: dict[str, int] = field(default_factory=dict)
    external: dict[str, int] = field(default_factory=dict)
    random: dict[str, int] = field(default_factory=dict)
    picked: list[str] = field(default_factory=list)  # of `random`: POINTERs that C draws from
    thread_safe: bool = False  # whether it says so
    has_c: bool = False  # whether it has VERBATIM
    ions: list[UseIon] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)  # by name
    main: dict[str, Block] = field(default_factory=dict)  # INITIAL, BREAKPOINT, NET_RECEIVE ...
    verbatim: list[tuple[int, str]] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
