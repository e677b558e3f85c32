"""KINETIC blocks by ``METHOD sparse``: implicit Euler for reactions, as nocmodl writes it.

The matrix has the fluxes' derivatives with respect to states; rates count as constant. A CONSERVE
replaces the row of its last state that no later CONSERVE has replaced. Linear reactions need one
solve; other reactions iterate until the changes add up to 1e-6, and states below 0 are set to 0.
LONGITUDINAL_DIFFUSION is separate: NEURON solves it after all mechanisms have advanced, with the
volumes and coefficients at that time (`diffusing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir.elimination import Entries, solved
from clhines.simulator.mechanisms.ir.expressions import Graph, Node
from clhines.simulator.mechanisms.nmodl.execute import Execution
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    Block,
    Expression,
    Statement,
    all_of,
    refuse,
)
from clhines.simulator.mechanisms.nmodl.values import Rules

TURNS = 22
STEADY = 10**9  # NEURON's dt for STEADYSTATE
RESTARTS, NEGATIVE = 7, Fraction(-1, 10**6)  # first turns; they restart if a state is below this
MAX_STATES = 200

Terms = Sequence[tuple[Fraction, Expression]]
Change = Callable[[dict[str, Node], dict[str, Node]], tuple[dict[str, Node], bool]]


class _Reactions:
    """A KINETIC block's linear equations for an implicit step; the states are `rows`."""

    def __init__(self, run: Execution, block: Block, rows: Sequence[str]) -> None:
        self.run, self.graph, self.rows = run, run.graph, rows
        self.matrix, self.right, self.linear = Entries(), dict[str, Node](), True
        self.volumes: dict[str, Node] = {}
        self.owners = _conserved(run, block)
        self.place = len(self.owners)
        self.block, self.guard = block, run.guard

    def gathered(self, now: dict[str, Node], old: dict[str, Node], dt: Node) -> _Reactions:
        """Gather the equations for the states' changes, starting from their values `now`.

        `old` has the states before the step, whose length is `dt`.
        """
        run, graph = self.run, self.graph
        for key, value in now.items():
            run.values[key] = value
        self._find_volumes()
        owned = set(self.owners)
        for key in self.rows:
            if key not in owned:
                volume = self.volumes.get(key, graph.one)
                self.matrix[key] = {key: volume / dt}
                self.right[key] = -((now[key] - old[key]) * volume / dt)
        rules: Rules = {"reaction": self._reaction, "conserve": self._conserve}
        rules |= dict.fromkeys(("compartment", "diffuse"), lambda s: None)
        with run.scope(rules):
            for name in ("f_flux", "b_flux"):
                run.new_local(name)
            run.body(self.block.body)
        return self

    def _find_volumes(self) -> None:
        for s in all_of(self.block.body, "compartment"):
            for one in s.names[1]:
                if one not in self.run.file.states:
                    continue  # NEURON accepts undeclared names
                for k, key in enumerate(self.run.names.all_elements(one)):
                    volume = _of_element(self.run, s, k)
                    self.volumes[key] = self.graph.local(f"{key}_volume", volume)

    def _state(self, e: Expression, line: int) -> tuple[str, bool]:
        key = self.run.key(str(e[1]), self.run.index(e[2]), line)
        return key, key in self.rows

    def _reaction(self, s: Statement) -> None:
        sign, left, right = s.names
        graph, run = self.graph, self.run
        rates = [run.expression(e) for e in s.values]
        if sign == "<<":
            self._set_fluxes(graph.zero, rates[0])
            inside = run.guard is not self.guard  # an IF: added where its branch is taken
            added = graph.where(run.guard, rates[0], graph.zero) if inside else rates[0]
            for number, e in left:
                key, is_row = self._state(e, s.line)
                if is_row:
                    self._add(key, graph.number(number) * added)
            return
        self._check_always(s)
        forward, by_left = self._flux(left, rates[0], s.line)
        slopes, back = [by_left], graph.zero
        if sign == "<->":
            back, by_right = self._flux(right, rates[1], s.line)
            slopes.append(by_right)
        forward, back = graph.local("_flux", forward), graph.local("_flux", back)
        self._set_fluxes(forward, back)
        net = graph.local("_net", forward - back)
        for side_terms, direction in ((left, -1), (right, 1)):
            for number, e in side_terms:
                key, is_row = self._state(e, s.line)
                if not is_row:
                    continue
                count = number * direction
                self._add(key, graph.number(count) * net)
                for side, sign_of in zip(slopes, (1, -1), strict=False):
                    for other, by in side.items():
                        self._entry(key, other, graph.number(-count * sign_of) * by)

    def _check_always(self, s: Statement) -> None:
        if self.run.guard is not self.guard:
            what = "CONSERVE" if s.kind == "conserve" else "a reaction with '<->' or '->'"
            raise refuse("mod.reaction-in-if", s.line, what=what)

    def _set_fluxes(self, forward: Node, back: Node) -> None:
        for name, value in (("f_flux", forward), ("b_flux", back)):
            self.run.values[self.run.key(name, None, 0)] = value

    def _flux(self, terms: Terms, rate: Node, line: int) -> tuple[Node, dict[str, Node]]:
        graph = self.graph
        factors: list[tuple[Node, Fraction, str, bool]] = []
        for number, e in terms:
            key, is_row = self._state(e, line)
            factors.append((self.run.read(str(e[1]), self.run.index(e[2])), number, key, is_row))
        if sum(number for _, number, _, is_row in factors if is_row) > 1:
            self.linear = False
        flux = graph.mul([rate, *(x ** graph.number(n) for x, n, _, _ in factors)])
        slopes: dict[str, Node] = {}
        for k, (x, number, key, is_row) in enumerate(factors):
            if is_row:
                others = [y ** graph.number(m) for j, (y, m, _, _) in enumerate(factors) if j != k]
                inner = graph.number(number) * x ** graph.number(number - 1)
                slope = graph.mul([rate, inner, *others])
                slopes[key] = slopes[key] + slope if key in slopes else slope
        return flux, {key: graph.local("_slope", e) for key, e in slopes.items()}

    def _add(self, key: str, value: Node) -> None:
        if key in self.right and key not in self.owners:
            self.right[key] = self.right[key] + value

    def _entry(self, row: str, column: str, value: Node) -> None:
        if row not in self.owners:
            entries = self.matrix[row]
            entries[column] = entries[column] + value if column in entries else value

    def _conserve(self, s: Statement) -> None:
        graph = self.graph
        self._check_always(s)
        self.place -= 1
        owner = self.owners[self.place]
        total = self.run.expression(s.values[0])
        entries: dict[str, Node] = {}
        for number, e in s.names[0]:
            for key in _elements(self.run, e, s.line):
                share = graph.number(number) * self.volumes.get(key, graph.one)
                total = total - share * self.run.value(key)
                entries[key] = entries[key] + share if key in entries else share
        self.matrix[owner] = entries
        self.right[owner] = total


