"""Plasticity rules: traces that decay, and actions at spikes and rewards.

`simulator.network.plasticity.Rule` describes the statements. A trace belongs to a connection
(``synapse``), or all connections with the same source (``pre``) or the same postsynaptic cell
(``post``) share it. Between events the solution is exact: traces decay exponentially, and the
weight grows with a product of the connection's traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from inspect import cleandoc
from typing import Any, ClassVar

import numpy as np

from clhines.core.errors import InputError, meant
from clhines.simulator.mechanisms.emit.printer import Printer
from clhines.simulator.mechanisms.ir.exact import ExpressionError
from clhines.simulator.mechanisms.ir.expressions import Graph, Node
from clhines.simulator.mechanisms.ir.forms import linear_parts
from clhines.simulator.mechanisms.text.checks import MAX_STATES, MAX_TEXT
from clhines.simulator.mechanisms.text.parser import shortened
from clhines.simulator.mechanisms.text.statements import NAME, Line, TextStatements

WEIGHT, REWARD = "w", "reward"
SIDES = ("pre", "post", "synapse")
_OWNERS = {"pre": "the source", "post": "the postsynaptic cell", "synapse": "the connection"}


@dataclass
class RuleText(TextStatements):
    """A rule's statements: parameters, traces with their rates, actions at events, bounds."""

    what: ClassVar[str] = "rule"
    kinds: ClassVar[tuple[str, ...]] = ("rule",)
    predefined: ClassVar[set[str]] = {WEIGHT, REWARD}
    keywords: ClassVar[tuple[str, ...]] = ("parameter", "bounds")
    # no pass removes 0/0: quotients are rounded as written
    graph: Graph = field(default_factory=partial(Graph, multiplies_out=False))
    actions: dict[str, dict[str, Line]] = field(default_factory=dict)  # by event, then target
    limits: tuple[Line, ...] = ()

    def read(self) -> None:
        """Read and check the text; an InputError has the line."""
        if len(self.text) > MAX_TEXT:
            raise InputError(f"the rule's text has {len(self.text)} letters; at most {MAX_TEXT}")
        self._sort(_STATEMENTS, _EXPECTED)  # type: ignore[arg-type]
        acting = (action for of in self.actions.values() for action in of.values())
        for line in (*self.rates.values(), *acting):
            self.parse(line)
        for name, line in self.rates.items():
            self._check_rate(name, line)
        for name, line in self.traces.items():
            if name not in self.rates:
                raise self.fail(line, f"'{name}' has no line 'd{name}/dt = -{name}/TAU'")
        for event, actions in self.actions.items():
            for line in actions.values():
                self._check_action(event, line)
        if not self.limits:
            raise InputError(f"rule {self.name} has no line 'bounds: LOW <= w <= HIGH'")
        if self.growth is None and not any(WEIGHT in of for of in self.actions.values()):
            raise InputError(f"rule {self.name} changes no weight; expected 'on pre: w += ...'")

    def trace(self, line: Line, side: str, name: str) -> None:
        """Read ``SIDE trace NAME``."""
        self.define(line, side, name, "0")
        if len(self.defined) > MAX_STATES:
            raise self.fail(line, f"more than {MAX_STATES} names")

    def on(self, line: Line, event: str, actions: str) -> None:
        if event in self.actions:
            raise self.fail(line, f"'on {event}:' is given twice; expected one line for each event")
        self._actions(line, actions, event, self.actions.setdefault(event, {}))

    def bound(self, line: Line, low: str, high: str) -> None:
        """Read ``bounds: LOW <= w <= HIGH``; both bounds are parameters or numbers."""
        if self.limits:
            raise self.fail(
                line, f"'bounds:' is given twice, first in line {self.limits[0].number}"
            )
        bounds = []
        for source in (low, high):
            one = Line(line.number, line.text, "bounds", "bounds")
            self._take(one, source)
            if one.source not in self.of_sort("parameter"):
                try:
                    self.number(one)
                except ExpressionError as error:
                    got = f"'bounds:' has '{shortened(one.source)}'"
                    raise self.fail(line, f"{got}; expected a parameter or a number") from error
            bounds.append(one)
        self.limits = tuple(bounds)

    def _check_rate(self, name: str, line: Line) -> None:
        parameters = {*self.of_sort("parameter")}
        if name == WEIGHT:
            if self.growing is None:
                raise self.fail(
                    line,
                    "'dw/dt' is no product of the connection's own traces and of parameters; "
                    "expected 'dw/dt = c*d', c and d declared by 'synapse trace'",
                )
            return
        if name not in self.traces:
            hint = f"expected a line 'pre trace {name}', or of post or synapse"
            raise self.fail(line, f"'{shortened(name)}' is no trace; {hint}")
        parts = linear_parts(line.value, name)
        good = parts is not None and parts[0] is self.graph.zero and parts[1].free <= parameters
        if not good:
            raise self.fail(
                line,
                f"'d{name}/dt' is no decay of {name} alone; expected 'd{name}/dt = -{name}/TAU', "
                "TAU a parameter or a number",
            )

    def _check_action(self, event: str, line: Line) -> None:
        name, traces = line.name, self.traces
        sides = {"pre": ("pre", "synapse"), "post": ("post", "synapse"), REWARD: ("synapse",)}[
            event
        ]
        if name in self.of_sort("parameter"):
            raise self.fail(line, f"'{name}' is a parameter, which 'on {event}:' cannot change")
        if name != WEIGHT and name not in traces:
            raise self.fail(
                line, f"'{shortened(name)}' is no trace; expected w or a trace{meant(name, traces)}"
            )
        side = "synapse" if name == WEIGHT else traces[name].sort
        if side not in sides:
            raise self.fail(
                line, f"'on {event}:' cannot change '{name}', a trace of {_OWNERS[side]}"
            )
        if REWARD in line.value.free and event != REWARD:
            raise self.fail(line, f"'reward' is known in 'on reward:', not in 'on {event}:'")
        for used in sorted(line.value.free - {REWARD, *self.of_sort("parameter")}):
            of = "synapse" if used == WEIGHT else traces[used].sort
            if side != "synapse" and of != side:
                raise self.fail(
                    line,
                    f"'{name}' is one trace for all connections of {_OWNERS[side]}; it cannot "
                    f"depend on '{used}', of {_OWNERS[of]}",
                )
            if event == REWARD and of != "synapse":
                raise self.fail(
                    line, f"'on reward:' does not know '{used}', a trace of {_OWNERS[of]}"
                )

    @cached_property
    def traces(self) -> dict[str, Line]:
        """Traces by name: of sources, of postsynaptic cells, then of connections."""
        return {name: line for side in SIDES for name, line in self.of_sort(side).items()}

    @property
    def growing(self) -> tuple[str, ...] | None:
        """The factors' names if ``dw/dt`` is a product of a connection's traces, else None."""
        product = self.rates[WEIGHT].value.definition
        factors: list[str] = []
        for factor in product.args if product.op == "mul" else (product,):
            names = factor.free & {*self.traces, WEIGHT, REWARD}
            base, power = factor.args if factor.op == "pow" else (factor, self.graph.one)
            if not names:
                continue
            is_synaptic = base.op == "symbol" and base.name in self.of_sort("synapse")
            if not is_synaptic or not power.is_number or power.value not in range(1, 9):
                return None
            factors += [base.name] * int(power.value)
        return tuple(factors) or None

    @property
    def growth(self) -> Node | None:
        """The weight's rate ``dw/dt`` between events; None if the rule does not define it."""
        return self.rates[WEIGHT].value if WEIGHT in self.rates else None

    def times(self, parameters: dict[str, float]) -> dict[str, float]:
        """Return all traces' time constants by name, ms.

        If the rule defines dw/dt, a product of traces, ``w`` is the product's time constant.
        """
        graph, rate = self.graph, dict[str, Fraction]()
        numbers = {graph.symbol(n): graph.number(Fraction(x)) for n, x in parameters.items()}
        for name in self.traces:
            line = self.rates[name]
            parts = linear_parts(line.value, name)
            assert parts is not None
            value = self.attempt(line, partial(_with_numbers, parts[1], numbers))
            if not value.is_number or value.value >= 0:
                raise self.fail(line, f"'{name}' does not decay: its rate is not below 0")
            rate[name] = -value.value
        if self.growth is not None:
            rate[WEIGHT] = sum((rate[name] for name in self.growing or ()), Fraction(0))
        return {name: float(1 / r) for name, r in rate.items()}

    def counts(self, name: str) -> bool:
        """Return whether each action on the trace `name` adds 1 to it."""
        actions = [of[name] for of in self.actions.values() if name in of]
        return all(a.sign == "+" and a.value is self.graph.one for a in actions)

    def _actions_on(self, event: str, side: str) -> list[Line]:
        """Return the actions at an event on a side's variables (weight, traces), in order.

        If these use other traces' new values, the actions on those traces come first.
        """
        wanted: set[str] = set()
        lines = []
        for line in reversed(self.actions.get(event, {}).values()):
            of = "synapse" if line.name == WEIGHT else self.traces[line.name].sort
            if of == side or line.name in wanted:
                wanted = wanted - ({line.name} if not line.sign else set()) | line.value.free
                lines.append(line)
        return lines[::-1]

    def printed(self, event: str, side: str, real: str) -> list[str]:
        """Return the actions at an event as assignments in OpenCL or NumPy, one per line.

        For the side ``synapse`` these are the actions on the weight and on the connection's traces,
        and on other traces whose new values they use; for ``pre`` or ``post`` the actions on the
        cell's traces. A trace ``x`` is printed as ``x_``, the parameters as ``value[0]`` and so on,
        and a new weight goes through ``bounded``.
        """
        assignments = []
        for line in self._actions_on(event, side):
            shown = self._shown(line.acted(self.graph.symbol(line.name), line.value), real)
            shown = f"bounded({shown}, least, most)" if line.name == WEIGHT else shown
            assignments.append(f"{line.name}_ = {shown}" + ("" if real == "numpy" else ";"))
        return assignments

    def _shown(self, value: Node, real: str) -> str:
        symbols = {name: f"{name}_" for name in (*self.traces, WEIGHT)}
        symbols |= {p.name: f"value[{k}]" for k, p in enumerate(self.parameters)}
        return Printer(f"rule {self.name}", real, symbols=symbols).show(value)

    def printed_growth(self, real: str) -> str:
        """Return the weight's rate between events as source; "" if there is none."""
        return "" if self.growth is None else self._shown(self.growth, real)

    def act(self, event: str, side: str, values: dict[str, Any]) -> None:
        """Execute the assignments that `printed` returns for `event` and `side`.

        `values` has NumPy arrays by the names in the assignments, which replace them.
        """
        _run("\n".join(self.printed(event, side, "numpy")), values)

    def grow(self, values: dict[str, Any], time: np.ndarray) -> None:
        """Advance the weight ``w_`` in `values` by a `time`, ms, without an event.

        The traces in `values` are those at the beginning.
        """
        if self.growth is not None:
            grown = f"w_ + {self.printed_growth('numpy')} * time"
            values["time"] = time
            _run(f"w_ = bounded({grown}, least, most)", values)

    def uses(self, event: str, side: str) -> set[str]:
        """Return the traces, parameters and w that `printed` uses or changes, by name."""
        lines = self._actions_on(event, side)
        return {name for line in lines for name in (line.name, *line.value.free)}


