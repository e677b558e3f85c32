"""Loops that ``break`` leaves, as nested IF statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from clhines.mechanisms.nmodl.meaning.verbatim import is_break
from clhines.mechanisms.nmodl.reading.tree import Statement


def breaks(statements: Sequence[Statement]) -> bool:
    """Whether one of the statements may leave the loop that they are in."""
    return any(_is_break(s) or (s.kind == "if" and any(map(breaks, s.blocks))) for s in statements)


def nested(name: str, turns: Iterable[int], body: Sequence[Statement]) -> list[Statement]:
    """Return the statements of all turns of a loop.

    What comes after an IF that may leave the loop, the other turns too, moves into the branches
    that do not leave it.

    Parameters
    ----------
    name : str
        Variable of the loop.
    turns : iterable of int
        Its values.
    """
    found: list[Statement] = []
    for k in reversed(list(turns)):
        count = Statement("assign", body[0].line, (name, None), (("number", Fraction(k)),))
        found = [count, *_then(body, found)]
    return found


def _then(statements: Sequence[Statement], rest: list[Statement]) -> list[Statement]:
    """Return statements, and then the rest where no ``break`` has come."""
    for k, s in enumerate(statements):
        if _is_break(s):
            return list(statements[:k])
        if s.kind == "if" and breaks([s]):
            after = _then(statements[k + 1 :], rest)
            branches = [s.blocks[0], s.blocks[1] if len(s.blocks) > 1 else []]
            blocks = [_then(branch, after) for branch in branches]
            return [*statements[:k], Statement("if", s.line, s.names, s.values, blocks)]
    return [*statements, *rest]


def _is_break(s: Statement) -> bool:
    return s.kind == "verbatim" and is_break(str(s.names[0]))