def _of_element(run: Execution, s: Statement, k: int) -> Node:
    with run.scope():
        if s.names[0]:
            run.values[run.new_local(str(s.names[0]))] = run.graph.number(k)
        return run.expression(s.values[0])


def diffusing(run: Execution) -> list[tuple[str, str, Node]]:
    """Return results ``volume`` and ``diffusion`` for each state that diffuses along the cell."""
    contributions = dict[str, list[tuple[str, str, Node]]]()
    for block in run.file.blocks.values():
        if block.sort != "KINETIC":
            continue
        compartments = dict[str, Statement]()
        for s in all_of(block.body, "diffuse"):
            if all(s is not other for other in block.body):
                raise refuse("mod.diffusion-in-if", s.line)
        for s in block.body:
            for name in s.names[1] if s.kind in ("compartment", "diffuse") else ():
                if s.kind == "compartment":
                    compartments.setdefault(name, s)  # NEURON takes the first
                    continue
                of = f"LONGITUDINAL_DIFFUSION of '{name}'"
                if name not in compartments:
                    raise refuse("mod.diffusion-without-compartment", s.line, of=of)
                if name not in run.file.states:
                    raise refuse("mod.diffusion-of-no-state", s.line, of=of)
                keys = run.names.all_elements(name)
                if {*keys} & {*contributions}:
                    raise refuse("mod.second-diffusion", s.line, of=of)
                for k, key in enumerate(keys):
                    each = ("volume", compartments[name]), ("diffusion", s)
                    contributions[key] = [(role, key, _of_element(run, of, k)) for role, of in each]
                run.line = s.line
    results = [result for of_key in contributions.values() for result in of_key]
    if contributions:
        _check_diffusing(run, [*contributions], [node for _, _, node in results])
    return results


