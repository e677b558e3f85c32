"""What a text says: assignments in the order written, and the values of names at a place of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from clhines.mechanisms.ir.expressions import Graph, Node
from clhines.mechanisms.ir.program import HIDDEN, Quantity
from clhines.mechanisms.ir.singular import remove_singularities


@dataclass(frozen=True)
class Statement:
    """One assignment: ``name = value``, ``dname/dt = value`` or ``current name = value``."""

    sort: str  # ``name``, ``rate`` or ``current``
    name: str
    value: Node  # in terms of symbols: names of other statements, too


@dataclass(frozen=True)
class Action:
    """What an event does to a state: ``state = value``, or ``+=``, ``-=``, ``*=``, ``/=``."""

    state: str
    sign: str
    value: Node


@dataclass(frozen=True, eq=False)
class Equations:
    """A mechanism as a list of assignments to names, in the order of the text.

    A name stands in the expressions of others as a symbol, so that the length of all expressions is
    that of the text. `Scope` puts values in place of the symbols.
    """

    graph: Graph
    name: str
    kind: str
    parameters: tuple[Quantity, ...]
    states: tuple[Quantity, ...]
    statements: tuple[Statement, ...]
    initial: dict[str, Node]  # by state
    actions: tuple[Action, ...] = ()
    method: str = ""
    stepped: tuple[str, ...] = ()  # states that `method` takes together, by their rates
    uses_currents: bool = False  # a rate depends on a current
    substeps: int = 1
    plain: dict[Node, Node] = field(default_factory=dict)  # of `remove_singularities`

    @property
    def rates(self) -> dict[str, Node]:
        """Rates by state, in the order of the text, as written."""
        return {s.name: s.value for s in self.statements if s.sort == "rate"}

    @property
    def currents(self) -> tuple[str, ...]:
        """Names of the currents."""
        return tuple(s.name for s in self.statements if s.sort == "current")

    @property
    def state_names(self) -> tuple[str, ...]:
        """All states that instances have, the hidden one last."""
        return tuple(q.name for q in self.states) + ((HIDDEN,) if self.uses_currents else ())

    def current(self, scope: Scope) -> Node:
        """Return the sum of all currents."""
        return self.graph.add([scope.value(name) for name in self.currents])


class Scope:
    """Values of names: those given in place of symbols, and expressions of them."""

    def __init__(self, equations: Equations, given: Mapping[str, Node] | None = None) -> None:
        self.eq, self.graph = equations, equations.graph
        self.values: dict[str, Node] = dict(given or {})
        self._written = {s.name: s.value for s in equations.statements if s.sort != "rate"}

    def value(self, name: str, keep: bool = True) -> Node:
        """Return the value of a name."""
        return self.expression(self.graph.symbol(name), keep)

    def expression(self, e: Node, keep: bool = True) -> Node:
        """Return an expression with the values of names in it.

        With `keep`, names that had no value yet keep the one that they get.
        """
        values = self.values if keep else dict(self.values)
        for name in self._missing(e, values):
            values[name] = self.named(name, self._replaced(self._written[name], values))
        return self._replaced(e, values)

    def assign(self, name: str) -> None:
        """Give a name the value that it has here."""
        self.values.pop(name, None)
        value = self.expression(self._written[name], keep=False)
        self.values[name] = self.named(name, value)

    def named(self, name: str, value: Node) -> Node:
        """Return a value under a name."""
        result = self.graph.local(name, value)
        self.eq.plain[result] = result
        return result

    def _replaced(self, e: Node, values: Mapping[str, Node]) -> Node:
        symbol = self.graph.symbol
        found = {symbol(name): values[name] for name in e.free if name in values}
        value = self.graph.replaced([e], found)[0] if found else e
        [result] = remove_singularities([value], self.eq.plain)
        self.eq.plain[result] = result
        return result

    def _missing(self, e: Node, values: Mapping[str, Node]) -> Iterable[str]:
        """Names that an expression needs and that have no value, each after what it needs."""
        order: dict[str, None] = {}
        stack = [(name, False) for name in sorted(e.free, reverse=True)]
        while stack:
            name, done = stack.pop()
            if name in order or name in values or name not in self._written:
                continue
            if done:
                order[name] = None
                continue
            stack.append((name, True))
            stack.extend((n, False) for n in sorted(self._written[name].free, reverse=True))
        return order


def cycle_of_names(written: Mapping[str, Node]) -> list[str]:
    """Return names that are defined by each other in a circle, the first one twice, or nothing."""
    finished: set[str] = set()
    for start in written:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        on_path: set[str] = set()
        while stack:
            name, done = stack.pop()
            if done:
                path.pop()
                on_path.discard(name)
                finished.add(name)
            elif name in on_path:
                return [*path[path.index(name) :], name]
            elif name not in finished and name in written:
                path.append(name)
                on_path.add(name)
                stack.append((name, True))
                stack.extend((n, False) for n in sorted(written[name].free) if n in written)
    return []


def coupled_groups(uses: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of names that depend on each other, those of one name left out.

    Tarjan's algorithm without recursion: `low` of a name is the earliest name on the stack that
    is reached from it, and where that is itself a group is complete.
    """
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    is_open: set[str] = set()
    groups: list[list[str]] = []
    for start in uses:
        work = [(start, iter(uses[start]))] if start not in number else []
        while work:
            name, rest = work[-1]
            if name not in number:
                number[name] = low[name] = len(number)
                open_.append(name)
                is_open.add(name)
            for other in rest:
                if other not in uses:
                    continue
                if other not in number:
                    work.append((other, iter(uses[other])))
                    break
                if other in is_open:
                    low[name] = min(low[name], number[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[name])
                if low[name] == number[name]:
                    at = open_.index(name)
                    group = open_[at:]
                    del open_[at:]
                    is_open.difference_update(group)
                    if len(group) > 1:
                        groups.append(group)
    return groups
