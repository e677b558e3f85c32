"""A mechanism as engines see it, the same for both languages.

`Program` says which variables an instance has and which blocks there are. `Argument` describes one
argument of a block's function, so that templates and the reference call by descriptor.

The function of a block is ``NAME_block(...)``, its arguments those of ``Mechanism.calls(block)`` in
order. In OpenCL an argument of direction ``in`` is a value, ``out`` and ``inout`` are pointers. The
NumPy twin takes all ``in`` and ``inout`` by value and returns a tuple of all ``out`` and ``inout``,
both in order.

Blocks are ``initial`` (v, t to states; host only), ``current`` (to i, g, ion currents), ``advance``
(one step of the states; t of the step's end for NMODL, its begin for texts), ``receive`` (one
event), ``net_initial`` (INITIAL of NET_RECEIVE, once a connection), ``watch`` (conditions),
``diffuse`` (after ``advance`` of all mechanisms, for the states of `Program.diffusing`),
``before_initial``, ``after_initial``, ``before_breakpoint``, ``after_solve``, ``before_step``,
``for_netcons0``, 1 ..., ``table_NAME``, and ``unless`` (see `Program.unless`, of all blocks but
INITIAL) and ``unless_initial``, before INITIAL.

Roles of arguments, and their names:

- ``v``, ``t``, ``dt``: the `name` of a time is ``begin`` of the step, its ``end``, or ``now``: the
  time of the call (of the event, of the half step in ``current``).
- ``steered``, ``steer``: a weight of another connection, before and after an event.
- ``parameter``, ``state``, ``output``, ``pointer``: the variable. An ``output`` is worked out for
  users to record and never read.
- ``ion``: the ion's variable, as ``cai``, ``eca``, ``ica``; ``ion_current``: d.i of ``ica``, an
  ``out`` that the caller adds to the ion's d.i/d.v.
- ``table``: a pointer to real, ``n + 1`` rows of a number for each column of the `Table` of the
  name; in NumPy an array (rows, columns).
- ``weight``: the NET_RECEIVE argument; of a text the summed weight. ``other_weight``: the one of
  another connection, in ``for_netcons0``.
- ``flag``: flag of the event, a real.
- ``i``, ``g``: current (outward) and its slope.
- ``noise``: a normal number of variance 1.
- ``send``: of the `Send` with number k there are ``k.time``, absolute [ms], infinite where it is
  not sent, and, where the event has one, ``k.flag``.
- ``arm``: not 0 where this call arms the WATCH of the number; a call that arms any disarms all
  others.
- ``put``: the new value of the variable to which the POINTER points; ``add``: a term for it, added
  by one instance after the other.
- ``assign``: its new value, set at once, in NEURON's order of mechanisms.
- ``set_v``: the voltage that the event gives the node, mV.
- ``watch``: value of the WATCH condition of the number: above 0 where it is true.
- ``unless``: not 0 where the thing of that number in `Program.unless` would be needed.
- ``volume``, ``diffusion``: of the state of the name, volume and diffusion coefficient times cross
  section, as LONGITUDINAL_DIFFUSION and COMPARTMENT give them, µm² and µm⁴/ms.
- ``x``, ``column``: place and values of ``table_NAME``; ``grid``: ``low`` and ``high`` of
  ``grid_NAME``.
- ``stream``: of the RANDOM variable: its three numbers and the global index, uint32, as a ``uint4``
  or an array (..., 4); ``drawn``: how many words it has given, a ``ulong`` or int64; see
  `random123`.
- ``seed``, ``adjoint``: derivatives of a loss by results and arguments, see `ir.adjoints`.
- ``constant``: a value that does not change from step to step, in functions for groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

HIDDEN = "v__before"  # state that holds the voltage of the last currents; no text can name it
HELD = "since__spike"  # state that counts the steps in which a spike holds the voltage; as `HIDDEN`
SET, SET_AT = "{}__set", "t__set"  # outputs: v or a state as the last event has left it, and when
NOISE = "noise"  # RANDOM variable of a text whose rates have noise
GENERATOR = "scop_random"  # NEURON's one generator, as a RANDOM variable: of one instance alone
UNLESS = "unless_initial", "unless"  # blocks that say where something would not be simulated
CAPACITANCE = "capacitance"  # parameter: nF of the node, of density mechanisms per 0.01 µm²
HELD_STEPS = "held__steps"  # parameter: a refractory time in whole steps; no text can name it


@dataclass(frozen=True)
class Argument:
    """One argument of a block's function; see the module."""

    role: str
    name: str
    direction: str = "in"  # ``in``, ``out`` or ``inout``
    symbol: str = ""  # name in functions, where it is not the one of the role