def _check_diffusing(run: Execution, keys: list[str], nodes: list[Node]) -> None:
    """Refuse volumes and diffusion coefficients, `nodes`, that use variables set in a step."""
    of = "LONGITUDINAL_DIFFUSION"
    if run.file.kind != "density":
        raise refuse("mod.diffusion-in-kind", run.line, of=of, kind=run.file.kind)
    if run.writes or run.drew or run.sent:
        raise refuse("mod.diffusion-sets", run.line, of=of)
    changing = {*keys, *run.file.ion_variables, "v", "t", "dt", *run.file.pointers}
    wrong = sorted(changing & {name for node in nodes for name in node.free})
    if wrong:
        shown = run.names.public.get(wrong[0], wrong[0])
        raise refuse("mod.diffusion-depends", run.line, of=of, shown=shown)


def _elements(run: Execution, e: Expression, line: int) -> list[str]:
    variable = run.names.variable(str(e[1]))
    if variable is not None and variable.length and e[2] is None:
        return run.names.all_elements(variable.name)
    return [run.key(str(e[1]), run.index(e[2]), line)]


def _conserved(run: Execution, block: Block) -> list[str]:
    """Return the states whose equations CONSERVE statements replace, the last statement's first."""
    replaced: list[str] = []
    for s in reversed(all_of(block.body, "conserve")):
        keys: list[str] = []
        for _, e in s.names[0]:
            if e[1] not in run.file.states:
                raise refuse("mod.conserve-no-state", s.line, e=e[1])
            keys += _elements(run, e, s.line)
        free = [key for key in keys if key not in replaced]
        if not free:
            raise refuse("mod.conserve-again", s.line)
        replaced.append(free[-1])
    return replaced


def _rows(run: Execution, block: Block) -> list[str]:
    keys: dict[str, None] = {}
    named: list[str] = []
    for s in all_of(block.body, "reaction"):
        named += [str(e[1]) for side in s.names[1:] for _, e in side]
    for s in all_of(block.body, "conserve"):
        named += [str(e[1]) for _, e in s.names[0]]
    for name in named:
        if name in run.file.states:
            keys |= dict.fromkeys(run.names.all_elements(name))
    if not keys:
        raise refuse("mod.kinetic-without-states", block.line, name=block.name)
    if len(keys) > MAX_STATES:
        raise refuse("mod.kinetic-states", block.line, count=len(keys), most=MAX_STATES)
    return list(keys)


def sparse(run: Execution, block: Block, steady: bool) -> None:
    """Advance a KINETIC block's states by one step, or to the steady state."""
    rows, graph = _rows(run, block), run.graph
    dt = graph.number(STEADY) if steady else run.read("dt")
    if steady:
        run.overrides["dt"] = dt
    old = {key: run.value(key) for key in rows}

    def change(now: dict[str, Node], before: dict[str, Node]) -> tuple[dict[str, Node], bool]:
        with run.trial():
            reactions = _Reactions(run, block, rows).gathered(now, before, dt)
            late.update({key: run.values[key] for key in late})
        for key, entries in reactions.matrix.items():
            if entries.get(key, graph.zero) is graph.zero:
                raise refuse("mod.kinetic-no-equation", key=key)
        return solved(reactions.matrix, reactions.right, graph.local), reactions.linear

    def system() -> Iterator[Node]:
        reactions = _Reactions(run, block, rows).gathered(old, old, graph.one)
        for row in (reactions.right, *reactions.matrix.values()):
            yield from row.values()

    late = {key: after for key, (_, after) in run.late(system).items()}
    step, linear = change(old, old)
    if late and steady:
        shown = run.names.public.get(next(iter(late)), next(iter(late)))
        raise refuse("mod.steadystate-set-after-use", block.line, name=block.name, shown=shown)
    if linear and not steady:
        new = {key: old[key] + step[key] for key in rows}
    elif steady:
        new = _steady(run, rows, old, change, linear)
    else:
        new = _iterated(run, rows, old, change, late)
    for key, value in new.items():
        run.set(key, value)
    kept = {key: run.values[key] for key in rows}
    # sets variables as NEURON's last two executions do; the last one sees what the other has set
    for at in (old if linear and not steady else kept, kept):
        _Reactions(run, block, rows).gathered(at, at, graph.one)
    run.values |= kept
    if steady:
        del run.overrides["dt"]
    else:
        extrapolate(run, {key: kept[key] - old[key] for key in rows})


