"""Specs of kernels on arenas: the facts of each mechanism, and the calls that templates print."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.emit.printer import wrapped
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.model.model import Kind
from clhines.simulator.records.records import CURRENT
from clhines.simulator.state.ranges import check_range
from clhines.simulator.state.sources import SENDING
from clhines.solver.plan.kernel_spec import TemplateSpec, Word


def check_parameters(kind: Kind, dtype: np.dtype) -> None:
    """Raise InputError if a parameter of a kind is infinite in a precision."""
    for name, value in kind.parameters.items():
        check_range(f"{kind.mechanism.name}: {name}", np.asarray(value), dtype)


def check_constants(dtype: np.dtype, **values: np.ndarray) -> None:
    """Raise InputError if a node's constant, (m,) float64, uS or nA, overflows a precision."""
    most = np.finfo(dtype).max
    for name, sums in values.items():
        bad = np.flatnonzero(~(np.abs(sums) <= most))
        if len(bad):
            raise InputError(
                f"{name.replace('_', ' ')} of node {bad[0]} adds up to {sums[bad[0]]:g}; "
                f"expected at most {most:.3g}, the largest number of {np.dtype(dtype).name}"
            )


CallValues = dict[str, str]  # role ("v"), or role and name ("t now") -> expression


def fields_of(spec: Any) -> dict[str, Any]:
    """Return the fields of a spec by name, to make a more special one."""
    return {f.name: getattr(spec, f.name) for f in fields(spec)}


def call_of(function: str, passed: list[str], indent: int) -> str:
    """Return the lines of a call; the arguments in later lines begin below the first one."""
    text = wrapped([*passed[:-1], passed[-1] + ");"], indent + len(function) + 1)
    return f"{' ' * indent}{function}({text}\n"


