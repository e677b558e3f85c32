"""A mechanism as engines see it, in the same form for both languages.

`Program` has the variables of an instance and the blocks. `Argument` describes an argument of a
block's function: templates and the reference engine write their calls by these descriptions.

The function of a block is ``NAME_block(...)`` with the arguments of ``Mechanism.calls(block)`` in
order. In OpenCL arguments of direction ``in`` are values, ``out`` and ``inout`` are pointers. The
NumPy function takes ``in`` and ``inout`` by value and returns a tuple of ``out`` and ``inout``, in
order.

Blocks are ``initial`` (v, t to states; host only), ``current`` (to i, g, ion currents), ``advance``
(one step of the states; t of the step's end for NMODL, its begin for texts), ``receive`` (one
event), ``net_initial`` (INITIAL of NET_RECEIVE, once a connection), ``watch`` (conditions),
``diffuse`` (after ``advance`` of all mechanisms, for the states of `Program.diffusing`),
``before_initial``, ``after_initial``, ``before_breakpoint``, ``after_solve``, ``before_step``,
``for_netcons0``, 1 ..., ``table_NAME``, and ``unless_initial`` (before INITIAL) and ``unless``
(before other blocks), see `Program.unless`.

Roles of arguments, and their names:

- ``v``, ``t``, ``dt``: the name of a time is ``begin`` or ``end`` of the step, or ``now``, the time
  of the call (the event, the half step in ``current``).
- ``steered``, ``steer``: a weight of another connection, before and after an event.
- ``parameter``, ``state``, ``output``, ``pointer``: a variable. Blocks compute an ``output`` for
  users and never read it.
- ``ion``: a variable of an ion, as ``cai``, ``eca``, ``ica``; ``ion_current``: the slope of
  ``ica``, which the caller adds to the ion's di/dv.
- ``table``: a pointer to ``n + 1`` rows with a number for each column of the `Table`; in NumPy an
  array (rows, columns).
- ``weight``: a NET_RECEIVE argument; in texts the summed weight. ``other_weight``: the same of
  another connection, in ``for_netcons0``.
- ``flag``: the event's flag, a real.
- ``i``, ``g``: outward current and its slope.
- ``noise``: a normal number with variance 1.
- ``send``: for statement k of `Net.sends`, ``k.time``, the event's time [ms], infinite if no event
  is sent, and ``k.flag`` if the event has a flag.
- ``arm``: not 0 if this call arms the WATCH with this number, which disarms all others.
- ``put``: new value of the variable to which a POINTER points; ``add``: a term that is added to it,
  instance after instance; ``assign``: its new value, set at once, in NEURON's order of mechanisms.
- ``set_v``: the node's voltage after the event, mV.
- ``watch``: value of a WATCH condition, above 0 if it is true.
- ``unless``: not 0 if the refusal with this number in `Program.unless` applies.
- ``volume``, ``diffusion``: volume, and diffusion coefficient times cross section, of a state, from
  COMPARTMENT and LONGITUDINAL_DIFFUSION, µm² and µm⁴/ms.
- ``x``, ``column``: place and values of ``table_NAME``; ``grid``: ``low`` and ``high`` of
  ``grid_NAME``.
- ``stream``: three numbers and the global index of a RANDOM variable, uint32, as ``uint4`` or an
  array (..., 4); ``drawn``: the number of words drawn, ``ulong`` or int64; see `random123`.
- ``seed``, ``adjoint``: derivatives of a loss for results and arguments, see `ir.adjoints`.
- ``constant``: a value that is the same in all steps, in functions for groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

# names that no text can use: two states and a parameter
HIDDEN = "v__before"  # the voltage at the last currents
HELD = "since__spike"  # how many steps a spike has held the voltage
HELD_STEPS = "held__steps"  # the refractory time in whole steps
SET, SET_AT = "{}__set", "t__set"  # outputs: v or a state after the last event, and its time
NOISE = "noise"  # a text's RANDOM variable with noise in rates
GENERATOR = "scop_random"  # NEURON's global generator, as a single instance's RANDOM variable
UNLESS = "unless_initial", "unless"  # blocks that check for refusals at run time
CAPACITANCE = "capacitance"  # parameter: the node's nF; in density mechanisms per 0.01 µm²


@dataclass(frozen=True)
class Argument:
    """An argument of a block's function: role (such as ``state`` or ``dt``), name and direction."""

    role: str
    name: str
    direction: str = "in"  # ``in``, ``out`` or ``inout``
    symbol: str = ""  # name in source, if it differs from the role's default


