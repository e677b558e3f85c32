"""Execute all blocks of a file symbolically, with NEURON's meaning; each becomes a `Body`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from clhines.simulator.mechanisms.ir.compiled import NEVER, Body
from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Graph, Node
from clhines.simulator.mechanisms.ir.forms import linear_parts
from clhines.simulator.mechanisms.nmodl.evaluate import counts
from clhines.simulator.mechanisms.nmodl.execute import Execution
from clhines.simulator.mechanisms.nmodl.meaning.function_table import row_of
from clhines.simulator.mechanisms.nmodl.meaning.kinetic import diffusing
from clhines.simulator.mechanisms.nmodl.meaning.netcons import check
from clhines.simulator.mechanisms.nmodl.meaning.solve import halves, solve
from clhines.simulator.mechanisms.nmodl.reading.names import Names
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    Block,
    Expression,
    File,
    FunctionTable,
    Refused,
    Statement,
    all_of,
    refuse,
    uses,
)
from clhines.simulator.mechanisms.nmodl.reading.verbatim import is_empty
from clhines.simulator.mechanisms.nmodl.values import (
    ASSIGNING,
    POINTED_ADD,
    POINTED_PUT,
    STEERING,
    MechanismContext,
    Sent,
    TableUse,
    weight,
)
from clhines.simulator.refusals import id_of

SLOPE = Fraction(1, 1000)  # mV, NEURON's step for di/dv
BEFORE_AFTER = "BEFORE INITIAL", "AFTER INITIAL", "BEFORE BREAKPOINT", "AFTER SOLVE", "BEFORE STEP"


@dataclass
class Bodies:
    """The bodies of a file's blocks, and facts about the file that their execution shows."""

    shared: MechanismContext
    blocks: dict[str, Body] = field(default_factory=dict)
    sends: list[str] = field(default_factory=list)  # see `Net.sends`
    watch_flags: list[float] = field(default_factory=list)  # each WATCH's event flag
    netcons: int = 0  # FOR_NETCONS count
    weights: tuple[str, ...] | None = None  # NET_RECEIVE's arguments
    late: set[str] = field(default_factory=set)  # variables as in `_Work._set_late`
    halved: bool = False  # whether secondorder halves SOLVE's dt
    refused: list[Refused] = field(default_factory=list)

    def attempt(self, work: Callable[[], None]) -> None:
        """Execute one part of a file by calling `work`; collect the refusals that it raises.

        If the part has unsupported VERBATIM, collect only the refusals about VERBATIM: the others
        may be consequences of the C code that was skipped.
        """
        refusals = list[Refused]()
        try:
            work()
        except Refused as refused:
            refusals = [refused]
        except ExpressionError as error:
            refusals = [refuse("mod.expression", error=error)]
        if refusals:
            later = (one for _, _, one in self.shared.unless)
            refusals = [r for r in later if id_of(r.construct) == "mod.verbatim"] or refusals
        self.refused += self.shared.verbatim or refusals
        self.shared.verbatim.clear()


def executed(
    file: File,
    use_tables: bool,
    secondorder: bool = False,
    function_tables: Mapping[str, FunctionTable] | None = None,
    draws: bool = False,
) -> Bodies:
    """Execute all blocks of a file; the options are fields of `Nmodl`."""
    shared = MechanismContext(
        file, Names(file), Graph(), use_tables, secondorder, function_tables or {}, draws=draws
    )
    bodies = Bodies(shared)
    work = _Work(bodies)
    parts = work.initial, work.current, work.advance, work.diffusion, work.events, work.others
    for part in (*parts, work.copies, work.tables, work.assigned):
        bodies.attempt(part)
    return bodies


