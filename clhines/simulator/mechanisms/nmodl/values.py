"""Variable values during a block's execution; data that all blocks in a mechanism share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from clhines.simulator.mechanisms.ir.compiled import Loop
from clhines.simulator.mechanisms.ir.expressions import Graph, Node
from clhines.simulator.mechanisms.nmodl.reading.names import BUILT_IN, Names
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    Block,
    Expression,
    File,
    FunctionTable,
    Refused,
    Statement,
    refuse,
)

# functions, by statement kind, that execute statements in DERIVATIVE, LINEAR and KINETIC
Rules = dict[str, Callable[[Statement], None]]

MADE = "TABLE {}"  # key in `function_tables` for a TABLE's rows that NEURON has made
_OF_EVENTS = "receive", "net_initial", "for_netcons"
# blocks that may set the variable to which a POINTER points, and blocks that may add to it
POINTED_PUT = "initial", "before_initial", "before_breakpoint"
POINTED_ADD = "after_initial", "after_solve"
ASSIGNING = "advance"  # the block that may set such a variable while other mechanisms advance
STEERING = "receive"  # the block that may set another connection's weight by a POINTER


def weight(name: str) -> str:
    """Return the symbol for NET_RECEIVE's argument `name`, a weight of the event's connection."""
    return f"_{name}__weight"


def stream_keys(name: str) -> tuple[str, str]:
    """Return the keys of a RANDOM variable's two values in a block: ``keep`` and ``at``.

    ``at`` counts the words drawn since the block began. After ``random_setseq`` ``keep`` is 0, and
    ``at`` is the number of the stream's next word.
    """
    return f"{name}\0keep", f"{name}\0at"


@dataclass
class Sent:
    """An event that net_send, net_move or net_event sends if the condition `guard` is true."""

    kind: str
    guard: Node
    time: Node
    flag: Node | None


@dataclass
class TableUse:
    """A table that blocks look up, from a TABLE statement or a FUNCTION_TABLE."""

    block: Block
    columns: list[str]  # names in source; a FUNCTION's own name
    low: Node
    high: Node
    n: int
    rows: tuple[float, ...] = ()  # values in a FUNCTION_TABLE's n + 1 rows
    made: tuple[float, ...] = ()  # all rows as NEURON has made them, if they are known
    initial_values: dict[str, Node] | None = None  # variables when INITIAL used the table first
    depends: frozenset[str] = frozenset()  # names after DEPEND


@dataclass
class MechanismContext:
    """Data that all blocks in a mechanism share."""

    file: File
    names: Names
    graph: Graph
    use_tables: bool
    secondorder: bool = False
    function_tables: Mapping[str, FunctionTable] = field(default_factory=dict)
    tables: dict[str, TableUse] = field(default_factory=dict)
    # refusals that hold if a condition is true: block, condition, refusal
    unless: list[tuple[str, Node, Refused]] = field(default_factory=list)
    sets_v: bool = False  # whether NET_RECEIVE itself sets v: NEURON then sets the node's voltage
    is_stale: bool = False  # whether functions called by NET_RECEIVE see an old v in NEURON
    loops: int = 0  # loop count so far
    costs: dict[str, int] = field(default_factory=dict)  # statements that a call executes, by block
    verbatim: list[Refused] = field(default_factory=list)  # C that is not supported
    draws: bool = False  # whether the model's one instance owns NEURON's one generator


class BlockValues:
    """The variables in one execution of a block.

    `where` is the block's name in a `Program`. `values` maps a variable's key (a LOCAL's key, or
    another variable's name in source) to its value, if it was read or set so far. `reads` and
    `writes` are the keys of the instance's variables that were read before they were set, and that
    were set.
    """

    def __init__(self, shared: MechanismContext, where: str) -> None:
        self.shared, self.where, self.graph = shared, where, shared.graph
        self.names, self.file = shared.names, shared.file
        self.values: dict[str, Node] = {}
        for name in self.file.random:
            keep, at = stream_keys(name)
            self.values[keep], self.values[at] = self.graph.one, self.graph.zero
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.loops: list[Loop] = []
        self.sent: list[Sent] = []
        self.line = 0  # line of the statement that is executed
        self.turning: tuple[str, ...] = ()  # variables of FROM loops around the statement
        self.repeats = 1  # product of unrolled FROM loops' iteration counts around the statement
        # for each WATCH: condition around it, its own condition, flag, line
        self.armed: list[tuple[Node, Expression, Fraction, int]] = []
        # for each FOR_NETCONS: its arguments, statement, execution, and the condition around it
        self.netcons: list[tuple[tuple[str, ...], Statement, Any, Node]] = []
        self.scopes: list[dict[str, str | list[str]]] = [{}]  # locals' keys by name, inner last
        self.guard: Node = self.graph.one  # condition around the statement that is executed
        self.overrides: dict[str, Node] = {}  # values of v, t, dt and flag, if they are not symbols
        self.rules: Rules = {}
        self.solve: Callable[[Any, Statement], None] | None = None
        self.arguments: dict[str, str] = {}  # NET_RECEIVE's arguments' keys
        self.drew: dict[str, None] = {}  # RANDOM variables from which the block has drawn
        self.conductances: list[tuple[str, Node]] = []  # for each CONDUCTANCE: ion or "", value
        self._calls: list[str] = []
        self._serial = self._executed = 0
        self.inside_loop = self.draws_inside = False  # whether in a `Loop`; in one that may draw
        # whether state_discontinuity has set a state; None if NEURON ignores it here
        self.jumps: bool | None = False
        self.is_repeated = False  # whether a SOLVE method may execute the block several times

    def _find(self, name: str) -> str | list[str] | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
            if "" in scope:  # the body of a procedure, which does not see its caller's locals
                return None
        return None

    def key(self, name: str, index: int | None, line: int) -> str:
        """Return the key of a variable or of an array's element; Refused if there is none."""
        local = self._find(name)
        if local is not None:
            if isinstance(local, str):
                return local
            if index is None or not 0 <= index < len(local):
                raise refuse("mod.index-outside", line, name=name, index=index, length=len(local))
            return local[index]
        variable = self.names.variable(name)
        if variable is None:
            raise refuse("mod.not-declared", line, name=name)
        return self.names.element(name, index, line)

    def read(self, name: str, index: int | None = None, line: int = 0) -> Node:
        if self._find(name) is None:
            if name in self.overrides:
                return self.overrides[name]
            if name in ("v", "t", "dt"):
                return self._special(name, line)
            if name in self.file.core_pointers or name in self.file.random:
                what = "BBCOREPOINTER" if name in self.file.core_pointers else "RANDOM"
                raise refuse("mod.name-as-number", line, what=what, name=name)
            variable = self.names.variable(name)
            if variable is None and name == "usetable":
                return self.graph.number(int(self.shared.use_tables))
            if variable is not None and variable.sort == "constant":
                return self.graph.number(variable.value or Fraction(0))
        return self.value(self.key(name, index, line))

    def _special(self, name: str, line: int) -> Node:
        """Return v, t or dt.

        Refused for v in an artificial cell, and in blocks where an event would see an old v.
        """
        if name == "v" and self.file.kind == "artificial":
            raise refuse("mod.v-artificial-cell", line)
        if name == "v" and self._calls and self.where in _OF_EVENTS and self.shared.is_stale:
            raise refuse("mod.v-of-event", line, call=self._calls[-1])
        return self.value(name)

    def value(self, key: str) -> Node:
        """Return a variable's value by its key: a symbol, if it has not been set."""
        value = self.values.get(key)
        if value is None:
            if "\0" in key:  # a local that was never set
                return self.graph.zero
            self.reads[key] = None
            value = self.values[key] = self.graph.symbol(key)
        return value

    def write(self, name: str, index: int | None, value: Node, line: int) -> None:
        """Set a variable to `value`; Refused if it is read-only in NMODL or in this block."""
        if self._find(name) is None:
            if name == "v":
                self._check_v(line)
            if name in ("t", "dt", *BUILT_IN):
                raise refuse("mod.variable-set", line, name=name)
            if name == "v":  # this block's alone
                self.overrides["v"] = self.graph.local("v", value)
                return
            variable = self.names.variable(name)
            if variable is not None and variable.sort == "constant":
                raise refuse("mod.constant-set", line, name=name)
            writes = *POINTED_PUT, *POINTED_ADD, ASSIGNING, STEERING
            if name in self.file.pointers and self.where not in writes:
                raise refuse("mod.pointer-written", line, name=name, block=self.block)
        self.set(self.key(name, index, line), value, name)

    @property
    def block(self) -> str:
        names = {"receive": "NET_RECEIVE", "current": "BREAKPOINT", "advance": "BREAKPOINT"}
        return names.get(self.where, self.where.upper().replace("_", " "))

    def _check_v(self, line: int) -> None:
        if self.inside_loop:
            raise refuse("mod.v-set-in-loop", line)
        if self.where in ("net_initial", "for_netcons"):
            inner = {"net_initial": "INITIAL", "for_netcons": "FOR_NETCONS"}[self.where]
            raise refuse("mod.v-set-net-receive", line, inner=inner)
        if self.where == "receive" and not self.shared.sets_v:
            raise refuse("mod.v-set-in-call", line, call=self._calls[-1])

    def late(self, work: Callable[[], Iterable[Node]]) -> dict[str, tuple[Node, Node]]:
        """Return the variables that `work` sets and on whose old values its results depend.

        By key, return the symbol of the value before `work`, and the value after.
        """
        graph = self.graph
        with self.trial():
            self.writes.clear()
            keys = [k for k in self.values if k in self.names.elements]  # the instance's variables
            before = {k: graph.symbol(f"_{k}__late") for k in keys}
            self.values |= before
            nodes = [*work()]
            symbols = {k: before.get(k, graph.symbol(k)) for k in self.writes}
            late = {k: s for k, s in symbols.items() if any(node.uses(s.name) for node in nodes)}
            return {k: (s, self.values[k]) for k, s in late.items()}

    def set(self, key: str, value: Node, name: str = "") -> None:
        """Set a variable by its key; `name` (default: key) is the value's name in the source."""
        if "\0" not in key:
            self.writes[key] = None
            name = key
        self.values[key] = self.graph.local(name or key.split("\0")[0], value)

    @contextmanager
    def scope(self, rules: Rules | None = None) -> Iterator[None]:
        """Open a scope for LOCAL variables.

        With `rules`, functions by statement kind, it is the scope of a called block, which does not
        see the caller's locals and executes its statements by these functions.
        """
        kept = self.rules
        self.scopes.append({} if rules is None else {"": ""})
        self.rules = kept if rules is None else rules
        yield
        self.rules = kept
        self.scopes.pop()

    def new_local(self, name: str, length: int = 0) -> str:
        self._serial += 1
        keys = [f"{name}\0{self._serial}.{k}" for k in range(length or 1)]
        self.scopes[-1][name] = keys if length else keys[0]
        return keys[0]

    def open_loop(self, keys: Sequence[str], starts: list[Node], most: int) -> Loop:
        """Begin a loop that changes the variables `keys`; Refused inside another loop.

        `starts` are their values before it, `most` is the largest number of iterations.
        """
        if self.inside_loop:
            raise refuse("mod.loop-in-loop")
        number = self.shared.loops
        self.shared.loops += 1
        plain = [k.split("\0")[0] for k in keys]
        plain = [f"{p}_{j}" for j, p in enumerate(plain)] if len(set(plain)) < len(plain) else plain
        names = [f"_{p}__now{number}" for p in plain]
        ends = [f"_{p}__end{number}" for p in plain]
        self.inside_loop = True
        return Loop(names, ends, starts, most=most)

    def close_loop(self, loop: Loop) -> list[Node]:
        self.inside_loop = False
        self.loops.append(loop)
        return [self.graph.symbol(end) for end in loop.ends]

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Execute a ``with`` block's statements, and then undo their effects.

        Only their entries in `reads`, the variables that they have read, remain.
        """
        kept = self.values, self.writes, self.guard, dict(self.overrides)
        self.values, self.writes = dict(self.values), dict(self.writes)
        yield
        before = kept[0]
        for key in self.reads:
            if key in self.values and key not in before:
                before[key] = self.graph.symbol(key)
        self.values, self.writes, self.guard, self.overrides = kept