def _with_numbers(e: Node, numbers: Mapping[Node, Node]) -> Node:
    return e.graph.replaced([e], dict(numbers))[0]


def _run(source: str, values: dict[str, Any]) -> None:
    with np.errstate(all="ignore"):  # np.where computes both branches
        exec(source, {"np": np, "bounded": np.clip}, values)


@lru_cache(maxsize=64)
def read_rule(text: str) -> RuleText:
    """Read a rule; callers share the result. InputError names the line that is wrong."""
    rule = RuleText(cleandoc(text).strip() + "\n")
    rule.read()
    return rule


_EXPECTED = (
    "expected 'parameter NAME = NUMBER UNIT', 'pre trace NAME', 'post trace NAME', 'synapse trace "
    "NAME', 'dNAME/dt = -NAME/TAU', 'dw/dt = ...', 'on pre: ...', 'on post: ...', 'on reward: ...' "
    "or 'bounds: LOW <= w <= HIGH'"
)
_STATEMENTS = [
    (rf"(parameter)\s+({NAME})\s*=(?!=)(.*)", RuleText.define),
    (rf"(pre|post|synapse)\s+trace\s+({NAME})", RuleText.trace),
    (rf"d({NAME})\s*/\s*dt\s*=(?!=)(.*)", RuleText.rate),
    (r"on\s+(pre|post|reward)\s*:(.*)", RuleText.on),
    (r"bounds\s*:(.*)<=\s*w\s*<=(.*)", RuleText.bound),
]
