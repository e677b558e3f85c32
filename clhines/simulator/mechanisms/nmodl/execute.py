"""Symbolic execution of NMODL statements.

A block is executed once. Variables that it reads before it sets them are symbols; at its end the
variables' values are expressions on the mechanism's `Graph`. Both branches of an IF are executed,
and ``where`` joins their values; a PROCEDURE or FUNCTION is executed at each call.
"""

from __future__ import annotations

from collections.abc import Sequence

from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Node
from clhines.simulator.mechanisms.ir.passes.remove_singularities import without_trap
from clhines.simulator.mechanisms.nmodl.evaluate import Evaluation
from clhines.simulator.mechanisms.nmodl.loops import (
    MAX_EXECUTED,
    check_executed,
    execute_from,
    execute_while,
)
from clhines.simulator.mechanisms.nmodl.meaning.netcons import where_true
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    Block,
    Expression,
    Refused,
    Statement,
    all_of,
    refuse,
    uses,
)
from clhines.simulator.mechanisms.nmodl.reading.verbatim import is_empty, is_return
from clhines.simulator.mechanisms.nmodl.values import MADE, Sent, TableUse, weight
from clhines.simulator.refusals import Sentence, refusal


def _literal_turns(s: Statement) -> int:
    bounds = [e[1] for e in s.values if e[0] == "number"] if s.kind == "from" else []
    if len(bounds) < 3 or bounds[2] <= 0:
        return 1
    return max(int((bounds[1] - bounds[0]) / bounds[2]) + 1, 0)


MAX_CALLS = 60  # calls within each other
_RULED = {"prime": "DERIVATIVE", "equation": "LINEAR"}  # statements that only such blocks may have
_RULED |= dict.fromkeys(("reaction", "conserve", "compartment", "diffuse"), "KINETIC")


