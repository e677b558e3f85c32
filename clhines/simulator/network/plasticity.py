"""Plasticity rules, written as texts: how spikes change weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from clhines.core.checks import as_number, shown
from clhines.core.errors import InputError, meant
from clhines.simulator.mechanisms.text.rules import SIDES, WEIGHT, RuleText, read_rule

_FORGOTTEN = 2.0**-64  # a trace that has decayed to this fraction counts as 0
_LONGEST = 1 << 25  # steps in a decay table
RULES = {
    "stdp": """
        rule stdp                     # by pairs of spikes, all with all
        parameter a_plus = 0.01
        parameter a_minus = 0.01
        parameter tau_plus = 20 ms
        parameter tau_minus = 20 ms
        parameter w_min = 0
        parameter w_max = 1
        pre trace x
        dx/dt = -x/tau_plus
        post trace y
        dy/dt = -y/tau_minus
        on pre: w -= a_minus*y; x += 1
        on post: w += a_plus*x; y += 1
        bounds: w_min <= w <= w_max
    """,
    "triplet": """
        rule triplet                  # Pfister and Gerstner 2006; visual cortex, all with all
        parameter a2_plus = 5e-10
        parameter a3_plus = 6.2e-3
        parameter a2_minus = 7e-3
        parameter a3_minus = 2.3e-4
        parameter tau_plus = 16.8 ms
        parameter tau_x = 101 ms
        parameter tau_minus = 33.7 ms
        parameter tau_y = 125 ms
        parameter w_min = 0
        parameter w_max = 1
        pre trace r1
        dr1/dt = -r1/tau_plus
        pre trace r2
        dr2/dt = -r2/tau_x
        post trace o1
        do1/dt = -o1/tau_minus
        post trace o2
        do2/dt = -o2/tau_y
        on pre: w -= o1*(a2_minus + a3_minus*r2); r1 += 1; r2 += 1
        on post: w += r1*(a2_plus + a3_plus*o2); o1 += 1; o2 += 1
        bounds: w_min <= w <= w_max
    """,
    "dopamine": """
        rule dopamine                 # Izhikevich 2007: c is eligible, d is dopamine
        parameter a_plus = 0.1
        parameter a_minus = 0.15
        parameter tau_plus = 20 ms
        parameter tau_minus = 20 ms
        parameter tau_c = 1000 ms
        parameter tau_d = 200 ms
        parameter rate = 0.001        # of w, per ms
        parameter w_min = 0
        parameter w_max = 4
        pre trace x
        dx/dt = -x/tau_plus
        post trace y
        dy/dt = -y/tau_minus
        synapse trace c
        dc/dt = -c/tau_c
        synapse trace d
        dd/dt = -d/tau_d
        dw/dt = rate*c*d
        on pre: c -= a_minus*y; x += 1
        on post: c += a_plus*x; y += 1
        on reward: d += reward
        bounds: w_min <= w <= w_max
    """,
}


class Rule:
    """A plasticity rule: how spikes change a connection's weight `w`.

    Parameters
    ----------
    text : str
        The rule, or the name of a built-in one: ``stdp`` (pairs, as `STDP`), ``triplet`` (Pfister
        and Gerstner 2006) or ``dopamine`` (reward-modulated, Izhikevich 2007).
    **parameters : float
        Replace defaults of the text, in its units.

    Attributes
    ----------
    text : str
    parameters : mapping of str to float
    w_min, w_max : float
        Bounds of the weights.

    Notes
    -----
    A text begins with ``rule NAME``. Its statements, one per line, in any order:

    ``parameter NAME = NUMBER UNIT``
        The unit is optional.
    ``pre trace NAME``, ``post trace NAME``, ``synapse trace NAME``
        A variable for the presynaptic cell, the postsynaptic cell, or the connection; initially 0.
    ``dNAME/dt = -NAME/TAU``
        Decay between events; `TAU` consists of parameters and numbers.
    ``on pre: ACTION; ...``, ``on post: ACTION; ...``
        Actions at a presynaptic or postsynaptic spike, in order: ``w += ...`` (or ``-=``, ``*=``,
        ``/=``, ``=``), or the same for a trace of the spiking cell or the connection. A cell's
        connections share its traces, so these may depend only on traces of the same cell; `w` and
        connections' traces may depend on everything.
    ``on reward: ACTION; ...``
        What `Simulation.reward` does to each connection; its argument is ``reward``.
    ``dw/dt = c*d``
        Change between events: a product of the connection's traces and parameters, integrated
        exactly.
    ``bounds: LOW <= w <= HIGH``
        Parameters or numbers; `w` is clipped after each change.

    Order in each step: ``on pre`` for connections from each spiking cell, with the values before
    this step's spikes; delivery with the new weights; ``on post`` for connections to each spiking
    cell. A cell's traces change after its connections.
    """

    text: str
    parameters: Mapping[str, float]
    w_min: float
    w_max: float

    def __init__(self, text: str, /, **parameters: float) -> None:
        if not isinstance(text, str):
            raise InputError(f"rule is {type(text).__name__}; expected a text")
        name = text.strip()
        if name.isidentifier() and name not in RULES:
            expected = ", ".join(RULES) + meant(name, RULES)
            raise InputError(f"unknown rule {shown(name)}; expected one of {expected}")
        about = read_rule(RULES.get(name, text))
        numbers = {p.name: p.default for p in about.parameters}
        units = {p.name: p.unit or None for p in about.parameters}
        for name, value in parameters.items():
            if name not in numbers:
                expected = f"known are {', '.join(numbers)}{meant(name, numbers)}"
                raise InputError(f"rule {about.name}: unknown parameter {shown(name)}; {expected}")
            numbers[name] = as_number(name, value, units[name])
        low, high = (numbers.get(limit.source, limit.default) for limit in about.limits)
        if low > high:
            a, b = (limit.source for limit in about.limits)
            raise InputError(f"{a} is {low}, above {b}, {high}")
        values = {"text": about.text, "parameters": MappingProxyType(numbers), "about": about}
        vars(self).update(values, times=about.times(numbers), w_min=low, w_max=high)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: a rule cannot change; expected a new one")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __repr__(self) -> str:
        parameters = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"Rule({self.text!r}{parameters})"

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}={value:g}" for name, value in self.parameters.items())
        return f"{self.about.name}({parameters})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and Rule.__repr__(self) == Rule.__repr__(other)

    def __hash__(self) -> int:
        return hash(Rule.__repr__(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Rule, self.text, **self.parameters), ()

    about: RuleText
    times: Mapping[str, float]  # the traces' time constants, ms

    @cached_property
    def kept(self) -> dict[str, tuple[str, ...]]:
        """Each side's trace names: ``pre``, ``post`` and ``synapse``."""
        traces = self.about.traces
        return {side: tuple(n for n, line in traces.items() if line.sort == side) for side in SIDES}

    def not_finite(self) -> InputError:
        """Return the error to raise if a weight or a trace is infinite or NaN."""
        return InputError(
            f"rule {self.about.name}: a weight or a trace is no finite number any more; expected "
            "actions that never divide by 0 and let no trace grow without bounds"
        )

    def max_weight(self, connections: Any, plastic: bool | np.ndarray = True) -> np.ndarray:
        """Return each weight's largest possible magnitude, (k,) float64.

        `plastic`, (k,) bool or one for all, selects the connections that the rule changes.
        """
        bound = max(abs(self.w_min), abs(self.w_max))
        return np.where(plastic, bound, np.abs(connections.weight))

    @staticmethod
    def decay(tau: float, dt: float) -> np.ndarray:
        """Return exp(-t / tau) after 0, 1, 2, ... steps, up to the first that counts as 0."""
        return np.exp(np.arange(_length(tau, dt)) * (-dt / tau))

    def decays(self, dt: float) -> list[np.ndarray]:
        """Return each trace's table `decay`.

        For a rule with ``dw/dt`` a last table has the integral of the product's decay over 0, 1, 2,
        ... steps, ms: tau (1 - exp(-t / tau)). Beyond its end it is constant.
        """
        tables = [self.decay(tau, dt) for name, tau in self.times.items() if name != WEIGHT]
        if WEIGHT in self.times:
            tau = self.times[WEIGHT]
            tables.append(-tau * np.expm1(np.arange(_length(tau, dt)) * (-dt / tau)))
        return tables


