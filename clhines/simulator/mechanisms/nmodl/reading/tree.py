"""The syntax tree of an NMODL file: blocks, statements, expressions; refusals of constructs.

An expression is a tuple that begins with its kind::

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
PICK = "nrn_random_pick"  # VERBATIM's function that draws a number from hoc's Random
# name endings of parameters that describe the random stream to which a POINTER points
GIVEN = "given"  # 1 if the POINTER points to a stream, else 0; 1 without this parameter
PICKED = "low", "width", "mean"  # hoc's Random's distribution


@dataclass(frozen=True)
class Rejection:
    """A construct that is not supported, and an alternative, if there is one.

    Attributes
    ----------
    line : int
        Line of the file; 0 if the construct has none.
    """

    construct: Sentence
    file: str
    line: int
    way_out: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.construct}" + (f"; {self.way_out}" if self.way_out else "")


class NmodlError(InputError):
    """A .mod file with constructs that are not supported, which `rejections` lists."""

    def __init__(self, rejections: list[Rejection]) -> None:
        super().__init__("\n".join(str(r) for r in rejections))
        self.rejections = rejections


class Refused(Exception):  # noqa: N818  (users get an NmodlError)
    """Raised for a construct that is not supported; `others` has further ones in the same file."""

    def __init__(self, construct: Sentence, line: int = 0, way_out: str = "") -> None:
        super().__init__(construct)
        self.construct, self.line = construct, line
        self.way_out = way_out or way_out_of(construct)
        self.others: list[Refused] = []  # the same file's further refusals


def raise_first(refused: Sequence[Refused]) -> None:
    if refused:
        refused[0].others += refused[1:]
        raise refused[0]


def refuse(id_: str, line: int = 0, way_out: str = "", /, **fields: object) -> Refused:
    """Return a construct's refusal; `way_out` is the alternative for users.

    `id_` is a key of `simulator.refusals`, `fields` are the values in its message.
    """
    return Refused(refusal(id_, **fields), line, way_out)


def not_neuron(what: str, line: int, way_out: str = "") -> Refused:
    return refuse("mod.neuron-refuses", line, way_out, what=what)


def error_of(refusals: Sequence[Refused], file: str) -> NmodlError:
    unique = {(r.construct, r.line): r for r in refusals}.values()
    return NmodlError([Rejection(r.construct, file, r.line, r.way_out) for r in unique])


@dataclass
class Statement:
    """One NMODL statement.

    `kind` is ``assign``, ``prime``, ``call``, ``if``, ``while``, ``from``, ``local``, ``solve``,
    ``table``, ``reaction``, ``equation``, ``conserve``, ``compartment``, ``diffuse``, ``verbatim``,
    ``watch``, ``for_netcons``, ``initial`` or ``conductance``. `names` depends on the kind: an
    assignment has the variable and its index there.
    """

    kind: str
    line: int
    names: tuple[Any, ...] = ()
    values: tuple[Expression, ...] = ()
    blocks: list[list[Statement]] = field(default_factory=list)


def all_of(body: Sequence[Statement], kind: str) -> list[Statement]:
    """Return the statements of one kind, also those inside other statements."""
    statements = []
    for s in body:
        statements += [s] if s.kind == kind else []
        for inner in s.blocks:
            statements += all_of(inner, kind)
    return statements


def uses(body: Sequence[Statement], name: str) -> bool:
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
    """Return the variables that statements set, also by calling `blocks` of the file."""
    names = {str(s.names[0]) for s in all_of(body, "assign")}
    for name, block in blocks.items():
        if name not in visited and uses(body, name):
            local = {one[0] for s in block.body if s.kind == "local" for one in s.names}
            names |= set_by(block.body, blocks, visited | {name}).difference(local, block.arguments)
    return names


@dataclass
class Block:
    """A block in a file: its keyword, as ``PROCEDURE``, name, arguments and statements."""

    sort: str
    name: str
    line: int
    arguments: tuple[str, ...]
    body: list[Statement]


@dataclass
class Declaration:
    name: str
    sort: str  # ``parameter``, ``assigned``, ``state``, ``constant``, ``local`` or ``pointer``
    line: int
    length: int = 0  # an array's length, else 0
    value: Fraction | None = None
    unit: str = ""


@dataclass(frozen=True)
class FunctionTable:
    """A FUNCTION_TABLE's values, linear between knots and constant beyond them."""

    axes: tuple[tuple[float, ...], ...]  # each argument's knots
    values: tuple[float, ...]  # for all knot combinations, the last argument fastest


@dataclass
class UseIon:
    name: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    valence: float | None = None


@dataclass
class File:
    path: str
    suffix: str = ""
    kind: str = "density"
    line: int = 0
    variables: dict[str, Declaration] = field(default_factory=dict)
    range: dict[str, int] = field(default_factory=dict)  # RANGE's lines by name; as in others below
    globals: dict[str, int] = field(default_factory=dict)
    nonspecific: dict[str, int] = field(default_factory=dict)
    electrode: dict[str, int] = field(default_factory=dict)
    pointers: dict[str, int] = field(default_factory=dict)
    core_pointers: dict[str, int] = field(default_factory=dict)
    random: dict[str, int] = field(default_factory=dict)
    picked: list[str] = field(default_factory=list)  # POINTERs among `random`: C draws from them
    ions: list[UseIon] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)  # by name
    main: dict[str, Block] = field(default_factory=dict)  # INITIAL, BREAKPOINT, NET_RECEIVE ...
    verbatim: list[tuple[int, str]] = field(default_factory=list)

    @property
    def states(self) -> list[str]:
        return [v.name for v in self.variables.values() if v.sort == "state"]

    @property
    def ion_variables(self) -> set[str]:
        return {name for ion in self.ions for name in (*ion.reads, *ion.writes)}