class _Work:
    """Execute the parts of a file, one in each public method, and add the results to `bodies`."""

    def __init__(self, bodies: Bodies) -> None:
        self.bodies, self.shared = bodies, bodies.shared
        self.file, self.graph = self.shared.file, self.shared.graph
        self.names = self.shared.names
        self.initially = list[Sent]()  # INITIAL's events
        self.ion_currents = {f"i{ion.name}" for ion in self.file.ions}
        self.concentrations = self.file.ion_variables - self.ion_currents
        self.currents = [*self.file.nonspecific]
        for ion in self.file.ions:
            self.currents += [name for name in ion.writes if name == f"i{ion.name}"]
        self.currents += self.file.electrode

    def _keep(
        self, block: str, run: Execution, results: Sequence[tuple[str, str, Node]] = ()
    ) -> None:
        body = Body(list(results), loops=run.loops)
        for key in run.writes:
            name = self.names.elements[key]
            if name in self.file.pointers:
                body.results.append(self._pointed(block, key, run.values[key]))
            elif name not in self.concentrations:
                body.writes[key] = run.values[key]
            elif any(name in ion.writes for ion in self.file.ions):
                body.results.append(("ion", key, run.values[key]))
            # else a copy: if a file only READs a variable, others do not see what it sets
        body.results += counts(run)
        self.bodies.blocks[block] = body

    def _pointed(self, block: str, key: str, value: Node) -> tuple[str, str, Node]:
        name = self.names.elements[key]
        if block == STEERING:
            return "steer", name, value
        if block == ASSIGNING and self.file.kind != "artificial":
            return "assign", name, value
        parts = linear_parts(value, key)
        if block in POINTED_PUT and not value.uses(key):
            return "put", name, value
        if block in POINTED_ADD and parts is not None and parts[1] is self.graph.one:
            return "add", name, parts[0]
        does = "set but from itself" if block in POINTED_PUT else "other than added to"
        where = block.upper().replace("_", " ")
        raise refuse(
            "mod.pointer-used-in", self.file.pointers[name], name=name, does=does, where=where
        )

    def _main(self, name: str) -> Sequence[Statement]:
        block = self.file.main.get(name)
        return block.body if block is not None else ()

    def initial(self) -> None:
        run = Execution(self.shared, "initial")
        run.solve = solve
        for variable in self.file.variables.values():
            if variable.sort == "state" and variable.name not in self.concentrations:
                start = self.names.start_name(variable.name)
                for key in self.names.all_elements(variable.name):
                    value = run.read(start) if start else None
                    run.set(key, value or self.graph.number(variable.value or 0))
        run.body(self._main("INITIAL"))
        self.initially = run.sent
        self._keep("initial", run, self._sends(run))

    def _sends(self, run: Execution) -> list[tuple[str, str, Node]]:
        graph, results = self.graph, []
        for sent in run.sent:
            number = len(self.bodies.sends)
            self.bodies.sends.append(sent.kind)
            never = graph.symbol(NEVER)
            results.append(("send", f"{number}.time", graph.where(sent.guard, sent.time, never)))
            if sent.flag is not None:
                results.append(("send", f"{number}.flag", sent.flag))
        return results

    def current(self) -> None:
        body = self.file.main.get("BREAKPOINT")
        if body is None or not self.currents:
            return  # without currents `advance` executes the block, after the voltages
        _, statements = split_solves(body.body)
        run = Execution(self.shared, "current")
        run.solve = _nested
        run.body(statements)
        if run.conductances:
            self._hinted(run)
            return
        total = self._total(run)
        again = [key for key in run.writes if key in run.reads] + [*run.drew]
        if again or run.jumps:
            self._twice(statements)
        else:
            self._keep_currents(run, total, lambda _, value: self._slope(value))

    def _keep_currents(
        self, run: Execution, total: Node, slope: Callable[[str, Node], Node]
    ) -> None:
        """Add the block ``current``: the total current and the ion currents.

        ``slope(name, value)`` returns a current's di/dv; the total current has the name "".
        """
        results = [("i", "i", total), ("g", "g", slope("", total))]
        for name in self.currents:
            if name in self.ion_currents:
                value = run.read(name)
                results += [("ion", name, value), ("ion_current", name, slope(name, value))]
        self._keep("current", run, results)

    def _hinted(self, run: Execution) -> None:
        graph = self.graph
        conductance = self._outward([value for _, value in run.conductances])

        def slope(name: str, _: Node) -> Node:
            conductances = (value for of, value in run.conductances if of == name[1:])
            return graph.add(conductances) if name else conductance

        self._keep_currents(run, self._total(run), slope)

    def _total(self, run: Execution) -> Node:
        return self._outward([run.read(name) for name in self.currents])

    def _outward(self, values: Sequence[Node]) -> Node:
        """Add up currents as outward; NEURON takes all as inward with ELECTRODE_CURRENT."""
        return self.graph.add(-x if self.file.electrode else x for x in values)

    def _slope(self, current: Node) -> Node:
        """Return di/dv: exact if the current is linear in v, else NEURON's difference."""
        graph = self.graph
        if not current.uses("v"):
            return graph.zero
        if linear_parts(current, "v") is not None:
            return graph.slope(current, "v")
        v, step = graph.symbol("v"), graph.number(SLOPE)
        ahead = graph.replaced([current], {v: v + step})[0]
        return (ahead - current) / step

    def _twice(self, statements: Sequence[Statement]) -> None:
        """Execute BREAKPOINT twice, as NEURON does to find a current's slope by a difference.

        NEURON executes it at v + 0.001 mV and then at v; variables keep the values of the first
        execution until the second one sets them.
        """
        graph = self.graph
        first, second = Execution(self.shared, "current"), Execution(self.shared, "current")
        first.solve = second.solve = _nested
        first.overrides["v"] = graph.symbol("v") + graph.number(SLOPE)
        first.body(statements)
        ahead = {name: first.read(name) for name in self.currents}
        ahead[""] = self._total(first)
        second.values, second.reads = dict(first.values), first.reads
        second.loops, second.writes = first.loops, dict(first.writes)
        second.drew, second.jumps = first.drew, None
        second.body(statements)
        total, step = self._total(second), graph.number(SLOPE)
        self._keep_currents(second, total, lambda name, value: (ahead[name] - value) / step)

    def advance(self) -> None:
        run = Execution(self.shared, "advance")
        run.solve = solve
        solves, others = split_solves(self._main("BREAKPOINT"))
        if self.currents or self.file.kind == "artificial":
            others = []  # without currents NEURON executes them after SOLVE, at new voltages
        if solves or others:
            steady = [s for s in solves if s.names[2]]
            if self.shared.secondorder and steady:
                raise refuse("mod.steadystate-secondorder", steady[0].line)
            if self.shared.secondorder and any(halves(run, s) for s in solves):
                self.bodies.halved = True
                run.overrides["dt"] = run.read("dt") * self.graph.number(Fraction(1, 2))
            run.body(solves)
            if self.bodies.halved:
                run.overrides.pop("dt", None)
            run.solve = _nested
            run.body(others)
            self._keep("advance", run)

    def diffusion(self) -> None:
        run = Execution(self.shared, "diffuse")
        if results := diffusing(run):
            self.bodies.blocks["diffuse"] = Body(results, loops=run.loops)

    def others(self) -> None:
        for name in BEFORE_AFTER:
            if name in self.file.main:
                block = name.lower().replace(" ", "_")
                run = Execution(self.shared, block)
                run.body(self._main(name))
                self._keep(block, run)
        for s in self._main("CONSTRUCTOR"):
            if s.kind != "verbatim" or not is_empty(str(s.names[0])):
                raise refuse("mod.constructor", s.line, name="CONSTRUCTOR")

    def _with_arguments(self, run: Execution, arguments: Sequence[str]) -> list[str]:
        """Declare NET_RECEIVE's arguments; return their keys, with "" for the argument ``flag``."""
        keys = []
        for name in arguments:
            if name == "flag":  # in NEURON then the event's flag, and not a weight
                keys.append("")
                continue
            key = run.new_local(name)
            run.values[key] = self.graph.symbol(weight(name))
            run.arguments[name] = key
            keys.append(key)
        return keys

    def events(self) -> None:
        block = self.file.main.get("NET_RECEIVE")
        if block is None:
            return
        self.bodies.weights = block.arguments
        # NEURON updates an instance's v in SOLVE, and in NET_RECEIVE if that itself uses v
        self.shared.is_stale = not (
            uses(block.body, "v") or all_of(self._main("BREAKPOINT"), "solve")
        )
        declared = {one[0] for s in all_of(block.body, "local") for one in s.names}
        self.shared.sets_v = "v" not in declared.union(block.arguments) and any(
            s.names[0] == "v" for s in all_of(block.body, "assign")
        )
        run = Execution(self.shared, "receive")
        run.overrides["flag"] = self.graph.symbol("_flag")
        keys = self._with_arguments(run, block.arguments)
        run.body([s for s in block.body if s.kind != "initial"])
        results = self._sends(run) + self._changed(run, block.arguments, keys)
        v = run.overrides.get("v", self.graph.symbol("v"))
        if v.definition is not self.graph.symbol("v"):
            results.append(("set_v", "v", v))
        for number, (guard, _, flag, _) in enumerate(run.armed):
            self.bodies.watch_flags.append(float(flag))
            results.append(("arm", str(number), guard))
        self._keep("receive", run, results)
        set_ = {"v": v, **self.bodies.blocks["receive"].writes}
        self.bodies.late = {k for k, value in set_.items() if self._set_late(k, value, run.sent)}
        self._netcons(run, block)
        self._watches(run)
        begins = [s for s in block.body if s.kind == "initial"]
        if begins:
            first = Execution(self.shared, "net_initial")
            keys = self._with_arguments(first, block.arguments)
            for s in begins:
                first.body(s.blocks[0])
            if first.sent:
                raise refuse("mod.event-in-initial-of-net-receive", block.line)
            self._keep("net_initial", first, self._changed(first, block.arguments, keys))

    def _set_late(self, key: str, value: Node, received: Sequence[Sent]) -> bool:
        """Return whether an event may set a variable at the end of a step, before thresholds.

        Events are delivered there, except events from a WATCH and events that INITIAL sends without
        a delay. `value` is the variable's value after the event, `received` are the events that
        NET_RECEIVE sends.
        """
        graph = self.graph
        sent = [s for s in received if s.kind == "self"]
        sent += [s for s in self.initially if s.kind == "self" and s.time is not graph.symbol("t")]
        if any(s.kind == "move" for s in received):
            sent += [s for s in self.initially if s.kind == "self"]
        flags = [graph.zero] + [s.flag for s in sent if s.flag is not None]
        symbol, before = graph.symbol("_flag"), graph.symbol(key)
        with_flags = (graph.replaced([value], {symbol: flag})[0].definition for flag in flags)
        return any(node is not before for node in with_flags)

    def _changed(
        self, run: Execution, arguments: Sequence[str], keys: Sequence[str]
    ) -> list[tuple[str, str, Node]]:
        changes = []
        for name, key in zip(arguments, keys, strict=True):
            if not key:
                continue
            symbol, changed = self.graph.symbol(weight(name)), f"_{name}__changed"
            [value] = self.graph.replaced([run.values[key]], {self.graph.symbol(changed): symbol})
            if value.definition is not symbol:
                changes.append(("weight", name, run.values[key]))
        return changes

    def _netcons(self, run: Execution, block: Block) -> None:
        body, after = self.bodies.blocks["receive"], dict[Node, Node]()
        for number, (names, s, inner, guard) in enumerate(run.netcons):
            if "flag" in (*names, *block.arguments):
                raise refuse("mod.for-netcons-flag", s.line)
            if len(names) > len(block.arguments):
                raise refuse("mod.for-netcons-arguments", s.line)
            rename, results = {}, []
            for a, b in zip(names, block.arguments, strict=False):
                rename[self.graph.symbol(f"_{a}__other")] = self.graph.symbol(f"_{b}__other")
            for name, target in zip(names, block.arguments, strict=False):
                old = self.graph.symbol(f"_{name}__other")
                new = inner.values[str(inner.scopes[-1][name])]
                if new is not old:
                    value = self.graph.replaced([self.graph.where(guard, new, old)], dict(rename))
                    results.append(("other_weight", target, value[0]))
            changed = [target for _, target, _ in results]
            check(self.graph, body.nodes(body.writes), guard, changed, s.line)
            for name in changed:
                after[self.graph.symbol(f"_{name}__changed")] = self.graph.symbol(weight(name))
            self.bodies.blocks[f"for_netcons{number}"] = Body(results, loops=inner.loops)
            self.bodies.netcons += 1
        if any(node.uses(e.name) for loop in body.loops for node in loop.nodes() for e in after):
            raise refuse("mod.loop-after-for-netcons", block.line)
        self.bodies.blocks["receive"] = body.mapped(lambda e: self.graph.replaced([e], after)[0])

    def _watches(self, run: Execution) -> None:
        if not run.armed:
            return
        inner, results = Execution(self.shared, "watch"), []
        for number, (_, condition, _, line) in enumerate(run.armed):
            results.append(("watch", str(number), self._excess(inner, condition, line)))
        self._keep("watch", inner, results)

    def copies(self) -> None:
        watch, receive = self.bodies.blocks.get("watch"), self.file.main.get("NET_RECEIVE")
        if watch is None or receive is None:
            return
        for name in sorted(self.file.ion_variables):
            key = self.names.element(name, None)
            if any(value.uses(key) for _, _, value in watch.results):
                raise refuse("mod.watch-ion", receive.line, name=name)

    def _excess(self, run: Execution, condition: Expression, line: int) -> Node:
        if condition[0] not in ("<", "<=", ">", ">="):
            raise refuse("mod.watch-condition", line)
        left, right = (run.expression(e) for e in condition[1:])
        return left - right if condition[0] in (">", ">=") else right - left

    def assigned(self) -> None:
        """Let INITIAL assign a POINTER that BREAKPOINT assigns; refuse other blocks that set it."""
        blocks = self.bodies.blocks
        names = {n for b in blocks.values() for role, n, _ in b.results if role == "assign"}
        for block, body in blocks.items():
            for k, (role, name, value) in enumerate(body.results):
                if role in ("put", "add", "steer") and name in names:
                    if block not in ("before_initial", "initial"):
                        raise refuse(
                            "mod.pointer-in-two-blocks", self.file.pointers[name], name=name
                        )
                    body.results[k] = "assign", name, value

    def tables(self) -> None:
        done: set[str] = set()
        while len(done) < len(self.shared.tables):
            name = next(n for n in self.shared.tables if n not in done)
            done.add(name)
            self.bodies.attempt(lambda name=name: self._table(name))  # type: ignore[misc]

    def _table(self, name: str) -> None:
        use = self.shared.tables[name]
        run = Execution(self.shared, f"table_{name}")
        self.bodies.blocks[f"grid_{name}"] = Body(
            [("grid", "low", use.low), ("grid", "high", use.high)]
        )
        if use.made:
            return
        if use.rows:
            column = row_of(run, use.rows, self.graph.symbol("_x"))
            self.bodies.blocks[f"table_{name}"] = Body([("column", "0", column)])
            return
        value = run.executed(use.block, [self.graph.symbol("_x")], use.block.line)
        columns = [value] if use.block.sort == "FUNCTION" else [run.value(k) for k in use.columns]
        if constants := self._values_before_table(
            use, {key for node in columns for key in node.free}
        ):
            columns = self.graph.replaced(columns, constants)
        results = [("column", str(k), e) for k, e in enumerate(columns)]
        self.bodies.blocks[f"table_{name}"] = Body(results, loops=run.loops)

    def _values_before_table(self, use: TableUse, keys: set[str]) -> dict[Node, Node]:
        writes = [b.writes.keys() for n, b in self.bodies.blocks.items() if n != "initial"]
        later = {key for keys in writes for key in keys}
        initial = self.bodies.blocks.get("initial", Body())
        ever = later.union(initial.writes)
        shared = {k for k in self.names.elements.keys() - ever if self.names.is_global(k)}
        constants = initial.writes if use.initial_values is None else use.initial_values
        return {
            self.graph.symbol(key): node
            for key, node in constants.items()
            if key in keys - later - set(use.columns)
            and all(k in shared for k in node.free - {"celsius"})
        }


def split_solves(body: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
    """Split statements into SOLVE statements and all others; return both lists.

    A SOLVE in an IF is in the first list: NEURON executes it whatever the condition.
    """
    solves, others = list[Statement](), list[Statement]()
    for s in body:
        if s.kind == "solve":
            solves.append(s)
        elif s.kind == "if":
            parts = [split_solves(block) for block in s.blocks]
            solves += [one for inner, _ in parts for one in inner]
            others.append(replace(s, blocks=[rest for _, rest in parts]))
        else:
            others.append(s)
    return solves, others


def _nested(run: Execution, s: Statement) -> None:
    block = run.file.blocks.get(str(s.names[0]))
    if run.is_in_call and block is not None and block.sort == "LINEAR":
        solve(run, s)
        return
    raise refuse("mod.solve-in-loop", s.line, name=s.names[0])
