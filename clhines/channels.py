"""Mechanisms of the membrane from equations: channels, synapses, clamps; the built-in ones.

Also the counter-based source of normal numbers that noise takes. SymPy is imported when the first
mechanism is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import numpy as np

from clhines.errors import InputError

if TYPE_CHECKING:
    from clhines.equations import Equations

BUILT_IN = {
    "pas": """
        density pas                          # passive leak
        parameter g = 0.001 S/cm2
        parameter e = -70 mV
        current i = g*(v - e) [mA/cm2]
    """,
    "hh": """
        density hh                           # Hodgkin and Huxley 1952, squid axon; NEURON's hh
        parameter gnabar = 0.12 S/cm2
        parameter gkbar = 0.036 S/cm2
        parameter gl = 0.0003 S/cm2
        parameter el = -54.3 mV
        parameter ena = 50 mV
        parameter ek = -77 mV
        parameter celsius = 6.3 degC
        q10 = 3^((celsius - 6.3)/10)

        alpha_m = 0.1*(v + 40)/(1 - exp(-(v + 40)/10)) [1/ms]
        beta_m = 4*exp(-(v + 65)/18) [1/ms]
        state m = alpha_m/(alpha_m + beta_m)
        dm/dt = q10*(alpha_m*(1 - m) - beta_m*m)

        alpha_h = 0.07*exp(-(v + 65)/20) [1/ms]
        beta_h = 1/(exp(-(v + 35)/10) + 1) [1/ms]
        state h = alpha_h/(alpha_h + beta_h)
        dh/dt = q10*(alpha_h*(1 - h) - beta_h*h)

        alpha_n = 0.01*(v + 55)/(1 - exp(-(v + 55)/10)) [1/ms]
        beta_n = 0.125*exp(-(v + 65)/80) [1/ms]
        state n = alpha_n/(alpha_n + beta_n)
        dn/dt = q10*(alpha_n*(1 - n) - beta_n*n)

        current ina = gnabar*m^3*h*(v - ena) [mA/cm2]
        current ik = gkbar*n^4*(v - ek) [mA/cm2]
        current il = gl*(v - el) [mA/cm2]
    """,
    "expsyn": """
        point expsyn                         # conductance that jumps by the weight and decays
        parameter tau = 0.1 ms
        parameter e = 0 mV
        state g = 0 [uS]
        dg/dt = -g/tau
        current i = g*(v - e) [nA]
        on event: g += weight
    """,
    "exp2syn": """
        point exp2syn                        # rises with tau1, decays with tau2, peak = weight
        parameter tau1 = 0.1 ms
        parameter tau2 = 10 ms
        parameter e = 0 mV
        rise = max(min(tau1, 0.9999*tau2), 1e-9*tau2) [ms]
        peak = rise*tau2/(tau2 - rise)*log(tau2/rise) [ms]
        factor = 1/(exp(-peak/tau2) - exp(-peak/rise))
        state A = 0 [uS]
        state B = 0 [uS]
        dA/dt = -A/rise
        dB/dt = -B/tau2
        current i = (B - A)*(v - e) [nA]
        on event: A += weight*factor; B += weight*factor
    """,
    "iclamp": """
        point iclamp                         # current into the cell while delay <= t < delay + dur
        parameter delay = 0 ms
        parameter dur = 0 ms
        parameter amp = 0 nA
        current i = -where(delay <= t < delay + dur, amp, 0) [nA]
    """,
    "inoise": """
        point inoise                         # Gaussian current into the cell, new in each step
        parameter mean = 0 nA
        parameter std = 0 nA
        current i = -(mean + std*noise) [nA]
    """,
}


@dataclass(frozen=True, repr=False)
class Mechanism:
    """A channel, synapse or clamp, from its equations as text.

    One statement a line, in any order after the first; ``#`` begins a comment, and a statement goes
    on to the next line while a bracket is open::

        density NAME                         # or: point NAME
        parameter g = 1e-4 S/cm2             # default and unit
        alpha = 0.1*(v + 40)/(1 - exp(-(v + 40)/10))     # a name for an expression
        state m = alpha/(alpha + beta)       # initial value, of v and parameters
        dm/dt = alpha*(1 - m) - beta*m       # a state without this line changes by events only
        current i = g*m^3*(v - e) [mA/cm2]   # outward; several add up
        on event: m += weight                # also = -= *= /=; several with ;
        method rk4                           # euler, rk2 (midpoint) or rk4
        substeps 4                           # of each time step

    Given are ``v`` [mV], ``t`` [ms], in a current ``noise`` (one standard normal number an
    instance and step), in an event ``weight``, and ``pi``. Functions: exp log sqrt sin cos tan sinh
    cosh tanh abs min max where(condition, a, b); powers ``^``; comparisons (1 or 0), and, or, not.
    A density mechanism's current is in mA/cm2, a point mechanism's in nA. Units are those of NEURON
    and are checked by name; nothing is converted. Literals count as exact decimals.

    A state whose rate is linear in the state itself is integrated by exponential Euler (NEURON's
    cnexp), with the other states as they were; every other state by the method named, or all states
    with ``method rk4 all``. The right sides of an event's actions use the values before it; events
    of one instance in the same step act once, with the sum of their weights.
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

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"a mechanism is a text; got {type(self.text).__name__}")
        object.__setattr__(self, "text", cleandoc(self.text).strip() + "\n")
        self._equations  # noqa: B018  (a wrong text is refused here)

    def __repr__(self) -> str:
        return f"<{self.kind} mechanism {self.name}: parameters {', '.join(self.parameters)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Mechanism, (self.text,)

    @property
    def _equations(self) -> Equations:
        from clhines import equations  # SymPy is slow to import and not always needed

        return equations.read(self.text)

    # ---------------------------------------------------------------------------- what it is

    @property
    def name(self) -> str:
        """Its name, also that of its functions."""
        return self._equations.name

    @property
    def kind(self) -> str:
        """``density`` or ``point``."""
        return self._equations.kind

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in order."""
        return tuple(q.name for q in self._equations.parameters)

    @property
    def defaults(self) -> dict[str, float]:
        """Value of each parameter where the user gives none."""
        return {q.name: q.default for q in self._equations.parameters}

    @property
    def units(self) -> dict[str, str]:
        """Unit of each parameter and state as written, empty where none is."""
        return {q.name: q.unit for q in (*self._equations.parameters, *self._equations.states)}

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states, in order."""
        return tuple(q.name for q in self._equations.states)

    @property
    def takes_events(self) -> bool:
        """Whether it has an event action."""
        return bool(self._equations.events)

    @cached_property
    def uses_noise(self) -> bool:
        """Whether the current takes a normal number."""
        from clhines import emit

        return emit.uses(self._equations.current, "noise")

    @cached_property
    def uses_time(self) -> bool:
        """Whether the current or a rate depends on t."""
        from clhines import emit

        e = self._equations
        return any(emit.uses(x, "t") for x in (e.current, *e.rates.values()))

    @cached_property
    def constant(self) -> bool:
        """Whether i is linear in v with coefficients that depend on parameters only."""
        from clhines import emit

        return emit.is_constant(self._equations)

    def describe(self) -> str:
        """Return a few lines: kind, parameters with defaults and units, states with methods."""
        e = self._equations
        lines = [f"{self.name}: {self.kind} mechanism"]
        for q in e.parameters:
            lines.append(f"  parameter {q.name} = {q.default:g} {q.unit}".rstrip())
        stepped = tuple(e.rates) if e.method_for_all else e.nonlinear
        for q in e.states:
            how = "exponential Euler" if q.name in e.rates else "changed by events only"
            how = e.method if q.name in stepped else how
            lines.append(f"  state {q.name}{f' [{q.unit}]' if q.unit else ''}: {how}")
        lines.append(f"  currents: {', '.join(e.currents)}")
        if e.substeps > 1:
            lines.append(f"  substeps: {e.substeps}")
        if self.takes_events:
            lines.append(f"  an event changes: {', '.join(e.events)}")
        return "\n".join(lines)

    # -------------------------------------------------------------------------- OpenCL source

    def functions(self, real: str) -> str:
        """Return its OpenCL functions, for a kernel that has ``typedef ... real``.

        Parameters
        ----------
        real : str
            ``double`` or ``float``: the precision of the literals.

        Returns
        -------
        str
            Static functions ``NAME_initial``, ``NAME_current``, with states ``NAME_advance``, with
            an event action ``NAME_event``, for a mechanism called NAME. Their arguments: v (mV),
            t, dt (ms) or the weight, the parameters, the states (by pointer where they are set),
            the normal number if `uses_noise`, then pointers to results. The t of ``current`` is
            taken as it is; that of ``advance`` is the begin of the step, whose last voltage is v.
        """
        if real not in ("double", "float"):
            raise InputError(f"real is {real!r}; expected 'double' or 'float'")
        return _source(self.text, real)

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
            constants after the parameters. Their names begin with ``NAME_vWIDTH`` if `width` is
            not 1.
        tuple of str
            The constants, in order.
        """
        if real not in ("double", "float"):
            raise InputError(f"real is {real!r}; expected 'double' or 'float'")
        return _grouped_source(self.text, real, width, tuple(single))

    @property
    def source(self) -> str:
        """Its functions in double precision, to read."""
        return self.functions("double")

    # ----------------------------------------------------------------------------- NumPy twins

    def initial(self, v: Any, params: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
        """Return the states at the start.

        Parameters
        ----------
        v : array_like, mV
        params : mapping of str to array_like, optional
            Parameters by name; defaults for the others.
        """
        values = self._call("initial", v, *self._values(params, v))
        return self._states(values, v)

    def current(
        self,
        v: Any,
        t: float,
        params: Mapping[str, Any] | None = None,
        states: Mapping[str, Any] | None = None,
        noise: Any = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return i and g = di/dv: mA/cm2 and S/cm2 (density), or nA and uS (point)."""
        more = []
        if self.uses_noise:
            if noise is None:
                raise InputError(f"mechanism {self.name} needs noise, one number an instance")
            more = [noise]
        i, g = self._call("current", v, t, *self._values(params, v), *self._old(states), *more)
        shape = np.broadcast(np.asarray(v), np.asarray(i), np.asarray(g)).shape
        return np.broadcast_to(i, shape).copy(), np.broadcast_to(g, shape).copy()

    def advance(
        self,
        v: Any,
        t: float,
        dt: float,
        params: Mapping[str, Any] | None,
        states: Mapping[str, Any],
    ) -> dict[str, np.ndarray]:
        """Return the states at t + dt, of those at t; v is the voltage at t + dt."""
        if not self.states:
            return {}
        values = self._call("advance", v, t, dt, *self._values(params, v), *self._old(states))
        return self._states(values, v)

    def event(
        self, weight: Any, params: Mapping[str, Any] | None, states: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Return the states after an event of this (summed) weight."""
        if not self.takes_events:
            raise InputError(f"mechanism {self.name} takes no events")
        values = self._call("event", weight, *self._values(params, weight), *self._old(states))
        changed = [s for s in self.states if s in self._equations.events]
        return {**dict(states), **dict(zip(changed, values, strict=True))}

    def _call(self, function: str, *arguments: Any) -> Any:
        with np.errstate(all="ignore"):  # np.where computes what it does not take
            return _twins(self.text)[function](*arguments)

    def _values(self, params: Mapping[str, Any] | None, like: Any) -> list[Any]:
        params = params or {}
        unknown = [name for name in params if name not in self.parameters]
        if unknown:
            raise InputError(
                f"mechanism {self.name} has no parameter '{unknown[0]}'; "
                f"it has {', '.join(self.parameters) or 'none'}"
            )
        return [params.get(name, default) for name, default in self.defaults.items()]

    def _old(self, states: Mapping[str, Any] | None) -> list[Any]:
        missing = [s for s in self.states if s not in (states or {})]
        if missing:
            raise InputError(f"mechanism {self.name}: no value of state '{missing[0]}'")
        return [states[s] for s in self.states] if states else []

    def _states(self, values: Any, v: Any) -> dict[str, np.ndarray]:
        shape = np.broadcast(np.asarray(v), *(np.asarray(x) for x in values)).shape
        return {
            s: np.broadcast_to(x, shape).copy() for s, x in zip(self.states, values, strict=True)
        }


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
            "anything else is given by its equations"
        )
    return Mechanism(which)


@lru_cache(maxsize=256)
def _source(text: str, real: str) -> str:
    from clhines import emit, equations

    return emit.Source(equations.read(text), real).text()


@lru_cache(maxsize=256)
def _grouped_source(
    text: str, real: str, width: int, single: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    from clhines import emit, equations

    return emit.Source(equations.read(text), real, width, single).parts()


@lru_cache(maxsize=256)
def _twins(text: str) -> dict[str, Callable[..., Any]]:
    """Make the NumPy twins. What is run is what `emit` printed of numbers and checked names."""
    from clhines import emit, equations

    e = equations.read(text)
    source = emit.Source(e, "numpy").text()
    space: dict[str, Any] = {"np": np}
    exec(compile(source, f"<mechanism {e.name}>", "exec"), space)
    prefix = e.name + "_"
    return {name[len(prefix) :]: f for name, f in space.items() if name.startswith(prefix)}


# ---------------------------------------------------------------------------------------- noise

_PHILOX = ((0xD2511F53, 0x9E3779B9), (0xCD9E8D57, 0xBB67AE85))  # multiplier and key's step
_TERMS, _BITS = 12, 10  # uniform numbers in a sum, and bits of each


def philox(counter: Any, key: Any) -> np.ndarray:
    """Return the four words of Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011).

    Parameters
    ----------
    counter : (4, ...) array_like of uint32
    key : (2, ...) array_like of uint32

    Returns
    -------
    (4, ...) uint32
    """
    low = np.uint64(0xFFFFFFFF)
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [np.asarray(x, np.uint64) for x in key]
    for turn in range(10):
        a, b = np.uint64(_PHILOX[0][0]) * c[0], np.uint64(_PHILOX[1][0]) * c[2]
        step = [(k[j] + np.uint64(turn * _PHILOX[j][1] & 0xFFFFFFFF)) & low for j in (0, 1)]
        high = np.uint64(32)
        c = [(b >> high) ^ c[1] ^ step[0], b & low, (a >> high) ^ c[3] ^ step[1], a & low]
    return np.stack(np.broadcast_arrays(*c)).astype(np.uint32)


def normal(seed: Any, instance: Any, step: Any) -> np.ndarray:
    """Return normal numbers that depend on nothing but these three whole numbers.

    The sum of twelve uniform numbers of ten bits (Irwin and Hall's distribution), scaled: mean 0,
    variance 1, excess kurtosis -0.1, none beyond 6. Integers up to one last product, so that every
    device gives the same numbers.

    Parameters
    ----------
    seed : int, 0 to 2**64 - 1
        Key of the generator.
    instance, step : array_like of int, 0 to 2**64 - 1
        Counter of the generator; broadcast. `instance` must differ between all that need
        independent numbers in the same step.

    Returns
    -------
    numpy.ndarray of float64
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    parts = [np.asarray(x, np.uint64) for x in (instance, step, seed)]
    words = [x for p in parts for x in (p & low, p >> half)]
    bits = philox(np.broadcast_arrays(*words[:4]), words[4:])
    total = np.zeros(bits.shape[1:], np.int64)
    for word in bits:
        for place in range(0, 30, _BITS):
            total += (word >> np.uint32(place)).astype(np.int64) & (2**_BITS - 1)
    centre = _TERMS * (2**_BITS - 1)
    return (2 * total - centre) * _normal_scale()


def _normal_scale() -> float:
    """Half of one over the standard deviation of the sum of uniform whole numbers."""
    return float(0.5 / np.sqrt(_TERMS * (4.0**_BITS - 1) / 12))


def normal_source(real: str) -> str:
    """Return OpenCL of `normal`, for a kernel that has ``typedef ... real``.

    Returns
    -------
    str
        ``static real normal(const ulong seed, const ulong instance, const ulong step)``
    """
    if real not in ("double", "float"):
        raise InputError(f"real is {real!r}; expected 'double' or 'float'")
    scale = _normal_scale()
    literal = repr(scale) if real == "double" else f"{np.float32(scale)}f"
    (m0, k0), (m1, k1) = _PHILOX
    mask = 2**_BITS - 1
    return f"""\
// ten-bit parts of a word, added
static int normal_parts(const uint word)
{{
    return (int)((word & {mask}u) + (word >> {_BITS} & {mask}u) + (word >> {2 * _BITS} & {mask}u));
}}

// one normal number: Philox4x32-10 keyed by the seed, twelve uniform numbers added
static real normal(const ulong seed, const ulong instance, const ulong step)
{{
    uint a = (uint)instance, b = (uint)(instance >> 32);
    uint c = (uint)step, d = (uint)(step >> 32);
    uint key0 = (uint)seed, key1 = (uint)(seed >> 32);
    for (int turn = 0; turn < 10; turn++) {{
        const uint high0 = mul_hi({m0:#x}u, a), low0 = {m0:#x}u * a;
        const uint high1 = mul_hi({m1:#x}u, c), low1 = {m1:#x}u * c;
        a = high1 ^ b ^ key0;
        b = low1;
        c = high0 ^ d ^ key1;
        d = low0;
        key0 += {k0:#x}u;
        key1 += {k1:#x}u;
    }}
    const int sum = normal_parts(a) + normal_parts(b) + normal_parts(c) + normal_parts(d);
    return (real)(2 * sum - {_TERMS * mask}) * {literal};
}}
"""