@dataclass(frozen=True)
class Quantity:
    """A parameter or a state: name, unit, and default in this unit."""

    name: str  # name in source
    unit: str
    default: float = 0.0
    is_global: bool = False  # all instances have the same value
    public: str = ""  # name for users, if it differs: ``m[1]``
    is_given: bool = False  # state whose value before INITIAL users may set


@dataclass(frozen=True)
class IonUse:
    name: str
    valence: float | None = None  # None if the file has none
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A look-up table with ``n + 1`` rows at equidistant x from low to high.

    Block ``grid_NAME`` computes low and high from parameters, block ``table_NAME`` the columns of a
    row from its x. As in NEURON x is added up: ``x += dx`` with ``dx = (high - low)/n``. If NEURON
    has computed the rows, they are in `made`, and these blocks do not exist.
    """

    name: str
    columns: tuple[str, ...]
    n: int
    depends: tuple[str, ...] = ()  # parameters from which it is filled, equal in all instances
    made: tuple[float, ...] = ()  # all rows in order, if NEURON has made them


@dataclass(frozen=True)
class Net:
    """The events that a mechanism receives and sends.

    `sends` has the kinds of the statements that send, of ``initial``, then of ``receive``, in the
    order of the text: ``self`` for net_send, ``move`` for net_move, ``event`` for net_event.
    `for_netcons` is the number of blocks ``for_netcons0`` ...: before an event's ``receive``, each
    is called for every connection of the instance. A call has the weights of this connection as
    ``other_weight``, and otherwise the arguments of ``receive``. The calls do not change the
    event's own weights: ``receive`` writes back its ``out`` and ``inout`` weights only.
    """

    weights: tuple[str, ...]  # NET_RECEIVE's arguments
    summed: bool = False  # a step's events may act once, with their summed weights
    sends: tuple[str, ...] = ()
    watches: int = 0
    watch_flags: tuple[float, ...] = ()  # each WATCH's event flag
    for_netcons: int = 0
    queue: int = 8  # pending self events that an instance may have

    @property
    def emits(self) -> bool:
        """Whether an instance can be the source of connections."""
        return "event" in self.sends


@dataclass(frozen=True)
class Spike:
    """Threshold and reset, mV, and refractory time, ms, of a text: numbers or parameters' names."""

    threshold: str | float
    reset: str | float
    refractory: str | float


