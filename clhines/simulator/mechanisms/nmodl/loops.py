"""WHILE and FROM: unrolled if iterations are constant, else a `Loop` in the generated function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.nmodl.evaluate import Evaluation
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    Expression,
    Statement,
    refuse,
    set_by,
    uses,
)
from clhines.simulator.mechanisms.nmodl.reading.verbatim import is_break

MAX_EXECUTED = 60_000  # statements in one block, calls and loop iterations counted
MAX_TURNS = 10_000  # in one loop that is unrolled


def breaks(statements: Sequence[Statement]) -> bool:
    """Return whether statements may leave the loop around them by ``break``."""
    return any(_is_break(s) or (s.kind == "if" and any(map(breaks, s.blocks))) for s in statements)


def nested(name: str, turns: Iterable[int], body: Sequence[Statement]) -> list[Statement]:
    """Unroll a FROM loop with ``break``; `turns` are the values of its variable `name`.

    Statements after an IF that may leave the loop, and later iterations, move into those branches
    of the IF that stay in the loop.
    """
    statements: list[Statement] = []
    for k in reversed(list(turns)):
        count = Statement("assign", body[0].line, (name, None), (("number", Fraction(k)),))
        statements = [count, *_then(body, statements)]
    return statements


def _then(statements: Sequence[Statement], rest: list[Statement]) -> list[Statement]:
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


def check_executed(more: int, line: int) -> None:
    if more > MAX_EXECUTED:
        raise refuse("mod.too-many-statements", line, max_executed=MAX_EXECUTED)


def execute_from(run: Evaluation, s: Statement) -> None:
    before, run.turning = run.turning, (*run.turning, str(s.names[0]))
    _turns(run, s)
    run.turning = before


def _turns(run: Evaluation, s: Statement) -> None:
    first, last, by = (run.integer(e).definition for e in s.values)
    if not by.is_number or (by.value <= 0 and not (first.is_number and last.is_number)):
        raise refuse("mod.from-step-not-constant", s.line)
    if not by.value:
        raise refuse("mod.from-by-zero", s.line)
    if any(uses([replace(s, blocks=[])], name) for name in set_by(s.blocks[0], run.file.blocks)):
        raise refuse("mod.from-bounds", s.line)
    if not (first.is_number and last.is_number):
        _open_from(run, s, first, last)
        return
    start, end, step = (int(e.value) for e in (first, last, by))
    turns = range(start, end + (1 if step > 0 else -1), step)
    if len(turns) > MAX_TURNS:
        raise refuse("mod.from-turns", s.line, count=len(turns), most=MAX_TURNS)
    name, outer = str(s.names[0]), run.repeats
    if not any(uses([replace(s, blocks=[])], name) for name in run.turning[:-1]):
        run.repeats *= max(len(turns), 1)
        check_executed(run.repeats * (len(s.blocks[0]) or 1), s.line)
    with run.scope():
        key = run.new_local(name)
        if breaks(s.blocks[0]):
            run.body(nested(name, turns, s.blocks[0]))
        else:
            for k in turns:
                run.values[key] = run.graph.number(k)
                run.body(s.blocks[0])
    run.repeats = outer


def _open_from(run: Evaluation, s: Statement, first: Node, last: Node) -> None:
    name = str(s.names[0])
    index: Expression = ("name", name, None)
    more = Statement("assign", s.line, (name, None), (("+", index, s.values[2]),))
    test = ("<=", index, ("name", f"{name}_last", None))
    with run.scope():
        for local, bound in ((name, first), (f"{name}_last", last)):  # whole, as C's int
            run.values[run.new_local(local)] = bound
        execute_while(run, Statement("while", s.line, (), (test,), [[*s.blocks[0], more]]))


def execute_while(run: Evaluation, s: Statement) -> None:
    for _ in range(MAX_TURNS):
        condition = run.truth(run.expression(s.values[0]))
        if not condition.is_number:
            _open_while(run, s, condition)
            return
        if not condition.value:
            return
        run.body(s.blocks[0])
    raise refuse("mod.while-turns", s.line, max_turns=MAX_TURNS)


def _open_while(run: Evaluation, s: Statement, condition: Node) -> None:
    before = dict(run.values)
    sent = len(run.sent), len(run.armed), len(run.netcons)
    changed = _changed_in_turns(run, s, before)
    loop = run.open_loop(changed, [run.value(k) for k in changed], MAX_TURNS)
    loop.entered = condition
    run.draws_inside = True
    with run.trial():
        for key, name in zip(changed, loop.names, strict=True):
            run.values[key] = run.graph.symbol(name)
        run.body(s.blocks[0])
        loop.go_on = run.truth(run.expression(s.values[0]))  # may change variables, too
        loop.values = [run.values[k] for k in changed]
    run.draws_inside = False
    if sent != (len(run.sent), len(run.armed), len(run.netcons)):
        raise refuse("mod.event-in-while", s.line)
    for key, end in zip(changed, run.close_loop(loop), strict=True):
        run.set(key, end)


def _changed_in_turns(run: Evaluation, s: Statement, before: dict[str, Node]) -> list[str]:
    """Return the variables that an iteration of a WHILE, or its condition, may change.

    The next iteration does not know their values, and may use other branches. So execute iterations
    until no further variable changes.
    """
    changed = list[str]()
    while True:
        with run.trial():
            for n, key in enumerate(changed):
                run.values[key] = run.graph.symbol(f"_turn_{n}")
            start = dict(run.values)
            run.body(s.blocks[0])
            run.truth(run.expression(s.values[0]))
            new = [k for k, x in run.values.items() if start.get(k) is not x]
            new = [k for k in new if k in (before if "\0" in k else run.writes)]
            new = [k for k in new if k not in changed]
        if not new:
            return changed
        changed += new