@dataclass(frozen=True)
class Quantity:
    """A parameter or a state: its name, its unit, and its value in it where none is given."""

    name: str  # in functions
    unit: str
    default: float = 0.0
    is_global: bool = False  # all instances have the same value
    public: str = ""  # name for users, where it is another: ``m[1]``
    is_given: bool = False  # state whose value before INITIAL users may give


@dataclass(frozen=True)
class IonUse:
    """Uses of an ion, as ``ca``, and of its variables, as ``cai``, ``eca``."""

    name: str
    valence: float | None = None  # if the file has one
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A look-up table: ``n + 1`` rows, equally far apart from `lo` to `hi`.

    The block ``table_NAME`` gives the columns at x; grid and borders are expressions of parameters,
    so they are results of the block ``grid_NAME``: lo, hi. The rows' x are added up from lo, as
    NEURON does: ``x += dx`` with ``dx = (hi - lo)/n``. One that is `made` has no such block.
    """

    name: str
    columns: tuple[str, ...]
    n: int
    depends: tuple[str, ...] = ()  # parameters that it is filled from, alike in all instances
    held: tuple[str, ...] = ()  # GLOBAL parameters, NEURON's, that it sets to what they were
    made: tuple[float, ...] = ()  # all rows, one after another, where NEURON has made them


@dataclass(frozen=True)
class Send:
    """A place that sends: ``self`` (net_send), ``move`` (net_move) or ``event`` (net_event)."""

    kind: str


@dataclass(frozen=True)
class Net:
    """Events of a mechanism.

    `sends` are in the order of the text, numbered through ``initial`` and ``receive``.
    `for_netcons` is the number of blocks ``for_netcons0`` ...: called once a connection of the
    instance, with its weights as ``other_weight``, before ``receive`` and with the same other
    arguments. Both see the event's own weights as before all these calls; ``receive`` writes back
    its ``out`` and ``inout`` weights only.
    """

    weights: tuple[str, ...]  # arguments of NET_RECEIVE
    summed: bool = False  # events of one step may act once, with the sum of their weights
    sends: tuple[Send, ...] = ()
    watches: int = 0
    watch_flags: tuple[float, ...] = ()  # of the event of each WATCH
    for_netcons: int = 0
    queue: int = 8  # self events that may be under way at once

    @property
    def emits(self) -> bool:
        """Whether other cells can listen to it."""
        return any(s.kind == "event" for s in self.sends)


@dataclass(frozen=True)
class Spike:
    """Where a text spikes: numbers, or names of parameters, mV and ms."""

    threshold: str | float
    reset: str | float
    refractory: str | float


@dataclass(frozen=True)
class Program:
    """A mechanism as engines see it.

    Blocks read `parameters`, and nothing in the mechanism writes them; ``celsius``, ``diam``,
    ``area`` and ``capacitance`` are among them by these names, where `built_in` lists them.
    """

    name: str
    kind: str  # ``density``, ``point`` or ``artificial``
    parameters: tuple[Quantity, ...]
    states: tuple[Quantity, ...]  # kept from block to block, with values before ``initial``
    outputs: tuple[Quantity, ...] = ()  # worked out for users to record
    ions: tuple[IonUse, ...] = ()
    pointers: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    net: Net | None = None
    random: tuple[str, ...] = ()  # names of RANDOM variables
    picked: tuple[str, ...] = ()  # of these, POINTERs of a file whose VERBATIM draws
    blocks: dict[str, tuple[Argument, ...]] = field(default_factory=dict)
    built_in: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()  # refusals that parameters decide
    beside: tuple[str, ...] = ()  # parameters that NEURON sets where it makes a TABLE
    external: tuple[str, ...] = ()  # parameters that are variables of another file
    alone: tuple[str, ...] = ()  # one for all and set by each: right where there is one instance
    last: tuple[str, ...] = ()  # states that are one for all: each block reads the last one's
    begun: tuple[str, ...] = ()  # states that are one for all: the last INITIAL sets them
    spike: Spike | None = None  # its node is a cell's soma, of which the threshold is that one
    late: tuple[str, ...] = ()  # v or variables that events beside WATCH's may set
    electrode: bool = False  # its current is one of an electrode; `i` is outward all the same
    electrode_currents: tuple[str, ...] = ()  # variables of currents into the cell

    @property
    def steered(self) -> tuple[str, ...]:
        """POINTERs to weights of other connections that events set."""
        every = (a for arguments in self.blocks.values() for a in arguments if a.role == "steer")
        return tuple(dict.fromkeys(a.name for a in every))

    @property
    def written(self) -> tuple[str, ...]:
        """POINTERs to variables that blocks set or add to."""
        every = (
            a for arguments in self.blocks.values() for a in arguments if a.role in ("put", "add")
        )
        return tuple(dict.fromkeys(a.name for a in every))

    @property
    def assigned(self) -> tuple[str, ...]:
        """POINTERs, among `pointers`, to variables that blocks set at once."""
        every = (a for arguments in self.blocks.values() for a in arguments if a.role == "assign")
        return tuple(dict.fromkeys(a.name for a in every))

    @property
    def diffusing(self) -> tuple[str, ...]:
        """States, some of them concentrations of ions, that diffuse along the cell."""
        return tuple(a.name for a in self.blocks.get("diffuse", ()) if a.role == "volume")

    @property
    def received(self) -> tuple[str, ...]:
        """Variables of an instance that events set."""
        arguments = self.blocks.get("receive", ())
        written = (a for a in arguments if a.role in ("state", "output") and a.direction != "in")
        return tuple(a.name for a in written)

    @property
    def sets_weights(self) -> bool:
        """Whether events set weights, also of other connections in FOR_NETCONS."""
        later = (arguments for b, arguments in self.blocks.items() if b != "net_initial")
        return any(
            a.role in ("weight", "other_weight") and a.direction != "in"
            for arguments in later
            for a in arguments
        )

    @property
    def sets_v(self) -> bool:
        """Whether events set the voltage of the node."""
        return any(a.role == "set_v" for a in self.blocks.get("receive", ()))

    @cached_property
    def defaults(self) -> dict[str, float]:
        """Value of each parameter where the user gives none."""
        return {q.name: q.default for q in self.parameters}

    def heading(self, path: str = "") -> list[str]:
        """Return the first lines of its description: name, kind and parameters."""
        lines = [f"{self.name}: {self.kind} mechanism" + (f" ({path})" if path else "")]
        for q in self.parameters:
            shown = f"  parameter {q.public or q.name} = {q.default:g} {q.unit}".rstrip()
            lines.append(shown + (", one for all" if q.is_global else ""))
        return lines

    @property
    def of_ions(self) -> list[str]:
        """Lines of its description about ions."""
        lines = []
        for ion in self.ions:
            does = [f"reads {', '.join(ion.reads)}"] if ion.reads else []
            does += [f"writes {', '.join(ion.writes)}"] if ion.writes else []
            lines.append(f"  ion {ion.name}: {'; '.join(does)}")
        return lines

    @cached_property
    def fixed(self) -> dict[str, str]:
        """Parameters that stay as they are in a network, each with the reason."""
        reasons = {CAPACITANCE: "that of the node", HELD_STEPS: "that of the refractory time"}
        fixed = {name: what for name, what in reasons.items() if name in self.built_in}
        if self.spike is not None and isinstance(self.spike.threshold, str):
            fixed[self.spike.threshold] = "the threshold of the cell"
        for block in UNLESS:
            inputs = (a.name for a in self.blocks.get(block, ()) if a.direction == "in")
            fixed |= dict.fromkeys(inputs, "what decides whether it can be simulated")
        return fixed

    @cached_property
    def begins(self) -> dict[str, float]:
        """Value before INITIAL, where the user gives none, of states that users may give one."""
        return {q.name: q.default for q in self.states if q.is_given}

    @cached_property
    def settable(self) -> dict[str, float]:
        """Default of all that users may give."""
        return {**self.defaults, **self.begins}

    @cached_property
    def units(self) -> dict[str, str]:
        """Unit of each parameter and state; empty where none is."""
        quantities = (*self.parameters, *self.states)
        return {q.name: q.unit for q in quantities if q.name not in (HIDDEN, HELD)}


def unread_states(blocks: Mapping[str, tuple[Argument, ...]]) -> tuple[str, ...]:
    """Return the states that ``advance`` sets and nothing but the host's blocks reads or sets."""
    on_host = ("initial", "before_initial", "after_initial", "net_initial")
    read = {
        a.name
        for block, arguments in blocks.items() if block not in on_host
        for a in arguments if a.role == "state" and (block, a.direction) != ("advance", "out")
    }  # fmt: skip
    arguments = blocks.get("advance", ())
    return tuple(a.name for a in arguments if a.role == "state" and a.name not in read)