@dataclass(frozen=True)
class KindBlocks:
    """The facts of a mechanism in a network, for templates."""

    number: int
    name: str
    functions: str
    kind: str  # ``density``, ``point`` or ``artificial``
    blocks: tuple[tuple[str, str, tuple[Argument, ...]], ...]  # name, function, its arguments
    parameters: tuple[tuple[str, bool], ...]  # name, and whether all instances share one number
    states: tuple[str, ...]
    outputs: tuple[str, ...]
    queue: int
    emits: bool
    ions: tuple[str, ...]  # all ions in the network
    weights: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()  # by statement that sends: event, self or move
    watch_flags: tuple[float, ...] = ()
    for_netcons: int = 0
    has_net: bool = False  # receives events at exact times
    summed: bool = False  # receives the summed weights of a step's events
    vectors: tuple[tuple[str, str], ...] = ()  # block and its function for `ArenaSpec.width`
    rows: bool = False  # at most one instance per node
    last: tuple[str, ...] = ()  # states that all instances read from the last one
    plays: bool = field(default=False, repr=False)  # its events read a played parameter
    reads: tuple[str, ...] = field(default=(), repr=False)  # pointers to states of others

    def leading(self, block: str) -> tuple[str, ...]:
        return ()

    @property
    def events(self) -> tuple[str, ...]:
        return ("receive", "watch", *(f"for_netcons{n}" for n in range(self.for_netcons)))

    @property
    def takes_events(self) -> bool:
        """Whether the kind receives events, at exact times or as sums of whole steps."""
        return self.has_net or self.summed

    @property
    def watches(self) -> int:
        return len(self.watch_flags)

    def has(self, block: str) -> bool:
        """Whether a block exists and sets anything."""
        argument_lists = [arguments for name, _, arguments in self.blocks if name == block]
        return any(a.direction != "in" for arguments in argument_lists for a in arguments)

    def arguments(self, block: str) -> tuple[Argument, ...]:
        return next(arguments for name, _, arguments in self.blocks if name == block)

    def is_last(self, a: Argument) -> bool:
        """Whether an argument is a state that is read from the last instance."""
        return a.role == "state" and a.direction == "in" and a.name in self.last

    def sets_states(self, block: str) -> bool:
        return any(a.role == "state" and a.direction != "in" for a in self.arguments(block))

    def points_to_voltages(self, block: str) -> bool:
        return any(name not in self.reads for name in self.asks(block, "pointer"))

    def asks(self, block: str, role: str) -> list[str]:
        return [a.name for a in self.arguments(block) if a.role == role]

    @property
    def singles(self) -> list[str]:
        return [name for name, single in self.parameters if single]

    @property
    def several(self) -> list[str]:
        return [name for name, single in self.parameters if not single]

    def parameter(self, name: str) -> str:
        k, singles, several = self.number, self.singles, self.several
        if name in singles:
            return f"mem[parameters_{k} + {singles.index(name)}]"
        line = self.line_of(several.index(name), len(several))
        return f"mem[parameters_{k} + {len(singles)} + {line}]"

    def kept(self, role: str, name: str) -> str:
        names = self.states if role == "state" else self.outputs
        return f"mem[{role}s_{self.number} + {self.line_of(names.index(name), len(names))}]"

    def line_of(self, line: int, lines: int) -> str:
        """Return instance j's index in one of the kind's `lines`."""
        return f"{line} * count_{self.number} + j"

    def turn(self, name: str, turn: str) -> str:
        """Return where epochs keep the last instance's state for a step's turn."""
        return f"mem[turns_{self.number}_{name} + {turn}]"

    def bare_current(self, block: str) -> str:
        """Return the place of a recorded current that is no mechanism variable, or nothing."""
        if block != "current" or CURRENT not in self.outputs:
            return ""
        return "" if CURRENT in self.asks(block, "output") else self.kept("output", CURRENT)

    def call(self, block: str, values: CallValues, indent: int) -> str:
        """Return statements that call a block of instance j at active node a.

        `values` are expressions for ``v``, ``t begin``, ``t now``, ``t end``, ``pointer``,
        ``flag``, ``noise``. A result that is no variable stays in a local variable, ``ROLE_NAME``.
        """
        space = " " * indent
        before, passed, after = [], [*self.leading(block)], []
        for a in self.arguments(block):
            if a.direction == "in":
                passed.append(self.value(a, values))
                continue
            new = "new_" if a.role in ("state", "output", "ion", "ion_current") else ""
            new = "new_" if a.role.endswith("weight") else new
            local = f"{new}{a.role}_{a.name.replace('.', '_')}"
            start = f" = {self.value(a, values)}" if a.direction == "inout" else ""
            sort = "ulong" if a.role == "drawn" else "real"
            before.append(f"{space}{sort} {local}{start};\n")
            passed.append(f"&{local}")
            after += [f"{space}{line}\n" for line in self.stores(a, block, local)]
        if self.bare_current(block):
            after.append(f"{space}{self.bare_current(block)} = i_i;\n")
        function = next(f for name, f, _ in self.blocks if name == block)
        text = f"{space}{function}(\n{space}    {wrapped(passed or [''], indent + 4, 97)});\n"
        return "".join([*before, text, *after])

    def call_vectors(self, block: str, values: CallValues, width: int, indent: int) -> str:
        """Return statements that call a block of `n` instances from j on, at nodes ``node``."""

        def value(a: Argument) -> str:
            if a.role == "parameter" and (a.name, True) in self.parameters:
                return self.parameter(a.name)
            if self.is_last(a):
                return self.value(a, values)
            if a.role in ("parameter", "state", "output"):
                return f"some(&{self._place(a)}, n)"
            if a.role == "ion":
                return f"some_{'of' if self.rows else 'at'}(mem + ion_{a.name}, node, n)"
            return self.value(a, values) if a.direction != "out" else ""

        keep = partial(self._keep_vector, block)
        return self.call_wide(block, f"real{width}", value, keep, indent)

    def call_wide(
        self,
        block: str,
        real: str,
        value: Callable[[Argument], str],
        keep: Callable[[Argument, str], str],
        indent: int,
    ) -> str:
        """Return statements that call a block of several instances.

        `value` prints the initial value of an argument. `keep` prints the statement that stores a
        result, a local variable, or nothing.
        """
        space = " " * indent
        before, passed, stores = list[str](), list[str](), list[str]()
        for a in self.arguments(block):
            if a.direction == "in":
                passed.append(value(a))
                continue
            local = f"{'' if a.role in ('i', 'g') else 'new_'}{a.role}_{a.name}"
            start = f" = {value(a)}" if a.direction == "inout" else ""
            before.append(f"{space}{real} {local}{start};\n")
            passed.append(f"&{local}")
            stores.append(keep(a, local))
        if self.bare_current(block):
            stores.append(keep(Argument("output", CURRENT), "i_i"))
        lines = [f"{space}{line}\n" for line in stores if line]
        return "".join([*before, call_of(dict(self.vectors)[block], passed, indent), *lines])

    def _keep_vector(self, block: str, a: Argument, local: str) -> str:
        if a.role in ("parameter", "state", "output"):
            return f"keep({local}, &{self._place(a)}, n);"
        suffix = "of" if self.rows else "at"
        if self.adds_current(a, block):
            where = f"mem + ion_{'d' * (a.role == 'ion_current')}{a.name}"
            if self.kind == "point":  # as a density
                return f"add_at({local} * (100 / some_at(mem + area, node, n)), {where}, node, n);"
            return f"add_{suffix}({local}, {where}, node, n);"
        return f"keep_{suffix}({local}, mem + ion_{a.name}, node, n);" if a.role == "ion" else ""

    def adds_current(self, a: Argument, block: str) -> bool:
        """Whether a result adds to the current of an ion, or to its slope."""
        is_own = block == "current" and a.name in [f"i{ion}" for ion in self.ions]
        return a.role == "ion_current" or (a.role == "ion" and is_own)

    def _place(self, a: Argument) -> str:
        return self.parameter(a.name) if a.role == "parameter" else self.kept(a.role, a.name)

    def value(self, a: Argument, values: CallValues) -> str:
        if a.role == "parameter":
            return self.parameter(a.name)
        if a.role == "state":
            place, last = self.kept("state", a.name), f" + last_{self.number}]"
            return place.removesuffix(" + j]") + last if self.is_last(a) else place
        if a.role == "ion":
            return f"mem[ion_{a.name} + a]"
        if a.role == "t":
            return f"(real)({values['t ' + a.name]})"
        if a.role == "table":
            return f"mem + table_{self.number}_{a.name}"
        if a.role == "pointer":
            place = f"ints[pointer_{self.number}_{a.name} + j]"
            return f"mem[{place}]" if a.name in self.reads else values["pointer"].format(place)
        if a.role in ("weight", "other_weight", "steered"):
            return self._weight(a, values)
        if a.role in ("stream", "drawn"):
            return self._random(a)
        return values[a.role]

    def _weight(self, a: Argument, values: CallValues) -> str:
        """Return the place of a weight: the event's, another connection's, or a steered one."""
        if a.role == "steered":
            return f"mem[weight + ints[steered_{self.number}_{a.name} + j]]"
        number = self.weights.index(a.name)
        if a.role == "other_weight":
            return f"mem[other_at + {number}]"
        return f"weight_at < 0 ? {values.get('sum', '0')} : mem[weight_at + {number}]"

    def _random(self, a: Argument) -> str:
        """Return a random stream's key, or the number of words drawn from it."""
        if a.role == "stream":
            words = ", ".join(f"ints[stream_{self.number}_{a.name} + 4*j + {w}]" for w in range(4))
            return f"as_uint4((int4)({words}))"
        low, high = (f"(uint)ints[{where}]" for where in self._drawn(a.name))
        return f"({low} | (ulong){high} << 32)"

    def _drawn(self, name: str) -> tuple[str, str]:
        """Return the indices of the low and high half of a stream's word count."""
        return f"drawn_{self.number}_{name} + 2*j", f"drawn_{self.number}_{name} + 2*j + 1"

    def stores(self, a: Argument, block: str, local: str) -> list[str]:
        if a.role in ("state", "output"):
            return [f"{self.kept(a.role, a.name)} = {local};"]
        if a.role == "steer":
            place = f"mem[weight + ints[steered_{self.number}_{a.name} + j]]"
            note_time = f"clock[set_at + ints[steers_{self.number}_{a.name} + j]] = t;"
            return [f"if ({place} != {local}) {note_time}", f"{place} = {local};"]
        if a.role == "assign":
            return [f"mem[ints[pointer_{self.number}_{a.name} + j]] = {local};"]
        if a.role in ("put", "add"):
            return [f"mem[{a.role}_{self.number}_{a.name} + j] = {local};"]
        if a.role in ("volume", "diffusion"):
            names = self.asks(block, "volume")
            line = 2 * names.index(a.name) + (a.role == "diffusion")
            where = self.line_of(line, 2 * len(names))
            return [f"mem[diffusing_{self.number} + {where}] = {local};"]
        if a.role == "drawn":
            low, high = self._drawn(a.name)
            return [f"ints[{low}] = (int)(uint){local};", f"ints[{high}] = (int)({local} >> 32);"]
        if self.adds_current(a, block):
            name = f"d{a.name}" if a.role == "ion_current" else a.name
            share = " * (100 / mem[area + a])" if self.kind == "point" else ""
            return [f"mem[ion_{name} + a] += {local}{share};"]
        if a.role == "ion":
            return [f"mem[ion_{a.name} + a] = {local};"]
        if a.role == "weight":
            place = f"mem[weight_at + {self.weights.index(a.name)}]"
            return [f"if (weight_at >= 0) {place} = {local};"]
        if a.role == "other_weight":
            return [f"mem[other_at + {self.weights.index(a.name)}] = {local};"]
        return []