class Execution(Evaluation):
    """Execute one block's statements once; `BlockValues` has the variables."""

    @property
    def is_in_call(self) -> bool:
        return bool(self._calls)

    def body(self, statements: Sequence[Statement]) -> None:
        """Execute statements in a new scope for locals."""
        with self.scope():
            for s in statements:
                self._executed += 1
                if self._executed > MAX_EXECUTED:
                    raise refuse("mod.too-many-statements", s.line, max_executed=MAX_EXECUTED)
                try:
                    self.line = s.line
                    self._statement(s)
                except ExpressionError as error:
                    raise refuse("mod.expression", s.line, error=error) from error
                except Refused as refused:
                    refused.line = refused.line or s.line
                    raise
            for s in statements:
                if s.kind == "conductance":
                    value = self.read(str(s.names[0]), None, s.line)
                    self.conductances.append((str(s.names[1]), value))

    def _statement(self, s: Statement) -> None:
        if s.kind == "assign":
            name, index = s.names
            value = self.expression(s.values[0])  # before the index, as in C++
            self.write(str(name), self.index(index), value, s.line)
        elif s.kind == "local":
            for declared in s.names:
                self.new_local(*declared)
        elif s.kind == "call":
            self.expression(s.values[0])
        elif s.kind == "if":
            self._if(s)
        elif s.kind == "from":
            execute_from(self, s)
        elif s.kind == "while":
            execute_while(self, s)
        elif is_return(s):
            self.refuse_verbatim(refusal("mod.verbatim-return"), s.line)
        elif s.kind == "verbatim":
            if not is_empty(str(s.names[0])):
                self.shared.verbatim.append(refuse("mod.verbatim", s.line))
        elif s.kind in self.rules:
            self.rules[s.kind](s)
        elif s.kind in _RULED:
            named = {"prime": f"{s.names[0]}'" if s.names else "", "equation": "an equation"}
            what = named.get(s.kind, s.kind)
            raise refuse("mod.statement-outside-block", s.line, what=what, ruled=_RULED[s.kind])
        elif s.kind == "solve":
            if self.solve is not None:
                self.solve(self, s)
        elif s.kind not in ("table", "initial", "conductance"):
            self._net(s)

    def _if(self, s: Statement) -> None:
        condition = self.truth(self.expression(s.values[0]))
        if condition.is_number:
            for block in s.blocks[:1] if condition.value else s.blocks[1:]:
                self.body(block)
            return
        guard, ends = self.guard, []
        for k in (0, 1):
            before, overrides_before = dict(self.values), dict(self.overrides)
            if k < len(s.blocks):
                one = condition if k == 0 else self.graph.negated(condition)
                self.guard = self.graph.both(guard, one) if guard is not self.graph.one else one
                self.body(s.blocks[k])
            ends.append((self.values, self.overrides))
            self.values, self.overrides = before, overrides_before
        self.guard = guard
        (yes, overrides_yes), (no, overrides_no) = ends
        for key in list(dict.fromkeys([*yes, *no])):
            a, b = yes.get(key), no.get(key)
            if a is b:
                self.values[key] = yes[key]
            else:
                a, b = (self.value(key) if x is None else x for x in (a, b))
                name = key.split("\0")[0]
                chosen = without_trap(condition, a, b) or self.graph.where(condition, a, b)
                self.values[key] = self.graph.local(name, chosen)
        for key in dict.fromkeys([*overrides_yes, *overrides_no]):
            a = overrides_yes.get(key) or self._special(key, s.line)
            b = overrides_no.get(key) or self._special(key, s.line)
            self.overrides[key] = self.graph.where(condition, a, b)

    def _cost(self, block: Block) -> int:
        costs = self.shared.costs
        if block.name not in costs:
            costs[block.name] = total = 1  # ends a recursion, which `executed` refuses
            pending: list[tuple[object, int]] = [(block.body, 1)]
            while pending:
                one, times = pending.pop()
                if isinstance(one, Statement):
                    total += times
                    inner = times * _literal_turns(one)
                    pending += [(one.names, times), (one.values, times), (one.blocks, inner)]
                elif isinstance(one, (tuple, list)):
                    pending += [(part, times) for part in one]
                    name = str(one[1]) if one[:1] == ("call",) else ""
                    if name in self.file.blocks:
                        total += times * self._cost(self.file.blocks[name])
            has_table = any(s.kind == "table" for s in block.body) and self.shared.use_tables
            costs[block.name] = 1 if has_table else total
        return costs[block.name]

    def refuse_verbatim(self, construct: Sentence, line: int) -> None:
        """Refuse C that is not supported.

        If the C is in an IF that parameters decide, refuse only runs that execute it.
        """
        refused = Refused(construct, line)
        if self.guard is self.graph.one:
            self.shared.verbatim.append(refused)
        else:
            self.shared.unless.append((self.where, self.guard, refused))

    def send(self, name: str, arguments: Sequence[Expression], line: int) -> Node:
        """Execute a net_send, net_event or net_move."""
        if self.where not in ("receive", "initial", "net_initial"):
            raise refuse("mod.call-in-block", line, name=name, where=self.block)
        values = self.in_any_order(arguments, line)
        t = self.read("t")
        first, sign = arguments[0] if arguments else (), ""
        while first and first[0] in ("+", "-", "*", "/"):
            first, sign = first[1], str(first[0])
        if name == "net_send" and sign in "*/" and sign and first[1] in self.turning:
            way_out = f"begin with another factor than {first[1]}"
            raise refuse("mod.net-send-delay", line, way_out, first=first[1], sign=sign)
        if name == "net_send":
            if len(values) != 2:
                raise refuse("mod.net-send-arguments", line)
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
                    raise refuse("mod.watch-flag", s.line)
                self.armed.append((self.guard, condition, number.value, s.line))
            if "v" in self.overrides:  # NEURON tests the condition at once, with the node's voltage
                self.overrides["v"] = self.graph.symbol("v")
        elif s.kind == "for_netcons" and self.where == "receive":
            self._for_netcons(s)
        else:
            raise refuse("mod.statement-in-block", s.line, kind=s.kind.upper(), where=self.block)

    def _for_netcons(self, s: Statement) -> None:
        inner = Execution(self.shared, "for_netcons")
        inner.values, inner.overrides = dict(self.values), dict(self.overrides)
        inner.reads = self.reads
        inner.scopes = [dict(scope) for scope in self.scopes]
        inner.scopes.append({})
        names = tuple(str(n) for n in s.names)
        for name in names:
            inner.values[inner.new_local(name)] = self.graph.symbol(f"_{name}__other")
        inner._serial = 10_000 + self._serial
        inner.body(s.blocks[0])
        for name in inner.writes:
            raise refuse("mod.for-netcons-sets", s.line, name=name)
        arguments_here = list(zip(names, self.arguments.items(), strict=False))
        after = [inner.values[str(inner.scopes[-1][name])] for name in names]
        for (name, (argument, key)), changed in zip(arguments_here, after, strict=False):
            symbol, other = self.graph.symbol(weight(argument)), f"_{name}__other"
            is_set = where_true(self.graph, self.guard, [self.values[key]])[0] is not symbol
            if changed.uses(symbol.name) or (is_set and any(e.uses(other) for e in after)):
                raise refuse("mod.for-netcons-order", s.line, name=name)
            if changed is not self.graph.symbol(other):
                poison = self.graph.symbol(f"_{argument}__changed")
                self.values[key] = self.graph.where(self.guard, poison, self.values[key])
        self.netcons.append((names, s, inner, self.guard))

    def executed(self, block: Block, values: Sequence[Node], line: int) -> Node:
        """Execute a PROCEDURE or FUNCTION called in `line` with the arguments' `values`.

        Return a FUNCTION's value, 0 for a PROCEDURE.
        """
        if block.name in self._calls:
            raise refuse("mod.calls-itself", line, name=block.name)
        if len(self._calls) > MAX_CALLS:
            raise refuse("mod.too-deep", line, what=f"more than {MAX_CALLS} calls")
        if not self._calls:
            check_executed(self.repeats * self._cost(block), line)
        self._calls.append(block.name)
        with self.scope({}):
            for name, value in zip(block.arguments, values, strict=True):
                self.values[self.new_local(name)] = self.graph.local(name, value)
            result = self.new_local(block.name)
            self.body(block.body)
        self._calls.pop()
        return self.values.get(result, self.graph.zero)

    def _looked_up(self, block: Block, s: Statement, values: Sequence[Node]) -> Node:
        """Look up a block's results in its TABLE: return a FUNCTION's value, set other variables.

        A PROCEDURE returns 0.
        """
        if len(values) != 1:
            raise refuse("mod.table-arguments", s.line, count=len(values))
        use = self.shared.tables.get(block.name)
        if use is None:
            use = self.shared.tables[block.name] = self._table(block, s)
            if self.where == "initial":  # NEURON makes the table here
                use.initial_values = {k: self.values[k] for k in self.writes if k in self.values}
        graph, n = self.graph, self.graph.number(use.n)
        share = (values[0] - use.low) * (n / (use.high - use.low))
        place = graph.local(f"_{block.name}__place", graph.call("place", share, n))
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
        inner = Execution(self.shared, f"grid_{block.name}")
        low, high = (inner.expression(e) for e in s.values)
        if block.sort == "FUNCTION":
            keys = [block.name]
        else:
            if not columns:
                raise refuse("mod.table-without-names", s.line, name=block.name)
            keys = []
            for name in columns:
                if self.names.variable(name) is None:
                    raise refuse("mod.not-declared", s.line, name=name)
                keys += self.names.all_elements(name)
        if not 1 <= int(n) <= 1_000_000:
            raise refuse("mod.table-with", s.line, n=n)
        use = TableUse(block, keys, low, high, int(n))
        made = self.shared.function_tables.get(MADE.format(block.name))
        if made is not None:
            use.made, use.depends = made.values, frozenset(s.names[1])
            if len(use.made) != (use.n + 1) * len(keys) or not (low.is_number and high.is_number):
                raise refuse("mod.table-rows", s.line, name=block.name)
            return use
        if all(key in self.names.elements and self.names.is_global(key) for key in keys):
            for key in keys:
                if self._is_held(block, key):
                    raise refuse("mod.table-holds", s.line, name=block.name, variable=key)
        use.depends = frozenset(s.names[1])
        return use

    def _is_held(self, block: Block, key: str) -> bool:
        """Whether a TABLE's column is a parameter that the TABLE's block does not set."""
        if any(uses(block.body, name) for name in self.file.blocks):
            return False
        name = self.names.elements[key]
        is_set = any(s.names[0] == name for s in all_of(block.body, "assign"))
        return self.file.variables[name].sort == "parameter" and not is_set

    def inlined(self, block: Block, values: Sequence[Node], line: int) -> Node:
        table = next((s for s in block.body if s.kind == "table"), None)
        if table is not None and self.shared.use_tables and self.where != f"table_{block.name}":
            return self._looked_up(block, table, values)
        return self.executed(block, values, line)
