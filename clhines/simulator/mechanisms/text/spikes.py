"""Spikes in a text: threshold, reset, and refractory time.

If v is above the threshold after a step, there is a spike. In the next steps the current moves v to
its reset value and holds it there during the refractory time. So kernels need no code for spikes,
and records show v above the threshold in the step of the spike.
"""

from __future__ import annotations

from fractions import Fraction

from clhines.simulator.common import units
from clhines.simulator.mechanisms.ir.compiled import NEVER
from clhines.simulator.mechanisms.ir.exact import ExpressionError
from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.ir.program import CAPACITANCE, HELD, HELD_STEPS, HIDDEN, Spike
from clhines.simulator.mechanisms.text.parser import shortened
from clhines.simulator.mechanisms.text.propagator import exact_current
from clhines.simulator.mechanisms.text.reader import Equations
from clhines.simulator.mechanisms.text.scope import Scope

_STIFF = Fraction(2**50)  # conductance that holds v, over the capacitance per step


def check_spike(eq: Equations) -> None:
    """Check the statements ``spike:``, ``reset:`` and ``refractory:``, and set `eq.spike`."""
    if not eq.spiking:
        return
    for key, other in (("spike", "reset"), ("reset", "spike"), ("refractory", "spike")):
        if key in eq.spiking and other not in eq.spiking:
            raise eq.fail(eq.spiking[key], f"'{key}:' needs a line '{other}: ...'")
    if CAPACITANCE in eq.defined:
        problem = f"'{CAPACITANCE}' is the node's where a text has 'spike:'"
        raise eq.fail(eq.defined[CAPACITANCE], problem)
    expected = {"spike": "mV", "reset": "mV", "refractory": "ms"}
    eq.spike = Spike(*(_constant(eq, key, unit) for key, unit in expected.items()))


def _constant(eq: Equations, key: str, unit: str) -> str | float:
    """Return the value of statement `key`: a parameter's name, or a number in `unit`, or 0."""
    line = eq.spiking.get(key)
    if line is None:
        return 0.0
    parameter = eq.of_sort("parameter").get(line.source)
    if parameter is None:
        try:
            eq.number(line)
        except ExpressionError as error:
            got = f"'{key}:' has '{shortened(line.source)}' for its {unit}"
            raise eq.fail(line, f"{got}; expected a parameter or a number") from error
    line_unit = (parameter or line).unit
    if line_unit and line_unit.dimension != units.parse(unit).dimension:
        raise eq.fail(
            line, f"'{key}:' is in '{line_unit.text}'; expected {unit} or a multiple of it"
        )
    return line.default if parameter is None else parameter.name


def _value(eq: Equations, value: str | float) -> Node:
    graph = eq.graph
    return graph.symbol(value) if isinstance(value, str) else graph.number(Fraction(value))


def _fired(eq: Equations, values: dict[str, Node]) -> tuple[Node, dict[str, Node]]:
    """Return whether v is above the threshold, and `values`, the states, reset in this case."""
    assert eq.spike is not None
    graph, v = eq.graph, eq.graph.symbol("v")
    now = {name: graph.local(f"_{name}_then", values[name]) for name in eq.states}
    scope = Scope(eq, now)
    fired = graph.less(_value(eq, eq.spike.threshold), v)
    after = {n: a.acted(now[n], scope.expression(a.value)) for n, a in eq.resets.items()}
    after = {n: graph.where(fired, new, now[n]) for n, new in after.items()}
    if eq.keeps_v:
        after[HIDDEN] = graph.where(fired, _value(eq, eq.spike.reset), values[HIDDEN])
    return fired, values | after


def begun(eq: Equations, values: dict[str, Node]) -> dict[str, Node]:
    """Return the initial states `values`; reset them if v is above the threshold."""
    if eq.spike is None:
        return values
    fired, after = _fired(eq, values)
    return after | {HELD: eq.graph.where(fired, eq.graph.one, eq.graph.zero)}


def advanced(eq: Equations, values: dict[str, Node]) -> dict[str, Node]:
    """Return the states after a step: `values`, which are reset if v is above the threshold.

    Also count the steps for which the spike holds v.
    """
    if eq.spike is None:
        return values
    graph, one, zero = eq.graph, eq.graph.one, eq.graph.zero
    held = graph.symbol(HELD)
    fired, after = _fired(eq, values)
    first = graph.where(graph.less(zero, held), graph.symbol(NEVER), one)
    more = graph.both(graph.less(zero, held), graph.less(held, held_steps(eq)))
    return after | {HELD: graph.where(fired, first, graph.where(more, held + one, zero))}


def held_steps(eq: Equations) -> Node:
    """Return the refractory time in steps: 0, or the symbol of a number that the host computes."""
    assert eq.spike is not None
    return eq.graph.zero if eq.spike.refractory == 0.0 else eq.graph.symbol(HELD_STEPS)


def current(eq: Equations, i: Node) -> tuple[Node, Node, Node]:
    """Return the current, its slope, and the current to record, of statements that compute `i`.

    While a spike holds v, the current moves v to the reset value; the record has the statements'
    current at the reset value. At other times a negative slope counts as 0, as an exponential has
    near the threshold: with it, v would turn back in a long implicit step.
    """
    graph = eq.graph
    g = graph.slope(i, "v")
    if eq.spike is None:
        return i, g, i
    v, reset, held = graph.symbol("v"), _value(eq, eq.spike.reset), graph.symbol(HELD)
    if eq.method == "exact":
        i, g = exact_current(eq)
    else:
        g = graph.where(graph.less(g, graph.zero), graph.zero, g)
    share = graph.symbol(CAPACITANCE) / graph.symbol("dt")
    stiff, at_reset = graph.number(_STIFF) * share, graph.replaced([i, g], {v: reset})
    holds = graph.less(graph.one, held_steps(eq), or_equal=True)
    # the first current moves v to the reset, the second holds it there; if HELD is infinite, v
    # becomes NaN
    moving = graph.where(holds, stiff, share + at_reset[1]) * held
    i_moving = moving * (v - reset) + graph.where(holds, graph.zero, at_reset[0])
    slope = graph.where(holds, moving, at_reset[1])
    busy = graph.less(graph.zero, held)
    recorded = graph.where(busy, at_reset[0], i)
    return graph.where(busy, i_moving, i), graph.where(busy, slope, g), recorded