@dataclass(frozen=True)
class ArenaSpec(TemplateSpec):
    """``steps.mako`` on arenas: ``mem`` (reals), ``clock`` (times), ``ints``.

    With `calls` the compiler does not inline functions. Kernels of many mechanisms then build
    several times faster, and run as fast on CPUs.
    """

    template: ClassVar[str] = "simulator/steps"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "begin_step": (
            "int num_places, int capacity, ulong seed, real dt, instant half_dt, int *step_state",
            "int num_items if wide",
            "const instant *restrict step_begin, const int *restrict active if not listed",
            "const int *restrict above if not listed, const int *restrict below if not listed",
            "const int *restrict beside if not listed, const real *restrict u if not listed",
            "const real *restrict constant_g if constant and not listed",
            "const real *restrict constant_b if constant and not listed, const real *restrict v",
            "real *restrict d, real *restrict b",
            "int *restrict spike_count, int *restrict spike_source, instant *restrict spike_time",
            "int slots if grid, int num_targets if grid, real scale_of_events if grid",
            "long *restrict incoming if grid",
            "real *mem, instant *clock, int *ints, const int *at",
        ),
        "advance": (
            "int num_places, int num_items if wide, real dt, instant half_dt",
            "const int *step_state, const instant *restrict step_begin",
            "const int *restrict active if not wide and not listed",
            "const real *restrict x if not listed, const real *restrict v_old",
            "real *restrict v_new if wide",
            "real *mem, instant *clock, int *ints, const int *at",
        ),
        "finish_step": (
            "int num_places, int num_emitters, int num_v, int num_mem, int capacity, real dt",
            "instant half_dt, int *step_state, const instant *restrict step_begin, int num_items",
            "const int *restrict active if not listed, const int *restrict ending if listed",
            "const real *restrict x if not listed, const real *restrict v_old",
            "real *restrict v_new if not listed",
            "int *restrict failed, int *restrict spike_count",
            "int *restrict spike_source, instant *restrict spike_time",
            "int *restrict grid_count if grid, int *restrict grid_source if grid",
            "int *restrict grid_step if grid",
            "const int *restrict v_index, real *restrict v_rows, const int *restrict mem_first",
            "const int *restrict mem_column, const int *restrict mem_index",
            "real *restrict mem_rows, real *mem, instant *clock, int *ints, const int *at",
        ),
        "events": (
            "int first_item, int num_items, int capacity, real dt, instant half_dt",
            "const int *step_state, const instant *restrict step_begin",
            "const real *restrict v if not sets_v, real *v if sets_v",
            "int *restrict spike_count, int *restrict spike_source, instant *restrict spike_time",
            "real *mem, instant *clock, int *ints, const int *at",
        ),
        "add_up": (
            "int num_mem, const int *step_state, const int *restrict mem_first",
            "const int *restrict mem_column, const int *restrict mem_index",
            "real *restrict mem_rows, real *mem, const int *ints, const int *at",
        ),
    }
    sending: ClassVar[Word] = SENDING
    blocks: ClassVar[bool] = False  # whether blocks of cells exchange events after an epoch
    real: str  # ``double`` or ``float``
    kinds: tuple[KindBlocks, ...]
    ions: tuple[str, ...]
    regions: tuple[str, ...]  # names of `at`: offsets of regions, and counts
    secondorder: bool
    second_order_currents: bool
    noise: str  # OpenCL source of `mechanisms.normal`
    played: bool
    constant: bool  # currents of constant mechanisms are summed by node once
    layered: bool  # events can reach another instance in their own step: one launch per layer
    width: int  # instances that a CPU's vector advances at once; 1: a work-item per node
    calls: bool
    nernst: tuple[str, ...] = ()
    grid: bool = field(default=False, repr=False)
    bins: int = field(default=0, repr=False)  # rounds of events in a step's bin, `state.sources`
    by_cell: bool = field(default=False, repr=False)  # for `ArenaEpochSpec`: regions are a struct
    far: bool = field(default=False, repr=False)  # voltages are in global memory
    instant: str = "double"  # type of times
    sets_v: bool = False  # events may set voltages
    sums: bool = False  # pointers write variables
    steers: bool = field(default=False, repr=False)  # events set weights of other connections
    diffuses: bool = False  # states diffuse along cells, between `advance` and `finish_step`
    listed: bool = field(default=False, repr=False)  # work-items of active nodes; v has its change

    @property
    def arena(self) -> ArenaSpec:
        """The spec that functions of blocks and events are printed for."""
        return self

    @property
    def regions_name(self) -> str:
        """Name of the argument with the regions' offsets."""
        return "regions" if self.by_cell else "at"

    @property
    def at(self) -> str:
        return "const regions_ regions" if self.by_cell else "__global const int *at"

    @property
    def one_v(self) -> bool:
        """Whether event functions get a pointer to their node's voltage, not all voltages."""
        pointed = any(
            k.points_to_voltages(b) for k in self.net_kinds for b, *_ in k.blocks if b in k.events
        )
        return self.by_cell and not pointed

    @property
    def v_space(self) -> str:
        """Address space of voltages; volatile if other work-groups write them in an epoch."""
        if self.by_cell and not self.one_v:
            return "volatile __global"
        return "__local" if self.by_cell and not self.far else "__global"

    @property
    def v_type(self) -> str:
        """Type of the voltages, or of the pointer to one, that event functions get."""
        return f"{self.v_space} {'' if self.sets_v else 'const '}real *"

    @property
    def own_v(self) -> str:
        return "*v" if self.one_v else "v[ints[place_of + a]]"

    @property
    def wide(self) -> bool:
        """Whether work-items have many nodes, and skip targets without due events."""
        return self.width > 1

    @property
    def soon(self) -> str:
        """Until when a step looks for due events: a bin ends at about its middle."""
        return "t_mid + (instant)0.01 * (t_mid - t_begin)" if self.bins else "t_mid"

    @property
    def looks_ahead(self) -> bool:
        """Whether each target keeps the time of its next due event."""
        return self.wide or self.by_cell

    def counts(self, word: str) -> str:
        """Return the event counter of a connection's source that its target may read."""
        short = self.sending.read("short", word) if self.bins else word
        return f"{short} ? event_live : event_count"

    @property
    def static(self) -> str:
        return "static __attribute__((noinline))" if self.calls else "static"

    def functions(self, kind: KindBlocks) -> str:
        return re.sub(r"^static (?=void |real\d* )", f"{self.static} ", kind.functions, flags=re.M)

    @property
    def net_kinds(self) -> tuple[KindBlocks, ...]:
        return tuple(kind for kind in self.kinds if kind.has_net)

    @property
    def plays_into_events(self) -> bool:
        return any(kind.plays for kind in self.net_kinds)

    @property
    def summed_kinds(self) -> tuple[KindBlocks, ...]:
        """Kinds that may receive sums of whole steps."""
        return tuple(kind for kind in self.kinds if kind.summed) if self.grid else ()

    @property
    def loose_kinds(self) -> tuple[KindBlocks, ...]:
        return tuple(kind for kind in self.net_kinds if kind.kind == "artificial")
