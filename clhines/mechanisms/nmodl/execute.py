"""Symbolic execution of NMODL statements: what a block leaves in each variable.

A block is executed once. Variables it reads before it writes them are symbols; what it leaves in
them are expressions on the mechanism's `Graph`. Both sides of an IF are executed and joined by
``where``; loops are unrolled; PROCEDURE and FUNCTION are executed where they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

from clhines.mechanisms.expressions import ExpressionError, Graph, Node
from clhines.mechanisms.nmodl.functions import NAMES as FUNCTIONS
from clhines.mechanisms.nmodl.functions import built_in
from clhines.mechanisms.nmodl.names import BUILT_IN, Names
from clhines.mechanisms.nmodl.tree import Block, Expression, File, Refused, Statement
from clhines.mechanisms.nmodl.verbatim import is_empty

MAX_EXECUTED = 60_000  # statements of one block, calls and turns of loops counted
MAX_TURNS = 10_000  # of one loop that is unrolled
MAX_CALLS = 60  # within each other
NEVER = "_never"  # symbol of the time of an event that is not sent


def weight(name: str) -> str:
    """Return the symbol of an argument of NET_RECEIVE."""
    return f"_{name}__weight"


@dataclass
class Loop:
    """An iteration inside a block: ``names = values`` again while `go_on`.

    Attributes
    ----------
    names, ends : list of str
        Symbols of a variable inside, and after it.
    starts, values : list of Node
        Before the first turn, and after a turn.
    go_on : Node
        Whether there is another turn, at `values`.
    most : int
        Turns after which it has failed: results are NaN.
    entered : Node or None
        Whether there is a first turn; there is where it is None.
    """

    names: list[str]
    ends: list[str]
    starts: list[Node]
    values: list[Node] = field(default_factory=list)
    go_on: Node | None = None
    most: int = 0
    entered: Node | None = None


@dataclass
class Sent:
    """One net_send, net_move or net_event: kind, when it is done, its time and flag."""

    kind: str
    guard: Node
    time: Node
    flag: Node | None


@dataclass
class TableUse:
    """A table: its block, columns and grid."""

    block: Block
    columns: list[str]  # names in functions; of a FUNCTION its own
    low: Node
    high: Node
    n: int


@dataclass
class Shared:
    """What all blocks of a mechanism have in common."""

    file: File
    names: Names
    graph: Graph
    use_tables: bool
    tables: dict[str, TableUse] = field(default_factory=dict)
    loops: int = 0


class Run:
    """One execution of one block.

    Parameters
    ----------
    shared : Shared
    where : str
        Block's name, for what is allowed in it.

    Attributes
    ----------
    values : dict of str to Node
        Value of each variable that was read or written, by its key: the name in functions, or that
        of a local.
    reads, writes : dict of str to None
        Keys of variables of instances.
    """

    def __init__(self, shared: Shared, where: str) -> None:
        self.shared, self.where, self.graph = shared, where, shared.graph
        self.names, self.file = shared.names, shared.file
        self.values: dict[str, Node] = {}
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.loops: list[Loop] = []
        self.sent: list[Sent] = []
        self.armed: list[tuple[Node, Expression, Fraction, int]] = []
        self.netcons: list[tuple[tuple[str, ...], Statement, Run, Node]] = []
        self.scopes: list[dict[str, str | list[str]]] = [{}]
        self.guard: Node = self.graph.one
        self.given: dict[str, Node] = {}  # in place of v, t, dt, flag
        self.primes: Callable[[Statement, str], None] | None = None
        self.kinetic: Callable[[Statement], None] | None = None
        self.equations: Callable[[Statement], None] | None = None
        self.solve: Callable[[Run, Statement], None] | None = None
        self.arguments: dict[str, str] = {}  # of NET_RECEIVE, with their keys
        self._calls: list[str] = []
        self._serial = self._executed = 0
        self.inside_loop = False

    # ------------------------------------------------------------------------------ variables

    def _find(self, name: str) -> str | list[str] | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
            if "" in scope:  # a procedure does not see locals of its caller
                return None
        return None

    def key(self, name: str, index: int | None, line: int) -> str:
        """Return the key of a variable."""
        local = self._find(name)
        if local is not None:
            if isinstance(local, str):
                return local
            if index is None or not 0 <= index < len(local):
                raise Refused(f"{name}[{index}] of {len(local)}", line)
            return local[index]
        variable = self.names.variable(name)
        if variable is None:
            if name in BUILT_IN:
                raise Refused(f"'{name}' is not declared", line, "declare it in ASSIGNED")
            raise Refused(f"'{name}' is not declared", line)
        return self.names.element(name, index, line)

    def read(self, name: str, index: int | None = None, line: int = 0) -> Node:
        """Return the value of a variable."""
        if self._find(name) is None:
            if name in self.given:
                return self.given[name]
            if name in ("v", "t", "dt"):
                return self._special(name, line)
            if name in self.file.core_pointers or name in self.file.random:
                what = "BBCOREPOINTER" if name in self.file.core_pointers else "RANDOM"
                raise Refused(f"{what} {name} as a number", line)
            if name in self.file.external:
                raise Refused(f"EXTERNAL {name}", line)
            variable = self.names.variable(name)
            if variable is not None and variable.sort == "constant":
                return self.graph.number(variable.value or Fraction(0))
        return self.value(self.key(name, index, line))

    def _special(self, name: str, line: int) -> Node:
        if name == "v" and self.file.kind == "artificial":
            raise Refused("v in an ARTIFICIAL_CELL", line)
        if name in self.values:
            return self.values[name]
        self.reads[name] = None
        self.values[name] = self.graph.symbol(name)
        return self.values[name]

    def value(self, key: str) -> Node:
        """Return the value of a key; of an unwritten variable its symbol."""
        value = self.values.get(key)
        if value is None:
            if "\0" in key:  # a local that was never set
                return self.graph.zero
            self.reads[key] = None
            value = self.values[key] = self.graph.symbol(key)
        return value

    def write(self, name: str, index: int | None, value: Node, line: int) -> None:
        """Give a variable a value."""
        if self._find(name) is None:
            if name == "v" and self.where == "receive":
                raise Refused("v is set in NET_RECEIVE", line)
            if name in ("t", "dt", *BUILT_IN):
                raise Refused(f"'{name}' is set", line)
            if name == "v":  # of this block alone
                self.given["v"] = self.graph.local("v", value)
                return
            variable = self.names.variable(name)
            if variable is not None and variable.sort == "constant":
                raise Refused(f"the constant '{name}' is set", line)
            if name in self.file.pointers:
                raise Refused(f"POINTER {name} is written", line)
        self.set(self.key(name, index, line), value, name)

    def set(self, key: str, value: Node, name: str = "") -> None:
        """Set the value of a key."""
        if "\0" not in key:
            self.writes[key] = None
            name = key
        self.values[key] = self.graph.local(name or key.split("\0")[0], value)

    def new_local(self, name: str, length: int = 0) -> None:
        """Declare a local in the innermost scope."""
        self._serial += 1
        keys = [f"{name}\0{self._serial}.{k}" for k in range(length or 1)]
        self.scopes[-1][name] = keys if length else keys[0]

    # ----------------------------------------------------------------------------- statements

    def body(self, statements: Sequence[Statement]) -> None:
        """Execute the statements of a block with locals of its own."""
        self.scopes.append({})
        for s in statements:
            self._executed += 1
            if self._executed > MAX_EXECUTED:
                raise Refused(f"more than {MAX_EXECUTED} statements are executed", s.line)
            try:
                self._statement(s)
            except ExpressionError as error:
                raise Refused(f"an expression: {error}", s.line) from error
            except Refused as refused:
                refused.line = refused.line or s.line
                raise
        self.scopes.pop()

    def _statement(self, s: Statement) -> None:
        if s.kind == "assign":
            name, index = s.names
            self.write(str(name), self._index(index, s.line), self.expression(s.values[0]), s.line)
        elif s.kind == "local":
            for name, length in s.names:  # type: ignore[misc]
                self.new_local(name, length)
        elif s.kind == "call":
            self.expression(s.values[0])
        elif s.kind == "if":
            self._if(s)
        elif s.kind == "from":
            self._from(s)
        elif s.kind == "while":
            self._while(s)
        elif s.kind == "verbatim":
            if not is_empty(str(s.names[0])):
                raise Refused("VERBATIM", s.line, "write it in NMODL")
        elif s.kind == "prime":
            if self.primes is None:
                raise Refused(f"{s.names[0]}' outside of DERIVATIVE", s.line)
            name, index = s.names
            self.primes(s, self.key(str(name), self._index(index, s.line), s.line))
        elif s.kind in ("reaction", "conserve", "compartment", "diffuse"):
            if self.kinetic is None:
                raise Refused(f"{s.kind} outside of KINETIC", s.line)
            self.kinetic(s)
        elif s.kind == "equation":
            if self.equations is None:
                raise Refused("an equation outside of LINEAR", s.line)
            self.equations(s)
        elif s.kind == "solve":
            if self.solve is not None:
                self.solve(self, s)
        elif s.kind not in ("table", "initial", "conductance"):
            self._net(s)

    def _index(self, index: object, line: int) -> int | None:
        if index is None:
            return None
        node = self.expression(index)  # type: ignore[arg-type]
        plain = node.definition
        if not plain.is_number:
            raise Refused("an index that is not constant", line)
        return int(plain.value)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Execute what follows without lasting effect but on what was read."""
        kept = self.values, self.writes, self.guard, dict(self.given)
        self.values, self.writes = dict(self.values), dict(self.writes)
        yield
        before = kept[0]
        for key in self.reads:
            if key in self.values and key not in before:
                before[key] = self.graph.symbol(key)
        self.values, self.writes, self.guard, self.given = kept

    def _if(self, s: Statement) -> None:
        condition = self.truth(self.expression(s.values[0]))
        if condition.is_number:
            branches = s.blocks[:1] if condition.value else s.blocks[1:]
            for block in branches:
                self.body(block)
            return
        guard = self.guard
        ends = []
        for k in (0, 1):
            before, given = dict(self.values), dict(self.given)
            if k < len(s.blocks):
                one = condition if k == 0 else self.graph.negated(condition)
                self.guard = self.graph.both(guard, one) if guard is not self.graph.one else one
                self.body(s.blocks[k])
            ends.append((self.values, self.given))
            self.values, self.given = before, given
        self.guard = guard
        (yes, given_yes), (no, given_no) = ends
        for key in list(dict.fromkeys([*yes, *no])):
            a, b = yes.get(key), no.get(key)
            if a is not b:
                a, b = (self._missing(key) if x is None else x for x in (a, b))
                name = key.split("\0")[0]
                self.values[key] = self.graph.local(name, self.graph.where(condition, a, b))
        for key in dict.fromkeys([*given_yes, *given_no]):
            a = given_yes.get(key) or self._special(key, s.line)
            b = given_no.get(key) or self._special(key, s.line)
            if a is not b:
                self.given[key] = self.graph.where(condition, a, b)

    def _missing(self, key: str) -> Node:
        if "\0" in key:
            return self.graph.zero
        self.reads[key] = None
        return self.graph.symbol(key)

    def truth(self, e: Node) -> Node:
        """Return a condition of what NMODL takes as one: true where it is not 0."""
        plain = e.definition
        if plain.is_number:
            return self.graph.number(int(plain.value != 0))
        return plain if plain.op in ("less", "lessequal", "both") else e

    def _from(self, s: Statement) -> None:
        first, last, by = (self.expression(e).definition for e in s.values)
        if not (first.is_number and last.is_number and by.is_number and by.value):
            raise Refused("FROM with bounds that are not constant", s.line, "use constants")
        start, end, step = (int(e.value) for e in (first, last, by))
        turns = range(start, end + (1 if step > 0 else -1), step)
        if len(turns) > MAX_TURNS:
            raise Refused(f"FROM with {len(turns)} turns", s.line)
        name = str(s.names[0])
        self.scopes.append({})
        self.new_local(name)
        for k in turns:
            self.values[str(self.scopes[-1][name])] = self.graph.number(k)
            self.body(s.blocks[0])
        self.scopes.pop()

    def _while(self, s: Statement) -> None:
        for _ in range(MAX_TURNS):
            condition = self.truth(self.expression(s.values[0]))
            if not condition.is_number:
                self._open_while(s, condition)
                return
            if not condition.value:
                return
            self.body(s.blocks[0])
        raise Refused(f"WHILE with more than {MAX_TURNS} turns", s.line)

    def _open_while(self, s: Statement, condition: Node) -> None:
        """Make a loop of a WHILE whose end depends on values."""
        if self.inside_loop:
            raise Refused("WHILE within another iteration", s.line)
        before = dict(self.values)
        sent = len(self.sent), len(self.armed), len(self.netcons)
        with self.trial():
            self.body(s.blocks[0])
            changed = [k for k, x in self.values.items() if before.get(k, None) is not x]
            changed = [k for k in changed if k in self.writes or "\0" in k]
            changed = [k for k in changed if "\0" not in k or k in before]
        starts = [self.value(k) for k in changed]
        loop = self.open_loop(changed, starts, MAX_TURNS)
        loop.entered = condition
        with self.trial():
            for key, name in zip(changed, loop.names, strict=True):
                self.values[key] = self.graph.symbol(name)
            self.body(s.blocks[0])
            loop.values = [self.values[k] for k in changed]
            loop.go_on = self.truth(self.expression(s.values[0]))
        if sent != (len(self.sent), len(self.armed), len(self.netcons)):
            raise Refused("an event is sent in a WHILE", s.line)
        self.close_loop(loop)
        for key, end in zip(changed, loop.ends, strict=True):
            self.set(key, self.graph.symbol(end))

    def open_loop(self, keys: Sequence[str], starts: list[Node], most: int) -> Loop:
        """Return a new loop of these variables."""
        if self.inside_loop:
            raise Refused("an iteration within another")
        number = self.shared.loops
        self.shared.loops += 1
        plain = [k.split("\0")[0] for k in keys]
        plain = [f"{p}_{j}" for j, p in enumerate(plain)] if len(set(plain)) < len(plain) else plain
        names = [f"_{p}__now{number}" for p in plain]
        ends = [f"_{p}__end{number}" for p in plain]
        self.inside_loop = True
        return Loop(names, ends, starts, most=most)

    def close_loop(self, loop: Loop) -> None:
        """Keep a loop that is complete."""
        self.inside_loop = False
        self.loops.append(loop)

    # ---------------------------------------------------------------------------- expressions

    def expression(self, e: Expression) -> Node:
        """Return the value of an expression."""
        sort = e[0]
        if sort == "number":
            return self.graph.number(e[1])  # type: ignore[arg-type]
        if sort == "name":
            index = self._index(e[2], 0)
            return self.read(str(e[1]), index)
        if sort == "call":
            return self.call(str(e[1]), e[2], int(e[3]))  # type: ignore[arg-type, call-overload]
        if sort == "neg":
            return -self.expression(e[1])  # type: ignore[arg-type]
        if sort == "not":
            return self.graph.negated(self.truth(self.expression(e[1])))  # type: ignore[arg-type]
        if sort == "text":
            raise Refused("a text in an expression")
        return self._operators(e)

    def _operators(self, e: Expression) -> Node:
        """Return a chain of operators, from its left end on."""
        chain: list[tuple[str, Expression]] = []
        while e[0] in _OPERATORS:
            chain.append((str(e[0]), e[2]))  # type: ignore[arg-type]
            e = e[1]  # type: ignore[assignment]
        value = self.expression(e)
        place = len(chain) - 1
        while place >= 0:
            sign = chain[place][0]
            if sign in "+-":
                terms = [value]
                while place >= 0 and chain[place][0] in "+-":
                    term = self.expression(chain[place][1])
                    terms.append(-term if chain[place][0] == "-" else term)
                    place -= 1
                value = self.graph.add(terms)
                continue
            value = self._operator(sign, value, self.expression(chain[place][1]))
            place -= 1
        return value

    def _operator(self, sign: str, a: Node, b: Node) -> Node:
        graph = self.graph
        if sign == "*":
            return a * b
        if sign == "/":
            if b.definition is graph.zero:
                raise Refused("a division by 0")
            return a / b
        if sign == "^":
            return built_in(graph, "pow", [a, b])
        if sign in ("<", "<="):
            return graph.less(a, b, or_equal=sign == "<=")
        if sign in (">", ">="):
            return graph.less(b, a, or_equal=sign == ">=")
        if sign in ("==", "!="):
            same = graph.both(graph.less(a, b, True), graph.less(b, a, True))
            return same if sign == "==" else graph.negated(same)
        if sign == "&&":
            return graph.both(self.truth(a), self.truth(b))
        if sign == "||":
            neither = graph.both(graph.negated(self.truth(a)), graph.negated(self.truth(b)))
            return graph.negated(neither)
        raise Refused(f"the operator {sign}")

    # ---------------------------------------------------------------------------------- calls

    def call(self, name: str, arguments: Sequence[Expression], line: int) -> Node:
        """Return the value of a function, or execute a procedure."""
        block = self.file.blocks.get(name)
        if block is None:
            return self._other_call(name, arguments, line)
        if block.sort == "FUNCTION_TABLE":
            raise Refused(f"FUNCTION_TABLE {name}", line, "write the function in NMODL")
        if block.sort not in ("FUNCTION", "PROCEDURE"):
            raise Refused(f"{block.sort} {name} is called", line)
        values = [self.expression(a) for a in arguments]
        if len(values) != len(block.arguments):
            got = f"{len(values)} arguments"
            raise Refused(f"{name} is called with {got}", line)
        return self.inlined(block, values, line)

    def inlined(self, block: Block, values: Sequence[Node], line: int) -> Node:
        """Execute a block with these arguments where it is called."""
        table = next((s for s in block.body if s.kind == "table"), None)
        if table is not None and self.shared.use_tables and self.where != f"table_{block.name}":
            from_table = self._looked_up(block, table, values, line)
            return from_table
        return self.executed(block, values, line)

    def executed(self, block: Block, values: Sequence[Node], line: int) -> Node:
        """Execute a block without its table."""
        if block.name in self._calls:
            raise Refused(f"{block.name} calls itself", line)
        if len(self._calls) > MAX_CALLS:
            raise Refused(f"more than {MAX_CALLS} calls within each other", line)
        self._calls.append(block.name)
        self.scopes.append({"": ""})
        for name, value in zip(block.arguments, values, strict=True):
            self.new_local(name)
            self.values[str(self.scopes[-1][name])] = self.graph.local(name, value)
        self.new_local(block.name)
        result = str(self.scopes[-1][block.name])
        kept = self.primes, self.kinetic, self.equations
        self.primes = self.kinetic = self.equations = None
        self.body(block.body)
        self.primes, self.kinetic, self.equations = kept
        self.scopes.pop()
        self._calls.pop()
        return self.values.get(result, self.graph.zero)

    def _looked_up(
        self, block: Block, s: Statement, values: Sequence[Node], line: int
    ) -> Node:
        """Take the value of a function, or what a procedure sets, from its table."""
        if len(values) != 1:
            raise Refused(f"TABLE of {len(values)} arguments", s.line)
        use = self.shared.tables.get(block.name)
        if use is None:
            use = self.shared.tables[block.name] = self._table(block, s)
        graph = self.graph
        share = (values[0] - use.low) * (graph.number(use.n) / (use.high - use.low))
        place = graph.local(f"_{block.name}__place", graph.call("place", share, graph.number(use.n)))
        looked = [
            graph.lookup(f"{block.name}__table", k, len(use.columns), use.n, place)
            for k in range(len(use.columns))
        ]
        if block.sort == "FUNCTION":
            return looked[0]
        for key, value in zip(use.columns, looked, strict=True):
            self.set(key, value)
        return graph.zero

    def _table(self, block: Block, s: Statement) -> TableUse:
        columns, _, n = s.names
        inner = Run(self.shared, f"grid_{block.name}")
        low, high = (inner.expression(e) for e in s.values)
        if block.sort == "FUNCTION":
            keys = [block.name]
        else:
            if not columns:
                raise Refused(f"TABLE of {block.name} without names", s.line)
            keys = []
            for name in columns:  # type: ignore[attr-defined]
                if self.names.variable(name) is None:
                    raise Refused(f"'{name}' is not declared", s.line)
                keys += self.names.all_elements(name)
        if not 1 <= int(n) <= 1_000_000:  # type: ignore[call-overload]
            raise Refused(f"TABLE WITH {n}", s.line)
        return TableUse(block, keys, low, high, int(n))  # type: ignore[call-overload]

    def _other_call(self, name: str, arguments: Sequence[Expression], line: int) -> Node:
        if name in ("net_send", "net_event", "net_move"):
            return self._send(name, arguments, line)
        if name in ("nrn_pointing",):
            return self.graph.one
        if name == "state_discontinuity" and len(arguments) == 2 and arguments[0][0] == "name":
            target = arguments[0]
            index = self._index(target[2], line)
            self.write(str(target[1]), index, self.expression(arguments[1]), line)
            return self.graph.zero
        if name == "at_time":  # of the fixed step
            return self._at_time(self.expression(arguments[-1]))
        if name.startswith("random_") and arguments and arguments[0][0] == "name":
            raise Refused(f"RANDOM ({name})", line)
        if name not in FUNCTIONS:
            raise Refused(f"the function {name}, which the file does not define", line)
        count = FUNCTIONS[name]
        if len(arguments) != count:
            raise Refused(f"{name} is called with {len(arguments)} arguments", line)
        return built_in(self.graph, name, [self.expression(a) for a in arguments])

    def _at_time(self, time: Node) -> Node:
        graph = self.graph
        t, dt = self.read("t"), self.read("dt")
        x = time - graph.number(Fraction(1, 10**11))
        return graph.both(graph.less(x, t, or_equal=True), graph.less(t - dt, x))

    # --------------------------------------------------------------------------------- events

    def _send(self, name: str, arguments: Sequence[Expression], line: int) -> Node:
        if self.where not in ("receive", "initial", "net_initial"):
            raise Refused(f"{name} in {self.where}", line)
        values = [self.expression(a) for a in arguments]
        t = self.read("t")
        if name == "net_send":
            if len(values) != 2:
                raise Refused("net_send needs a delay and a flag", line)
            self.sent.append(Sent("self", self.guard, t + values[0], values[1]))
        else:
            kind = "event" if name == "net_event" else "move"
            self.sent.append(Sent(kind, self.guard, values[0] if values else t, None))
        return self.graph.zero

    def _net(self, s: Statement) -> None:
        if s.kind == "watch" and self.where == "receive":
            for condition, flag in zip(s.values[::2], s.values[1::2], strict=True):
                number = self.expression(flag).definition
                if not number.is_number:
                    raise Refused("WATCH with a flag that is not constant", s.line)
                self.armed.append((self.guard, condition, number.value, s.line))
        elif s.kind == "for_netcons" and self.where == "receive":
            self._for_netcons(s)
        else:
            raise Refused(f"{s.kind.upper()} in {self.where}", s.line)

    def _for_netcons(self, s: Statement) -> None:
        """Execute the body for another connection, whose weights are symbols of their own."""
        inner = Run(self.shared, "for_netcons")
        inner.values, inner.given = dict(self.values), dict(self.given)
        inner.reads = self.reads
        inner.scopes = [dict(scope) for scope in self.scopes]
        inner.scopes.append({})
        names = tuple(str(n) for n in s.names)
        for name in names:
            inner.new_local(name)
            inner.values[str(inner.scopes[-1][name])] = self.graph.symbol(f"_{name}__other")
        inner._serial = 10_000 + self._serial
        inner.body(s.blocks[0])
        if inner.writes:
            raise Refused(
                f"FOR_NETCONS that sets '{next(iter(inner.writes))}'",
                s.line,
                "set the weights alone",
            )
        own = list(self.arguments.items())
        for name, (argument, key) in zip(names, own, strict=False):
            symbol = self.graph.symbol(weight(argument))
            changed = inner.values[str(inner.scopes[-1][name])]
            if changed is self.graph.symbol(f"_{name}__other"):
                continue
            poison = self.graph.symbol(f"_{argument}__changed")
            if self.values[key] is not symbol or changed.uses(symbol.name):
                what = f"FOR_NETCONS sets '{name}', which the event has set or uses there"
                raise Refused(what, s.line)
            self.values[key] = self.graph.where(self.guard, poison, symbol)
        self.netcons.append((names, s, inner, self.guard))


_OPERATORS = frozenset("+ - * / % ^ < <= > >= == != && ||".split())