@dataclass(frozen=True, eq=False)
class Course:
    """Advance a rule's weights and traces, in steps of `dt`, ms."""

    rule: Rule
    dt: float

    @cached_property
    def _decays(self) -> dict[str, np.ndarray]:
        return dict(zip(self.rule.times, self.rule.decays(self.dt), strict=True))

    @cached_property
    def constants(self) -> dict[str, Any]:
        numbers = np.array([*self.rule.parameters.values()])
        return {"value": numbers, "least": self.rule.w_min, "most": self.rule.w_max}

    def left(self, name: str, value: np.ndarray, steps: np.ndarray) -> np.ndarray:
        decay = np.append(self._decays[name], 0.0)
        return value * decay[np.clip(steps, 0, len(decay) - 1)]

    def settle(self, values: dict[str, Any], steps: np.ndarray) -> None:
        """Advance connections' weights and traces by `steps`, (m,), without an event."""
        steps = np.maximum(steps, 0)
        if WEIGHT in self._decays:
            time = self._decays[WEIGHT]
            self.rule.about.grow(values, time[np.minimum(steps, len(time) - 1)])
        for name in self.rule.kept["synapse"]:
            values[f"{name}_"] = self.left(name, values[f"{name}_"], steps)


def _length(tau: float, dt: float) -> int:
    """Return the length of a trace's decay table: the steps of `dt` until the trace counts as 0."""
    steps = -math.log(_FORGOTTEN) * tau / dt
    if steps > _LONGEST:
        most = -_LONGEST / math.log(_FORGOTTEN) * dt
        raise InputError(
            f"rule: a trace decays in {tau:g} ms, which is too long for steps of {dt:g} ms; "
            f"expected {most:g} ms or less"
        )
    return math.ceil(steps) + 1


