"""Read the statements in a mechanism's text; `Mechanism` describes the language."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from clhines.simulator.common import units
from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.ir.program import (
    CAPACITANCE,
    HELD,
    HELD_STEPS,
    HIDDEN,
    IonUse,
    Quantity,
    Spike,
)
from clhines.simulator.mechanisms.text.statements import (
    NAME,
    NAMES,
    RESERVED,
    Line,
    TextStatements,
    canonical,
    near_keyword,
)

KEYWORDS = ("parameter", "state", "current", "ion", "method", "density", "point")
CURRENT_UNITS = {"density": "mA/cm2", "point": "nA"}
# ion variables, each with the statement by which a text sets it; empty: read only
ION_NAMES = {"e{}": "", "{}i": "state", "{}o": "state", "i{}": "current"}


@dataclass
class Equations(TextStatements):
    """A mechanism's equations: assignments to names in the text's order.

    In expressions a name is a symbol, which `Scope` replaces by the name's value.
    """

    what: ClassVar[str] = "mechanism"
    kinds: ClassVar[tuple[str, ...]] = ("density", "point")
    predefined: ClassVar[set[str]] = NAMES
    keywords: ClassVar[tuple[str, ...]] = KEYWORDS
    states: dict[str, Line] = field(default_factory=dict)
    currents: dict[str, Line] = field(default_factory=dict)
    events: dict[str, Line] = field(default_factory=dict)  # an event's actions by state
    spiking: dict[str, Line] = field(default_factory=dict)  # spike, reset v, refractory
    resets: dict[str, Line] = field(default_factory=dict)  # a reset's actions by state
    spike: Spike | None = None
    ions: dict[str, Line] = field(default_factory=dict)  # by name
    settings: dict[str, Line] = field(default_factory=dict)  # by keyword
    method: str = ""
    stepped: tuple[str, ...] = ()  # states that the method advances, in the order of their rates
    uses_currents: bool = False  # whether a rate depends on a current before the voltage solve
    is_noisy: bool = False  # whether a rate has noise
    keeps_v: bool = False  # whether states depend on the voltage at the begin of the step
    plain: dict[Node, Node] = field(default_factory=dict)  # `remove_singularities`' results

    @cached_property
    def written(self) -> dict[str, Node]:
        """The expressions that the text assigns to names and currents, by name."""
        return {line.name: line.value for line in self.ordered if line.sort != "rate"}

    @cached_property
    def parameters(self) -> tuple[Quantity, ...]:
        """The parameters that a text declares, then those that its spikes need."""
        added = [CAPACITANCE] * bool(self.spiking) + [HELD_STEPS] * ("refractory" in self.spiking)
        return (*super().parameters, *(Quantity(name, "") for name in added))

    @property
    def kept(self) -> tuple[Quantity, ...]:
        """All states in an instance; states without a declaration are last."""
        states = {name: line for name, line in self.states.items() if name not in self.outside}
        quantities = [Quantity(name, canonical(line)) for name, line in states.items()]
        quantities += [Quantity(HELD, "")] * bool(self.spiking)
        return (*quantities, *[Quantity(HIDDEN, "mV")] * self.keeps_v)

    @cached_property
    def outside(self) -> dict[str, str]:
        """The ion variables' names, each with the statement by which the text sets it, or ""."""
        return {n.format(ion): sort for ion in self.ions for n, sort in ION_NAMES.items()}

    @cached_property
    def ion_uses(self) -> tuple[IonUse, ...]:
        """The variables of each ion that are read and set; all lines must have been parsed."""
        lines = (*self.ordered, *self.states.values())
        used = {name for line in lines for name in line.value.free}
        uses = []
        for ion, line in self.ions.items():
            names = [n.format(ion) for n in ION_NAMES]
            reads = tuple(n for n in names if n in used and n not in self.defined)
            writes = tuple(n for n in names if n in self.defined)
            uses.append(IonUse(ion, line.default if line.source else None, reads, writes))
        return tuple(uses)

    def read(self) -> None:
        self._sort(_STATEMENTS, _EXPECTED)
        self.states, self.currents = self.of_sort("state"), self.of_sort("current")

    def define(self, line: Line, sort: str | None, name: str, source: str) -> None:
        """Read ``NAME = EXPRESSION``, which may begin with parameter, state or current."""
        if not sort and name in KEYWORDS:
            raise self.fail(
                line, f"'{name}' is a keyword; expected a name after it, as in '{name} x = ...'"
            )
        super().define(line, sort, name, source)
        if sort == "current" and line.unit:
            expected = CURRENT_UNITS[self.kind]
            if line.unit.dimension != units.parse(expected).dimension:
                raise self.fail(
                    line,
                    f"current '{name}' is in '{line.unit.text}'; expected {expected} or a multiple "
                    f"of it in a {self.kind} mechanism",
                )
        if sort in ("current", None):
            self.ordered.append(line)

    def no_value(self, line: Line, name: str) -> None:
        raise self.fail(line, f"state '{name}' has no initial value; expected 'state {name} = ...'")

    def event(self, line: Line, actions: str) -> None:
        """Read ``on event: NAME += EXPRESSION; ...``."""
        self._actions(line, actions, "event", self.events)

    def spikes(self, line: Line, key: str, source: str) -> None:
        """Read ``spike: v > X``, ``reset: v = X; NAME += ...`` or ``refractory: X``."""
        line.sort = line.name = key
        self._once(self.spiking, line)
        if key == "spike":
            match = re.fullmatch(r"\s*v\s*>(?!=)(.*)", source, re.S)
            if not match:
                raise self.fail(line, "expected 'spike: v > X', X a parameter or a number")
            source = match.group(1)
        elif key == "reset":
            self._actions(line, source, "reset", self.resets)
            reset = self.resets.pop("v", None)
            if reset is None or reset.sign:
                raise self.fail(line, "expected 'reset: v = X', X a parameter or a number")
            source = reset.source
        self._take(line, source)

    def ion(self, line: Line, name: str, valence: str | None) -> None:
        """Read ``ion NAME`` or ``ion NAME valence NUMBER``."""
        line.sort, line.name, line.source = "ion", name, valence or ""
        self._once(self.ions, line)
        self._check_name(line, name)
        line.default = float(valence or 0)
        names = [n.format(ion) for ion in self.ions for n in ION_NAMES]
        if len({*names}) < len(names) or not RESERVED.isdisjoint(names):
            shown = ", ".join(names[-len(ION_NAMES) :])
            raise self.fail(line, f"one of {shown} has a meaning already; expected another ion")

    def setting(self, line: Line, key: str, value: str) -> None:
        """Read a setting such as ``method NAME``: `key` is ``method``, `value` is NAME."""
        line.sort, line.name, line.source = key, key, value
        self._once(self.settings, line)

    def check_unused(self, used: set[str]) -> None:
        """Refuse a name that is not in `used` and that looks like a misspelt keyword."""
        for name, line in self.of_sort("name").items():
            near = near_keyword(name, KEYWORDS) if name not in used else ""
            if near:
                problem = f"'{name}' is used nowhere; did you mean the keyword '{near}'?"
                raise self.fail(line, problem)


_EXPECTED = (
    "expected 'parameter NAME = NUMBER UNIT', 'state NAME = ...', 'dNAME/dt = ...', "
    "'current NAME = ...', 'NAME = ...', 'ion NAME', 'on event: NAME += ...', 'spike: v > ...', "
    "'reset: v = ...', 'refractory: ...' or 'method ...'"
)
_STATEMENTS: list[tuple[str, Callable[..., None]]] = [
    (rf"(?:(parameter|state|current)\s+)?({NAME})\s*=(?!=)(.*)", Equations.define),
    (rf"state\s+({NAME})\s*", Equations.no_value),
    (rf"d({NAME})\s*/\s*dt\s*=(?!=)(.*)", Equations.rate),
    (r"on\s+event\s*:(.*)", Equations.event),
    (rf"ion\s+({NAME})(?:\s+valence\s+([-+]?[0-9]{{1,2}}))?", Equations.ion),
    (r"(spike|reset|refractory)\s*:(.*)", Equations.spikes),
    (r"(method)\s+([^=]*)", Equations.setting),
]