@dataclass(frozen=True)
class Program:
    """A mechanism as engines see it.

    Blocks read `parameters` and never write them. ``celsius``, ``diam``, ``area`` and
    ``capacitance`` of the node are among them if `built_in` lists them.
    """

    name: str
    kind: str  # ``density``, ``point`` or ``artificial``
    parameters: tuple[Quantity, ...]
    states: tuple[Quantity, ...]  # kept from block to block; defaults are before ``initial``
    outputs: tuple[Quantity, ...] = ()  # computed for users to record
    ions: tuple[IonUse, ...] = ()
    pointers: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    net: Net | None = None
    random: tuple[str, ...] = ()  # RANDOM variables' names
    picked: tuple[str, ...] = ()  # among `random`: POINTERs from which VERBATIM draws
    blocks: dict[str, tuple[Argument, ...]] = field(default_factory=dict)
    built_in: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()  # refusals that depend on parameters
    beside: tuple[str, ...] = ()  # parameters that NEURON sets when it makes a TABLE
    # states that all instances share:
    alone: tuple[str, ...] = ()  # each instance sets them, so a model may have one instance only
    last: tuple[str, ...] = ()  # each block reads the last instance's value
    begun: tuple[str, ...] = ()  # the last INITIAL sets them
    spike: Spike | None = None  # a spiking soma, whose threshold is the cell's
    late: tuple[str, ...] = ()  # v or variables that events may set; WATCH events do not count
    electrode: bool = False  # whether its current is an electrode's; `i` is outward all the same
    electrode_currents: tuple[str, ...] = ()  # variables for currents into the cell

    @property
    def steered(self) -> tuple[str, ...]:
        return self._pointers_by("steer")

    @property
    def written(self) -> tuple[str, ...]:
        """POINTERs by which blocks except ``advance`` and ``receive`` set or add to variables."""
        return self._pointers_by("put", "add")

    @property
    def assigned(self) -> tuple[str, ...]:
        """POINTERs by which ``advance`` sets variables at once: later mechanisms see the values."""
        return self._pointers_by("assign")

    def _pointers_by(self, *roles: str) -> tuple[str, ...]:
        every = (a for arguments in self.blocks.values() for a in arguments if a.role in roles)
        return tuple(dict.fromkeys(a.name for a in every))

    @property
    def diffusing(self) -> tuple[str, ...]:
        """The states and concentrations that diffuse along the cell."""
        return tuple(a.name for a in self.blocks.get("diffuse", ()) if a.role == "volume")

    @property
    def received(self) -> tuple[str, ...]:
        """The states and outputs that events set."""
        arguments = self.blocks.get("receive", ())
        written = (a for a in arguments if a.role in ("state", "output") and a.direction != "in")
        return tuple(a.name for a in written)

    @property
    def sets_weights(self) -> bool:
        """Whether events change connection weights: their own connection's or another one's."""
        later = (arguments for b, arguments in self.blocks.items() if b != "net_initial")
        return any(
            a.role in ("weight", "other_weight") and a.direction != "in"
            for arguments in later
            for a in arguments
        )

    @property
    def sets_v(self) -> bool:
        """Whether events set the node's voltage."""
        return any(a.role == "set_v" for a in self.blocks.get("receive", ()))

    @cached_property
    def defaults(self) -> dict[str, float]:
        return {q.name: q.default for q in self.parameters}

    def heading(self, path: str = "") -> list[str]:
        """Return a description's first lines: name, kind, the file's path, and parameters."""
        lines = [f"{self.name}: {self.kind} mechanism" + (f" ({path})" if path else "")]
        for q in self.parameters:
            shown = f"  parameter {q.public or q.name} = {q.default:g} {q.unit}".rstrip()
            lines.append(shown + (", one for all" if q.is_global else ""))
        return lines

    @property
    def of_ions(self) -> list[str]:
        lines = []
        for ion in self.ions:
            does = [f"reads {', '.join(ion.reads)}"] if ion.reads else []
            does += [f"writes {', '.join(ion.writes)}"] if ion.writes else []
            lines.append(f"  ion {ion.name}: {'; '.join(does)}")
        return lines

    @cached_property
    def fixed(self) -> dict[str, str]:
        """The parameters that cannot be changed in a network, each with the reason."""
        reasons = {CAPACITANCE: "the node's", HELD_STEPS: "the refractory time's"}
        fixed = {name: what for name, what in reasons.items() if name in self.built_in}
        if self.spike is not None and isinstance(self.spike.threshold, str):
            fixed[self.spike.threshold] = "the threshold of the cell"
        for block in UNLESS:
            inputs = (a.name for a in self.blocks.get(block, ()) if a.direction == "in")
            fixed |= dict.fromkeys(inputs, "what decides whether it can be simulated")
        return fixed

    @cached_property
    def begins(self) -> dict[str, float]:
        """By name, the values before INITIAL of the states for which users may set them."""
        return {q.name: q.default for q in self.states if q.is_given}

    @cached_property
    def settable(self) -> dict[str, float]:
        """Parameter defaults, and `begins`: all that users may set, by name."""
        return {**self.defaults, **self.begins}

    @cached_property
    def units(self) -> dict[str, str]:
        """Each parameter's and state's unit, by name; "" if it has none."""
        quantities = (*self.parameters, *self.states)
        return {q.name: q.unit for q in quantities if q.name not in (HIDDEN, HELD)}


def unread_states(blocks: Mapping[str, tuple[Argument, ...]]) -> tuple[str, ...]:
    """Return the states that ``advance`` sets and that no other block on the device uses."""
    on_host = ("initial", "before_initial", "after_initial", "net_initial")
    read = {
        a.name
        for block, arguments in blocks.items() if block not in on_host
        for a in arguments if a.role == "state" and (block, a.direction) != ("advance", "out")
    }  # fmt: skip
    arguments = blocks.get("advance", ())
    return tuple(a.name for a in arguments if a.role == "state" and a.name not in read)