class STDP(Rule):
    """Pair-based STDP, all spikes with all; the same as ``Rule("stdp", ...)``.

    In each step, in this order:

    1. For each presynaptic spike, each of its connections: ``w -= a_minus * y``. y is the sum over
       earlier postsynaptic spikes, t ago, of ``exp(-t / tau_minus)``.
    2. The spikes are delivered with the new weights.
    3. For each postsynaptic spike, each connection to the cell: ``w += a_plus * x``. x is the sum
       over presynaptic spikes, including this step's, of ``exp(-t / tau_plus)``.

    After each change, w is clipped to `w_min` and `w_max`.

    Attributes
    ----------
    a_plus, a_minus : float
        In the unit of the weights.
    tau_plus, tau_minus : float, ms
    w_min, w_max : float
        Finite bounds of the weights.
    """

    def __init__(
        self,
        a_plus: float,
        a_minus: float,
        tau_plus: float = 20.0,
        tau_minus: float = 20.0,
        w_min: float = 0.0,
        w_max: float = 1.0,
    ) -> None:
        taus = {"tau_plus": tau_plus, "tau_minus": tau_minus}
        for name, tau in taus.items():
            if (number := as_number(name, tau, "ms")) <= 0:
                raise InputError(f"{name} is {number} ms; expected more than 0")
        super().__init__("stdp", a_plus=a_plus, a_minus=a_minus, **taus, w_min=w_min, w_max=w_max)
        vars(self).update(self.parameters)

    a_plus: float
    a_minus: float
    tau_plus: float
    tau_minus: float

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"STDP({values})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(STDP, **self.parameters), ()