def extrapolate(run: Execution, steps: dict[str, Node]) -> None:
    """With `secondorder`, which halves the step, add the states' changes once more.

    `steps` has by name each state's change in the half step, which has been added already.
    """
    if run.shared.secondorder and run.where == "advance":
        for key, step in steps.items():
            run.set(key, run.value(key) + step)


def _iterated(
    run: Execution, rows: Sequence[str], old: dict[str, Node], change: Change, late: dict[str, Node]
) -> dict[str, Node]:
    """Solve a step's equations by iteration from `old`; return the values by variable.

    The first result of ``change(now, old)`` is each state's change in an iteration that begins at
    `now`. `late` has variables of which an iteration uses the preceding iteration's values.
    """
    graph, keys = run.graph, [*rows, *late]
    starts = [*(old[key] for key in rows), *(run.value(key) for key in late)]
    loop = run.open_loop(keys, starts, TURNS)
    now = {key: graph.symbol(name) for key, name in zip(keys, loop.names, strict=True)}
    step, _ = change(now, old)
    new = {key: graph.local(f"{key}_next", now[key] + step[key]) for key in rows}
    loop.values = [*(_positive(graph, new[key]) for key in rows), *late.values()]
    error = graph.add([graph.call("abs", step[key]) for key in rows])
    loop.go_on = graph.less(graph.symbol("_bound_sum"), error)
    again = (value - now[key] for key, value in late.items())
    loop.equations = [*(step[key] for key in rows), *again]
    return dict(zip(keys, run.close_loop(loop), strict=True))


def _positive(graph: Graph, x: Node) -> Node:
    return graph.where(graph.less(x, graph.zero), graph.zero, x)


def _steady(
    run: Execution, rows: Sequence[str], old: dict[str, Node], change: Change, linear: bool
) -> dict[str, Node]:
    """Return expressions for the steady states of `rows`, by a loop over steps of 1e9 ms.

    The loop begins with the values `old`. The first result of `change` is each state's change in a
    step. `linear`: a step's equations are linear. At first, negative states restart at 0.
    """
    graph = run.graph
    keys = [*rows, *(f"{key}_from" for key in rows), "iterates"]
    starts = [*(old[key] for key in rows)] * 2 + [graph.number(int(linear))]
    loop = run.open_loop(keys, starts, TURNS + RESTARTS)
    symbols = [graph.symbol(name) for name in loop.names]
    now = dict(zip(rows, symbols, strict=False))
    start = dict(zip(rows, symbols[len(rows) :], strict=False))
    iterates = graph.less(graph.zero, symbols[-1])
    step, _ = change(now, start)
    new = {key: graph.local(f"{key}_next", now[key] + step[key]) for key in rows}
    below = {key: graph.less(new[key], graph.number(NEGATIVE)) for key in rows}
    any_below = graph.zero
    for one in below.values():
        any_below = graph.where(one, graph.one, any_below)
    any_below = graph.local("_below", any_below)
    cut = {key: graph.where(below[key], graph.zero, new[key]) for key in rows}
    states = {key: graph.where(iterates, _positive(graph, new[key]), cut[key]) for key in rows}
    froms = {key: graph.where(iterates, start[key], cut[key]) for key in rows}
    error = graph.add([graph.call("abs", step[key]) for key in rows])
    ready = graph.where(graph.less(graph.zero, any_below), graph.zero, graph.one)
    loop.values = [*states.values(), *froms.values(), graph.where(iterates, graph.one, ready)]
    more = graph.less(graph.symbol("_bound_sum"), error)
    loop.go_on = graph.less(graph.zero, graph.where(iterates, more, graph.one))
    if linear:  # all turns begin with the old states
        begin = {symbol: old[key] for key, symbol in zip(rows, symbols[len(rows) :], strict=False)}
        loop.equations = graph.replaced([step[key] for key in rows], begin)
    return dict(zip(rows, run.close_loop(loop), strict=False))
