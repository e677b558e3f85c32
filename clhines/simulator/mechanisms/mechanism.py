"""`Mechanism`: a channel, synapse or clamp, from its equations as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import real_numbers
from clhines.core.errors import InputError, meant, shown
from clhines.core.quantities import as_numbers
from clhines.simulator.common.checks import unchangeable
from clhines.simulator.mechanisms.builtin import BUILT_IN, NEURON_NAMES, library_names, library_text
from clhines.simulator.mechanisms.emit.functions import Functions, numpy_function
from clhines.simulator.mechanisms.ir.compiled import Compiled
from clhines.simulator.mechanisms.ir.program import Argument, Program
from clhines.simulator.mechanisms.nmodl.build import FunctionTables, Nmodl
from clhines.simulator.mechanisms.nmodl.build import read as read_nmodl
from clhines.simulator.mechanisms.text.language import Text

Values = Mapping[str, ArrayLike]
_WORDS = {  # argument names, by role, that users cannot give by name
    "t": "the time", "v": "the voltage", "dt": "the step", "table": "the table",
    "stream": "random numbers of", "drawn": "random numbers of", "weight": "several weights, as",
}  # fmt: skip
# equal mechanisms share a `Compiled` as long as one of them lives
_ALIVE: WeakValueDictionary[tuple[str, Text | Nmodl], Compiled] = WeakValueDictionary()


@unchangeable("another Mechanism, or parameters of insert() and add()")
@dataclass(frozen=True, repr=False)
class Mechanism:
    """A channel, synapse or clamp, from its equations as text.

    A line has one statement; after the first line their order is free. ``#`` begins a comment; an
    open bracket continues a statement in the next line::

        density NAME                         # or: point NAME
        parameter g = 0.1 mS/cm2             # default and unit
        alpha = 0.1*(v + 40)/(1 - exp(-(v + 40)/10))     # a name for an expression
        state m = alpha/(alpha + beta)       # initial value, of v and parameters
        dm/dt = alpha*(1 - m) - beta*m       # a state without this line changes by events only
        current i = g*m^3*(v - e) [mA/cm2]   # outward; several add up
        ion ca                               # names eca, cai, cao, ica; as below
        on event: m += weight                # also = -= *= /=; several with ;
        spike: v > v_threshold               # at a soma; a parameter or a number, as below
        reset: v = v_reset; m *= 0.5         # after a spike
        refractory: 5 ms                     # v is held where it was reset; 0 without this line
        method sparse                        # or derivimplicit, euler, rk2 (midpoint), rk4, exact

    **Names.** ``v`` [mV], ``t`` and ``dt`` [ms], ``pi``; in currents and rates ``noise``, in events
    ``weight``. Functions: exp log sqrt sin cos tan sinh cosh tanh abs min max where(condition, a,
    b); powers ``^``; comparisons (1 or 0), and, or, not. A quotient like ``x/(exp(x) - 1)`` is
    finite and correct to rounding at its singular point.

    **Noise.** ``noise`` is white noise of intensity 1 [ms^-1/2]: in each step and instance a normal
    number with variance 1, divided by ``sqrt(dt)``, so that its effect on the voltage does not
    depend on ``dt`` (``noise*sqrt(dt)`` is the number itself). A rate may have a term ``c*noise``,
    c without states, if exponential Euler advances its state. Then the step is exact (Gillespie
    1996), as for ``dx/dt = -x/tau + s*sqrt(2/tau)*noise``, an Ornstein-Uhlenbeck process with
    standard deviation s. Rates draw from a RANDOM variable ``noise`` of the instance. The random
    streams differ between instances and between copies of a network, `Network.random` changes them,
    and they do not depend on the seed of a `Simulation`.

    **Units.** A number or an expression with a unit is converted to NEURON's unit of its dimension
    (`simulator.common.units`), in which everything is computed: ``120 mS/cm2`` is 0.12. A number
    without a unit, also one that is passed as a parameter later, is not converted. Currents are in
    mA/cm2 (density) or nA (point), or in multiples; the unit of a rate is its state's unit per
    time. Literals are exact decimals; a number beyond the precision is refused.

    **One step.** After the voltage solve the statements are executed from top to bottom, as in
    NEURON. Exponential Euler (NEURON's cnexp) advances a state whose rate is linear in the state;
    lines below see the new value. A name is computed in its line, or above if it is used there. In
    rates ``t`` is the end of the step, and currents are from before the voltage solve. States that
    are not linear in themselves, or that depend on each other in a circle, need a method, which
    advances them together in the line of the first of them: ``sparse`` (implicit Euler; rates
    linear in these states), ``derivimplicit`` (implicit Euler by Newton's iteration; if it does not
    converge the states become NaN, which ends a simulation with an error) or, from values at the
    begin of the step, ``euler``, ``rk2``, ``rk4``. With ``all`` after its name the method advances
    all states. The actions of an event use the values before the event, and a reset's actions the
    values before the reset. Events that only add multiples of their weight to states act once per
    step, with the sum of their weights; other events act one by one.

    **Ions.** ``ion ca`` adds the names ``eca`` [mV], ``cai``, ``cao`` [mM] and ``ica`` of the ion
    at the instance's node, as in NEURON. ``current ica = ...`` adds to the ion's current, and
    ``state cai = ...``, with ``dcai/dt = ...``, sets the concentration, which moves the reversal
    potential. Variables that a text does not set can be read; ``ica``, in rates only, is then the
    current of all mechanisms [mA/cm2] before the voltage solve. Ions other than na, k and ca need a
    valence: ``ion zn valence 2``. If a mechanism sets a concentration that others read, insert it
    first: NEURON advances such mechanisms first.

    **Spikes.** A text with ``spike:`` and ``reset:`` stands at the soma of a cell, `Network.soma`.
    Its threshold replaces `Network.threshold`, and the cell is a source of connections like any
    other. At the end of a step, after the states, v is compared with the threshold. If it is above,
    the states are reset, and the next step begins with v at its reset value; v as recorded at the
    spike is above the threshold. With ``refractory`` v stays there for that time, in whole steps.
    In the step of a reset, currents of other mechanisms at the node are linearised at the v above
    the threshold. If the current decreases with v, as an exponential one does, it is explicit;
    ``secondorder`` is not supported. A spike in the very step after a reset ends the run. While v
    is held, the recorded current is the one that holds it, a huge one in the first step.

    **Exact steps.** In a text with ``spike:``, ``method exact`` integrates v and all states
    together, exactly between spikes and events: by the matrix exponential of the system, from
    parameters and ``dt`` (the spike response model, in which v is a sum of kernels of received
    events; Rotter and Diesmann 1999). Currents and rates must be linear in v and the states, with
    coefficients from parameters alone. A constant current of other mechanisms is exact, too; their
    other currents, and currents from neighbouring nodes, are of first order in ``dt``. A step may
    last about 30 times the shortest time constant; beyond, v is NaN, which ends a simulation with
    an error. The recorded current is the one that an implicit step needs.

    Parameters
    ----------
    text : str
        Equal texts are equal mechanisms.
    language : Text or Nmodl, optional
        Language of the text: equations by default; `from_nmodl` gives NMODL.

    Raises
    ------
    InputError
        The text is wrong; the message names the line and the symbol.
    """

    text: str
    language: Text | Nmodl = field(default_factory=Text)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"a mechanism is a text; got {type(self.text).__name__}")
        object.__setattr__(self, "text", self.language.cleaned(self.text))
        self.compiled  # noqa: B018  (a wrong text is refused here)

    @classmethod
    def from_nmodl(
        cls,
        text_or_path: str | Path,
        *,
        path: str = "",
        use_tables: bool = True,
        secondorder: bool = False,
        function_tables: FunctionTables | None = None,
    ) -> Mechanism:
        """Compile an NMODL file (``.mod``), with NEURON's meaning.

        Parameters
        ----------
        text_or_path : str or pathlib.Path
            A text of several lines, or the path of a file.
        path : str
            For a text: the file name in messages; INCLUDE files are sought in its folder.
        use_tables : bool
            Whether TABLE statements count, as with NEURON's ``usetable_NAME = 1``.
        secondorder : bool
            Whether ``SOLVE`` by derivimplicit, sparse and euler takes half a step and extrapolates,
            as with NEURON's ``secondorder`` of 1 or 2.
        function_tables : mapping of str to tuple of array_like, optional
            Table of each FUNCTION_TABLE, as for hoc's ``table_NAME``: ``(x, y)`` of shapes (n,) and
            (n,), ``(x0, x1, y)`` with y of shape (n0, n1), or a number; x in ascending order. It is
            linear between knots and constant beyond them.

        Raises
        ------
        NmodlError
            An `InputError` whose `rejections` list what is not supported, with the line and an
            alternative, if there is one.
        """
        return cls(*read_nmodl(text_or_path, path, use_tables, secondorder, function_tables))

    def __repr__(self) -> str:
        return f"<{self.kind} mechanism {self.name}: parameters {', '.join(self.parameters)}>"

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Mechanism], tuple[str, Text | Nmodl]]:
        return Mechanism, (self.text, self.language)

    @cached_property
    def compiled(self) -> Compiled:
        """The compiled text, from which functions are printed."""
        key = self.text, self.language
        return _ALIVE.get(key) or _ALIVE.setdefault(key, self.language.compiled(self.text))

    @cached_property
    def program(self) -> Program:
        """The mechanism's variables and blocks, as engines see them."""
        return self.compiled.program

    @cached_property
    def name(self) -> str:
        """The mechanism's name, with which its functions' names begin."""
        return self.program.name

    @property
    def kind(self) -> str:
        """``density``, ``point`` or, in NMODL, ``artificial``."""
        return self.program.kind

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters' names, in order."""
        return tuple(q.name for q in self.program.parameters)

    @property
    def defaults(self) -> dict[str, float]:
        """The parameters' defaults by name."""
        return dict(self.program.defaults)

    @property
    def begins(self) -> dict[str, float]:
        """The values that states have before INITIAL, by name, if users may set these values.

        These states are NMODL PARAMETERs and ASSIGNED variables that blocks write.
        """
        return dict(self.program.begins)

    @property
    def settable(self) -> dict[str, float]:
        """Defaults of parameters and, for states that users may set, initial values, by name."""
        return dict(self.program.settable)

    @property
    def units(self) -> dict[str, str]:
        """NEURON's unit of each parameter and state, by name; "" if it has none."""
        return dict(self.program.units)

    @cached_property
    def states(self) -> tuple[str, ...]:
        """The states' names, in order; last the voltage, if rates use currents."""
        return tuple(q.name for q in self.program.states)

    @cached_property
    def takes_events(self) -> bool:
        """Whether the mechanism can receive events."""
        return "receive" in self.program.blocks

    @property
    def uses_noise(self) -> bool:
        """Whether the current needs a normal number in each step."""
        return any(a.role == "noise" for a in self.program.blocks.get("current", ()))

    @property
    def has_noisy_rates(self) -> bool:
        """Whether rates have noise, which differs between copies of a network."""
        return isinstance(self.language, Text) and bool(self.program.random)

    @cached_property
    def constant(self) -> bool:
        """Whether the current i is linear in v and otherwise depends on parameters only."""
        return self.compiled.constant

    def describe(self) -> str:
        """Return a description: kind, parameters with defaults and units, states, blocks."""
        lines = [*self.compiled.about]
        printed = Functions(self.compiled, "double")
        for name in self.compiled.shown:
            lines += [f"  {name}:", *(f"  {line}" for line in printed.equations(name))]
        return "\n".join(lines)

    def calls(self, block: str, outputs: Sequence[str] = ()) -> tuple[Argument, ...]:
        """Return a block function's arguments, in order.

        `outputs` are NMODL variables that functions return besides the states, also in `functions`
        and `twin`.
        """
        return self.compiled.calls(block, _texts("outputs", outputs))

    def function_name(self, block: str) -> str:
        """Return the name of a block's OpenCL function."""
        return f"{self.name}_{self.compiled.bodies[block].suffix or block}"

    def takes_vectors(self, block: str, outputs: Sequence[str] = ()) -> bool:
        """Whether a block's function, with these outputs, can take several instances at once."""
        return Functions(self.compiled, "double", outputs=outputs).takes_vectors(block)

    def functions(
        self,
        real: str,
        outputs: Sequence[str] = (),
        blocks: Sequence[str] | None = None,
        width: int = 1,
        single: Sequence[str] = (),
    ) -> str:
        """Return OpenCL functions for a kernel with ``typedef ... real``.

        Parameters
        ----------
        real : str
            ``double`` or ``float``: the precision of the literals.
        outputs : sequence of str, optional
            As in `calls`.
        blocks : sequence of str, optional
            Blocks of `program`; all by default.
        width : int, optional
            1, 2, 4, 8 or 16: instances that a function takes at once, in a type ``realWIDTH``.
            `takes_vectors` must be true for the blocks; names begin with ``NAME__vWIDTH``.
        single : sequence of str, optional
            Parameters that are one number for all instances.

        Returns
        -------
        str
            Static functions ``NAME_block`` with the arguments of `calls`, for each block of
            `program` of a mechanism called NAME. A text has ``NAME_initial``, ``NAME_current``,
            with states ``NAME_advance``, with an event action ``NAME_event``. Their arguments: v
            (mV), t and dt (ms; except ``initial``), or the weight; parameters, states (pointers if
            they are set), the normal number if `uses_noise`, then pointers to results.
            ``NAME_advance`` takes t at the begin of the step and v at its end.
        """
        if not isinstance(real, str) or real not in ("double", "float"):
            raise InputError(f"real is {shown(real)}; expected 'double' or 'float'")
        if not isinstance(width, int) or width not in (1, 2, 4, 8, 16):
            raise InputError(f"width is {shown(width)}; expected 1, 2, 4, 8 or 16")
        wanted = None if blocks is None else _texts("blocks", blocks)
        how = real, width, _texts("single", single), _texts("outputs", outputs)
        if wanted == ():
            return ""
        printed = Functions(self.compiled, *how)
        return str(self.compiled.once((*how, wanted), lambda: printed.text(wanted)))

    @property
    def source(self) -> str:
        """The mechanism's OpenCL functions in double precision, to read."""
        return self.functions("double")

    def twin(self, block: str, outputs: Sequence[str] = ()) -> Callable[..., Any]:
        """Return a block's NumPy function, which computes the same as its OpenCL function.

        ``calls(block)`` lists the OpenCL function's arguments. The NumPy function takes, in this
        order, those of direction ``in`` and ``inout``, and returns a tuple of the values of
        direction ``inout`` and ``out``. `outputs` names variables to compute besides.
        """
        compiled, wanted = self.compiled, _texts("outputs", outputs)

        def make() -> object:
            compiled.calls(block)
            return numpy_function(compiled, block, wanted)

        function: Callable[..., Any] = compiled.once(("twin", block, wanted), make)
        return function

    def _called(
        self,
        block: str,
        block_values: Mapping[str, Any],
        params: Values | None,
        states: Values | None,
    ) -> dict[tuple[str, str], Any]:
        program = self.program
        arguments = program.blocks.get(block, ())
        named_values = _named_values(program, params, states)
        input_arguments = [a for a in arguments if a.direction != "out"]
        values = [_value(program, a, block, block_values, named_values) for a in input_arguments]
        # NumPy's numbers, as Python's raise on a division by 0
        values = [np.float64(x) if isinstance(x, int | float) else x for x in values]
        with np.errstate(all="ignore"):  # np.where computes both branches
            results = self.twin(block)(*values) if arguments else ()
        changed = [(a.role, a.name) for a in arguments if a.direction != "in"]
        return dict(zip(changed, results, strict=True))

    def _states_after(
        self,
        block: str,
        block_values: Mapping[str, Any],
        params: Values | None,
        states: Values | None,
    ) -> dict[str, np.ndarray]:
        """Return states and concentrations after a block, broadcast to one shape; see `_called`."""
        results = self._called(block, block_values, params, states)
        after = {name: x for (role, name), x in results.items() if role in ("state", "ion")}
        old = states or {}
        values = {q.name: old[q.name] for q in self.program.states if q.name in old} | after
        like: Any = block_values.get("v", block_values.get("weight"))
        shape = np.broadcast_shapes(np.shape(like), *map(np.shape, values.values()))
        return {name: np.broadcast_to(x, shape).copy() for name, x in values.items()}

    def initial(self, v: ArrayLike, params: Values | None = None) -> dict[str, np.ndarray]:
        """Return the states at t = 0 by name.

        Parameters
        ----------
        v : array_like, mV
        params : mapping of str to array_like, optional
            Parameters by name; defaults for the others. With NMODL also the variables of ions and
            pointers that it reads, which have no defaults.

        Raises
        ------
        InputError
            The block has further arguments, such as tables or random numbers. Call the NumPy
            function of the block, see `twin`. `current`, `advance` and `event` raise it, too.
        """
        start = {q.name: q.default for q in self.program.states}
        return self._states_after("initial", {"v": _numbers("v", v, "mV"), "t": 0.0}, params, start)

    def current(
        self,
        v: ArrayLike,
        t: float,
        params: Values | None = None,
        states: Values | None = None,
        noise: ArrayLike | None = None,
        dt: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return i and g = di/dv: mA/cm2 and S/cm2 (density), or nA and uS (point).

        `noise` are normal numbers with variance 1, one per instance. If the current uses noise or
        ``dt``, `dt` must be given. `params` are as in `initial`.
        """
        if "current" not in self.program.blocks:
            raise InputError(f"mechanism {self.name} has no current")
        if dt is None and "dt" in self.compiled.free("current"):
            raise InputError(f"mechanism {self.name} needs noise and dt, or dt, for its current")
        if noise is None and self.uses_noise:
            raise InputError(f"mechanism {self.name} needs noise, one number per instance")
        block_values: dict[str, Any] = {"v": _numbers("v", v, "mV"), "t": _numbers("t", t, "ms")}
        block_values["dt"] = np.nan if dt is None else _numbers("dt", dt, "ms")
        block_values["noise"] = None if noise is None else _numbers("noise", noise)
        results = self._called("current", block_values, params, states)
        i, g = results["i", "i"], results["g", "g"]
        shape = np.broadcast_shapes(np.shape(block_values["v"]), np.shape(i), np.shape(g))
        return np.broadcast_to(i, shape).copy(), np.broadcast_to(g, shape).copy()

    def advance(
        self, v: ArrayLike, t: float, dt: float, params: Values | None, states: Values
    ) -> dict[str, np.ndarray]:
        """Return the states at t + dt from the states at t; v is the voltage at t + dt, mV.

        If rates use currents, the last state is the voltage at t. The result has the concentrations
        that an NMODL mechanism sets, too.
        """
        block_values = {"v": _numbers("v", v, "mV"), "t": _numbers("t", t, "ms")}
        block_values["dt"] = _numbers("dt", dt, "ms")
        return self._states_after("advance", block_values, params, states)

    def event(
        self, weight: ArrayLike, params: Values | None, states: Values
    ) -> dict[str, np.ndarray]:
        """Return the states after an event, or after several with `weight` as summed weight."""
        if not self.takes_events:
            raise InputError(f"mechanism {self.name} takes no events")
        block_values = {"weight": _numbers("weight", weight), "flag": 0.0}
        return self._states_after("receive", block_values, params, states)


def _numbers(name: str, values: ArrayLike, unit: str | None = None) -> Any:
    array = real_numbers(name, as_numbers(name, values, unit))
    return array if array.ndim else array.item()


def _named_values(program: Program, params: Values | None, states: Values | None) -> dict[str, Any]:
    for role, values in (("params", params), ("states", states)):
        if values is not None and not isinstance(values, Mapping):
            raise InputError(f"{role} is {shown(values)}; expected a dict of numbers by name")
    outside = [name for ion in program.ions for name in (*ion.reads, *ion.writes)]
    names = [*program.settable, *outside, *program.pointers]
    unknown = [name for name in params or () if name not in names]
    if unknown:
        raise InputError(
            f"mechanism {program.name} has no parameter '{unknown[0]}'; "
            f"it has {', '.join(names) or 'none'}{meant(unknown[0], names)}"
        )
    user_values, units = {**(states or {}), **(params or {})}, program.units
    return {**program.defaults, **{k: _numbers(k, x, units.get(k)) for k, x in user_values.items()}}


def _value(
    program: Program,
    a: Argument,
    block: str,
    block_values: Mapping[str, Any],
    named_values: Mapping[str, Any],
) -> Any:
    net = program.net
    several = a.role == "weight" and net is not None and len(net.weights) > 1
    if a.role in block_values and not several:
        return (
            block_values["t"] + block_values["dt"]
            if (a.role, a.name) == ("t", "end")
            else block_values[a.role]
        )
    if a.role not in ("parameter", "state", "ion", "pointer"):
        raise InputError(
            f"mechanism {program.name}: its {block} needs {_WORDS.get(a.role, a.role)} "
            f"'{a.name}'; expected a call of twin('{block}') of what calls('{block}') lists"
        )
    if a.name not in named_values:
        more = "" if a.role == "state" else "; expected it among the parameters"
        raise InputError(f"mechanism {program.name}: no value of {a.role} '{a.name}'{more}")
    return named_values[a.name]


def _texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    is_several = isinstance(values, Iterable) and np.ndim(values) > 0
    if not is_several or not all(isinstance(value, str) for value in values):
        raise InputError(f"{name} is {shown(values)}; expected a list of names")
    return tuple(values)


def mechanism(which: str | PathLike[str] | Mechanism) -> Mechanism:
    """Return a mechanism from a name, a ``.mod`` file, a text, or a mechanism.

    A name selects a built-in mechanism, also in NEURON's form, or one in the library.

    Raises
    ------
    InputError
        An unknown name, or a wrong text or file.
    """
    if isinstance(which, Mechanism):
        return which
    if not isinstance(which, (str, PathLike)):
        raise InputError(f"a mechanism is a name or a text; got {type(which).__name__}")
    if isinstance(which, PathLike) or ("\n" not in which and which.endswith(".mod")):
        return Mechanism.from_nmodl(Path(which))
    name = which.strip()
    name = NEURON_NAMES.get(name, name)
    if name in BUILT_IN:
        return Mechanism(BUILT_IN[name])
    if name in library_names():
        return Mechanism(library_text(name))
    if len(which.split()) <= 1:
        near = meant(which, [*BUILT_IN, *library_names()])
        raise InputError(
            f"unknown mechanism '{which.strip()}'; built in are {', '.join(BUILT_IN)}, and all in "
            f"clhines.library; anything else is given by its equations, or as a .mod file{near}"
        )
    return Mechanism(which)
