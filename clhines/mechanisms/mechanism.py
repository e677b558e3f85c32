"""`Mechanism`: a channel, synapse or clamp from its equations as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import cleandoc
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.errors import InputError, meant
from clhines.mechanisms import generated
from clhines.mechanisms.builtin import BUILT_IN
from clhines.mechanisms.described import Described
from clhines.mechanisms.ir.program import Argument, Program, program_of
from clhines.mechanisms.nmodl.model import (
    Nmodl,
    calls_of,
    described,
    functions_of,
    model_of,
    twin_of,
)
from clhines.mechanisms.nmodl.model import read as read_nmodl
from clhines.mechanisms.text import meaning
from clhines.mechanisms.text.equations import Equations, Scope
from clhines.mechanisms.text.parser import shortened
from clhines.quantities import as_numbers


@dataclass(frozen=True, repr=False)
class Mechanism(Described):
    """A channel, synapse or clamp, from its equations as text.

    One statement a line, in any order after the first; ``#`` begins a comment, and a statement goes
    on to the next line while a bracket is open::

        density NAME                         # or: point NAME
        parameter g = 0.1 mS/cm2             # default and unit
        alpha = 0.1*(v + 40)/(1 - exp(-(v + 40)/10))     # a name for an expression
        state m = alpha/(alpha + beta)       # initial value, of v and parameters
        dm/dt = alpha*(1 - m) - beta*m       # a state without this line changes by events only
        current i = g*m^3*(v - e) [mA/cm2]   # outward; several add up
        on event: m += weight                # also = -= *= /=; several with ;
        method sparse                        # or derivimplicit, euler, rk2 (midpoint), rk4
        substeps 4                           # of each time step

    Given are ``v`` [mV], ``t`` and ``dt`` [ms], ``pi``; in a current ``noise``, in an event
    ``weight``. ``noise`` is white noise of intensity 1 [ms^-1/2]: in each step and instance a
    normal number of variance 1, divided by ``sqrt(dt)``; so what it does to the voltage does not
    depend on ``dt`` (``noise*sqrt(dt)`` is the number itself). Functions: exp log sqrt sin cos tan
    sinh cosh tanh abs min max where(condition, a, b); powers ``^``; comparisons (1 or 0), and, or,
    not.

    A number or an expression with a unit is converted to NEURON's unit of its dimension
    (`clhines.mechanisms.text.units`), in which everything is computed: ``120 mS/cm2`` is 0.12.
    Without a unit it counts as it is, and so do numbers that are passed as parameters later.
    Currents are in mA/cm2 (density) or nA (point) or multiples; a rate's unit, if it has one, is
    that of its state per time. Literals are exact decimals; a number beyond the precision is
    refused.

    **One step.** The statements are executed from top to bottom, as NEURON does, after the
    voltage is solved for. A state whose rate is linear in the state itself takes exponential
    Euler (NEURON's cnexp) and has its new value for what stands below. Names have the value of
    their place (one that is used above its line, that of its use); ``t`` in rates is the end of
    the step. A current in a rate is the one of before the voltage solve. States that are not
    linear in themselves, or that depend on each other in a circle, need a method, which takes
    them together where the first of them stands: ``sparse`` (implicit Euler; rates linear in
    these states), ``derivimplicit`` (implicit Euler by Newton's iteration; where it does not
    converge the states become NaN, which ends a simulation with an error) or, at the values of
    the begin of the step, ``euler``, ``rk2``, ``rk4``. With ``all`` after it the method takes
    all states. The right sides of an event's actions use the values before it; events of one
    instance in the same step act once, with the sum of their weights.

    A quotient like ``x/(exp(x) - 1)`` is finite and correct to rounding at its singular point.

    Parameters
    ----------
    text : str
        The text is all there is to a mechanism: equal texts are equal mechanisms.

    Raises
    ------
    InputError
        The text is wrong; the message names the line and the symbol.
    """

    text: str
    nmodl: Nmodl | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"a mechanism is a text; got {type(self.text).__name__}")
        if self.nmodl is None:
            object.__setattr__(self, "text", cleandoc(self.text).strip() + "\n")
        self.program  # noqa: B018  (a wrong text is refused here)

    @classmethod
    def from_nmodl(
        cls,
        text_or_path: str | Path,
        *,
        path: str = "",
        use_tables: bool = True,
        secondorder: bool = False,
    ) -> Mechanism:
        """Return the mechanism of an NMODL file (``.mod``), which does what NEURON does with it.

        Parameters
        ----------
        text_or_path : str or pathlib.Path
            A text of several lines, or the path of a file.
        path : str
            Of a text: what messages call it, and where files that it includes are.
        use_tables : bool
            Whether TABLE statements count, as with NEURON's ``usetable_NAME = 1``.
        secondorder : bool
            Whether ``SOLVE`` by derivimplicit, sparse, euler and runge takes half a step and
            extrapolates, as with NEURON's ``secondorder`` of 1 or 2.

        Raises
        ------
        NmodlError
            An `InputError` whose `rejections` list everything that cannot be simulated, with line
            and, where there is one, the way out.
        """
        return cls(*read_nmodl(text_or_path, path, use_tables, secondorder))

    def __repr__(self) -> str:
        return f"<{self.kind} mechanism {self.name}: parameters {', '.join(self.parameters)}>"

    def __reduce__(self) -> tuple[type[Mechanism], tuple[str, Nmodl | None]]:
        return Mechanism, (self.text, self.nmodl)

    @property
    def _own(self) -> str:
        """The text, where it is none of NMODL."""
        if self.nmodl is not None:
            raise InputError(f"mechanism {self.name} is of NMODL; use calls(), twin(), functions()")
        return self.text

    @property
    def _equations(self) -> Equations:
        return meaning.known(self._own)

    # ---------------------------------------------------------------------------- what it is

    @cached_property
    def program(self) -> Program:
        """What executors see of it."""
        if self.nmodl is not None:
            return model_of(self.text, self.nmodl).program
        return program_of(meaning.known(self.text))

    def calls(self, block: str, outputs: Sequence[str] = ()) -> tuple[Argument, ...]:
        """Return the arguments of the function of a block, in order.

        `outputs`, of NMODL, are variables that functions give beside the states; `functions` and
        `twin` take the same.
        """
        if self.nmodl is not None:
            return calls_of(self.text, self.nmodl, block, tuple(outputs))
        return self.program.calls(block)

    def twin(self, block: str, outputs: Sequence[str] = ()) -> generated.Twin:
        """Return the NumPy function of a block: inputs in order to a tuple of results in order."""
        if self.nmodl is not None:
            return twin_of(self.text, self.nmodl, tuple(outputs), block)
        return generated.twins(self.text)["event" if block == "receive" else block]

    def function_name(self, block: str) -> str:
        """Return the name of the OpenCL function of a block of `program`."""
        event = block == "receive" and self.nmodl is None
        return f"{self.name}_{'event' if event else block}"

    @cached_property
    def _current_uses(self) -> frozenset[str]:
        return frozenset(self._equations.current(Scope(self._equations)).free)

    @cached_property
    def initial_uses(self) -> frozenset[str]:
        """Parameters on which the states at the start depend; of NMODL all."""
        if self.nmodl is not None:
            return frozenset(self.parameters)
        scope = Scope(self._equations)
        found = {n for e in self._equations.initial.values() for n in scope.expression(e).free}
        return frozenset(found & {*self.parameters})

    @property
    def uses_noise(self) -> bool:
        """Whether the current takes a normal number."""
        if self.nmodl is not None:
            return False
        return "noise" in self._current_uses

    @cached_property
    def uses_time(self) -> bool:
        """Whether the current or a rate depends on t."""
        if self.nmodl is not None:
            steps = [b for b in ("current", "advance") if b in self.program.blocks]
            return any(a.role == "t" for b in steps for a in self.calls(b))
        e = self._equations
        scope = Scope(e)
        rates = (scope.expression(rate) for rate in e.rates.values())
        return "t" in self._current_uses or any(rate.uses("t") for rate in rates)

    @cached_property
    def constant(self) -> bool:
        """Whether i is linear in v with coefficients that depend on parameters only."""
        return self.nmodl is None and meaning.is_constant(self._equations)

    def describe(self) -> str:
        """Return a few lines: kind, parameters with defaults and units, states with methods."""
        if self.nmodl is not None:
            return described(self.text, self.nmodl)
        e = self._equations
        lines = [f"{self.name}: {self.kind} mechanism"]
        for q in e.parameters:
            lines.append(f"  parameter {q.name} = {q.default:g} {q.unit}".rstrip())
        for q in e.states:
            how = "exponential Euler" if q.name in e.rates else "changed by events only"
            if q.name in e.stepped:
                how = e.method
                if len(e.stepped) > 1:
                    others = ", ".join(s for s in e.stepped if s != q.name)
                    how += f" together with {shortened(others)}"
            lines.append(f"  state {q.name}{f' [{q.unit}]' if q.unit else ''}: {how}")
        lines.append(f"  currents: {', '.join(e.currents)}")
        if e.uses_currents:
            lines.append("  rates take the currents of before the voltage solve")
        if e.substeps > 1:
            lines.append(f"  substeps: {e.substeps}")
        if self.takes_events:
            lines.append(f"  an event changes: {', '.join(a.state for a in e.actions)}")
        return "\n".join(lines)

    # -------------------------------------------------------------------------- OpenCL source

    def functions(
        self, real: str, outputs: Sequence[str] = (), blocks: Sequence[str] | None = None
    ) -> str:
        """Return its OpenCL functions, for a kernel that has ``typedef ... real``.

        Parameters
        ----------
        real : str
            ``double`` or ``float``: the precision of the literals.
        outputs : sequence of str, optional
            As of `calls`.
        blocks : sequence of str, optional
            Of NMODL, those that are needed; all without.

        Returns
        -------
        str
            Static functions ``NAME_initial``, ``NAME_current``, with states ``NAME_advance``, with
            an event action ``NAME_event``, for a mechanism called NAME. Their arguments: v (mV)
            and, but for ``initial``, t and dt (ms), or the weight; the parameters, the states (by
            pointer where they are set), the normal number if `uses_noise`, then pointers to
            results. The t of ``current`` is taken as it is; that of ``advance`` is the begin of
            the step, whose last voltage is v. Of an NMODL mechanism: ``NAME_block`` for each block
            of `program`, with the arguments of `calls`.
        """
        if real not in ("double", "float"):
            raise InputError(f"real is {real!r}; expected 'double' or 'float'")
        if self.nmodl is not None:
            some = None if blocks is None else tuple(blocks)
            return functions_of(self.text, self.nmodl, real, tuple(outputs), some)
        return generated.source(self.text, real)

    def grouped(self, real: str, width: int, single: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return its OpenCL functions for groups of instances, and the names of constants.

        Parameters
        ----------
        real : str
            As in `functions`.
        width : int, 1, 2, 4, 8 or 16
            Instances of a group: the source uses a type ``realWIDTH`` beside ``real``.
        single : sequence of str
            Parameters that are one number for all instances. What is expensive and depends on these
            and the step alone is worked out once, by ``NAME_constants``.

        Returns
        -------
        str
            Static functions, for a mechanism called NAME: ``NAME_constants``, where there are any,
            of dt and the single parameters; ``NAME_event`` as in `functions`; then
            ``NAME_current`` and, with states, ``NAME_advance``, whose voltages, states, normal
            numbers, results and parameters that are not single are vectors, and which take the
            constants after the parameters. Their names begin with ``NAME__vWIDTH`` if `width` is
            not 1.
        tuple of str
            The constants, in order.
        """
        if self.nmodl is not None:
            raise InputError(
                f"mechanism {self.name} is of NMODL, whose functions take one instance"
            )
        if real not in ("double", "float"):
            raise InputError(f"real is {real!r}; expected 'double' or 'float'")
        return generated.grouped_source(self.text, real, width, tuple(single))

    @property
    def source(self) -> str:
        """Its functions in double precision, to read."""
        return self.functions("double")

    # ----------------------------------------------------------------------------- NumPy twins

    def initial(
        self, v: ArrayLike, params: Mapping[str, ArrayLike] | None = None
    ) -> dict[str, np.ndarray]:
        """Return the states at the start.

        Parameters
        ----------
        v : array_like, mV
        params : mapping of str to array_like, optional
            Parameters by name; defaults for the others.

        Raises
        ------
        InputError
            The mechanism is of NMODL: see `twin`, which `current`, `advance` and `event` say, too.
        """
        v, params = as_numbers("v", v, "mV"), self._without_units(params)  # type: ignore[assignment]
        values = generated.call(self._own, "initial", v, *generated.parameters(self._own, params))
        return generated.named_states(self._own, values, v)

    def _without_units(self, given: Mapping[str, ArrayLike] | None) -> dict[str, ArrayLike] | None:
        """Return parameters or states in their units."""
        if given is None:
            return None
        units = self.units
        return {k: as_numbers(k, x, units.get(k)) for k, x in given.items()}  # type: ignore[misc]

    def current(
        self,
        v: ArrayLike,
        t: float,
        params: Mapping[str, ArrayLike] | None = None,
        states: Mapping[str, ArrayLike] | None = None,
        noise: ArrayLike | None = None,
        dt: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return i and g = di/dv: mA/cm2 and S/cm2 (density), or nA and uS (point).

        `noise` are normal numbers of variance 1, one per instance; where the current uses noise or
        ``dt``, the step `dt` is needed.
        """
        if dt is None and self._current_uses & {"dt", "noise"}:
            raise InputError(f"mechanism {self.name} needs noise and dt, or dt, for its current")
        more: list[ArrayLike] = []
        if self.uses_noise:
            if noise is None:
                raise InputError(f"mechanism {self.name} needs noise, one number per instance")
            more = [as_numbers("noise", noise)]  # type: ignore[list-item]
        step: Any = np.nan if dt is None else as_numbers("dt", dt, "ms")
        v, t = as_numbers("v", v, "mV"), as_numbers("t", t, "ms")  # type: ignore[assignment]
        given = generated.inputs(self._own, *map(self._without_units, (params, states)))
        i, g = generated.call(self._own, "current", v, t, step, *given, *more)
        shape = np.broadcast(np.asarray(v), np.asarray(i), np.asarray(g)).shape
        return np.broadcast_to(i, shape).copy(), np.broadcast_to(g, shape).copy()

    def advance(
        self,
        v: ArrayLike,
        t: float,
        dt: float,
        params: Mapping[str, ArrayLike] | None,
        states: Mapping[str, ArrayLike],
    ) -> dict[str, np.ndarray]:
        """Return the states at t + dt, of those at t; v is the voltage at t + dt.

        Where rates have currents, the last state is the voltage at t.
        """
        if not self.states:
            return {}
        v, t = as_numbers("v", v, "mV"), as_numbers("t", t, "ms")  # type: ignore[assignment]
        dt = as_numbers("dt", dt, "ms")  # type: ignore[assignment]
        given = generated.inputs(self._own, *map(self._without_units, (params, states)))
        values = generated.call(self._own, "advance", v, t, dt, *given)
        return generated.named_states(self._own, values, v)

    def event(
        self,
        weight: ArrayLike,
        params: Mapping[str, ArrayLike] | None,
        states: Mapping[str, ArrayLike],
    ) -> dict[str, np.ndarray]:
        """Return the states after an event of this (summed) weight."""
        if not self.takes_events:
            raise InputError(f"mechanism {self.name} takes no events")
        weight = as_numbers("weight", weight)  # type: ignore[assignment]
        given = generated.inputs(self._own, *map(self._without_units, (params, states)))
        values = generated.call(self._own, "event", weight, *given)
        return dict(zip(self.states, map(np.asarray, values), strict=True))


def mechanism(which: str | Mechanism) -> Mechanism:
    """Return a mechanism from a built-in's name, a text, or itself.

    Raises
    ------
    InputError
        A single word that is no built-in's name, or a wrong text.
    """
    if isinstance(which, Mechanism):
        return which
    if not isinstance(which, str):
        raise InputError(f"a mechanism is a name or a text; got {type(which).__name__}")
    if which.strip() in BUILT_IN:
        return Mechanism(BUILT_IN[which.strip()])
    if len(which.split()) <= 1:
        raise InputError(
            f"unknown mechanism '{which.strip()}'; built in are {', '.join(BUILT_IN)}; "
            f"anything else is given by its equations{meant(which, BUILT_IN)}"
        )
    return Mechanism(which)
