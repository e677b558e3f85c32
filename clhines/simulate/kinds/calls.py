"""``steps.mako``: everything that it needs to know, and the text of calls of blocks.

All numbers of a network are in three arenas: ``mem`` of reals, ``clock`` of times and ``ints``.
Where the regions begin is in ``at``, by the numbers of `ArenaSpec.regions`; the template names
them, so that ``states_2`` is where the states of kind 2 begin in ``mem``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from clhines.mechanisms.emit.printer import wrapped
from clhines.mechanisms.ir.program import Argument
from clhines.plan.kernel_spec import TemplateSpec, Word
from clhines.simulate.events.bins import SENDING
from clhines.simulate.records.records import CURRENT

Values = dict[str, str]  # role, or role and name -> expression


def result_of(a: Argument, real: str, value: str) -> tuple[str, str]:
    """Return the local variable of a result of several instances, and its declaration."""
    local = f"{'' if a.role in ('i', 'g') else 'new_'}{a.role}_{a.name}"
    return local, f"{real} {local}{f' = {value}' if a.direction == 'inout' else ''};"


def fields_of(spec: Any) -> dict[str, Any]:
    """Return the fields of a spec, of which a more special one is made."""
    return {f.name: getattr(spec, f.name) for f in fields(spec)}


def call_of(function: str, given: list[str], indent: int) -> str:
    """Return the lines of a call; later ones begin below its first argument."""
    text = wrapped([*given[:-1], given[-1] + ");"], indent + len(function) + 1)
    return f"{' ' * indent}{function}({text}\n"


@dataclass(frozen=True)
class KindBlocks:
    """Everything a template needs to know about one kind: ``density``, ``point`` or ``artificial``.

    `blocks` are (block, function, arguments); `parameters` names, and whether each is one number
    for all instances; `sends` the kinds of the places that send. With `summed` events of a step may
    come as the sum of their weights. `ions` are those of the network, `vectors` blocks with a
    function for `ArenaSpec.width` instances at once, and its name; with `rows` a node has one
    instance at most. Blocks read the last instance's states of the names in `last`.
    """

    number: int
    name: str
    functions: str
    kind: str
    blocks: tuple[tuple[str, str, tuple[Argument, ...]], ...]
    parameters: tuple[tuple[str, bool], ...]
    states: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]
    sends: tuple[str, ...]
    watch_flags: tuple[float, ...]
    for_netcons: int
    queue: int
    has_net: bool
    summed: bool
    emits: bool
    ions: tuple[str, ...]
    vectors: tuple[tuple[str, str], ...] = ()
    rows: bool = False
    last: tuple[str, ...] = ()

    @property
    def leading(self) -> tuple[str, ...]:
        """Arguments of functions before those of the block."""
        return ()

    @property
    def events(self) -> tuple[str, ...]:
        """Blocks that functions of events call."""
        return ("receive", "watch", *(f"for_netcons{n}" for n in range(self.for_netcons)))

    @property
    def watches(self) -> int:
        """Number of WATCH conditions."""
        return len(self.watch_flags)

    def has(self, block: str) -> bool:
        """Whether there is a block that sets anything."""
        found = [arguments for name, _, arguments in self.blocks if name == block]
        return any(a.direction != "in" for arguments in found for a in arguments)

    def arguments(self, block: str) -> tuple[Argument, ...]:
        """Return the arguments of a block."""
        return next(arguments for name, _, arguments in self.blocks if name == block)

    def asks(self, block: str, role: str) -> list[str]:
        """Names of the arguments of a role."""
        return [a.name for a in self.arguments(block) if a.role == role]

    def parameter(self, name: str) -> str:
        """Return the expression of a parameter of instance j."""
        singles = [n for n, single in self.parameters if single]
        given = [n for n, single in self.parameters if not single]
        k = self.number
        if name in singles:
            return f"mem[parameters_{k} + {singles.index(name)}]"
        begin = f"parameters_{k} + {len(singles)}"
        return f"mem[{begin} + {given.index(name)} * count_{k} + j]"

    def kept(self, role: str, name: str) -> str:
        """Return the expression of a state or an output of instance j."""
        k, names = self.number, self.states if role == "state" else self.outputs
        return f"mem[{role}s_{k} + {names.index(name)} * count_{k} + j]"

    def bare_current(self, block: str) -> str:
        """Where the current goes that is recorded and none of a mechanism's variables, if any."""
        if block != "current" or CURRENT not in self.outputs:
            return ""
        return "" if CURRENT in self.asks(block, "output") else self.kept("output", CURRENT)

    def call(self, block: str, values: Values, indent: int) -> str:
        """Return statements that call a block of instance j at active node a.

        `values` are expressions of ``v``, ``t begin``, ``t now``, ``t end``, ``pointer``, ``flag``,
        ``noise``. A result that is no variable is left in a local variable, ``ROLE_NAME``.
        """
        space = " " * indent
        before, given, after = [], [*self.leading], []
        for a in self.arguments(block):
            if a.direction == "in":
                given.append(self.value(a, values))
                continue
            new = "new_" if a.role in ("state", "output", "ion", "ion_current") else ""
            new = "new_" if a.role.endswith("weight") else new
            local = f"{new}{a.role}_{a.name.replace('.', '_')}"
            start = f" = {self.value(a, values)}" if a.direction == "inout" else ""
            sort = "ulong" if a.role == "drawn" else "real"
            before.append(f"{space}{sort} {local}{start};\n")
            given.append(f"&{local}")
            after += [f"{space}{line}\n" for line in self.stores(a, block, local)]
        if self.bare_current(block):
            after.append(f"{space}{self.bare_current(block)} = i_i;\n")
        function = next(f for name, f, _ in self.blocks if name == block)
        text = f"{space}{function}(\n{space}    "
        line = text.splitlines()[-1]
        for number, value in enumerate(given):
            end = ");" if number == len(given) - 1 else ", "
            if len(line) + len(value) > 96:
                text, line = text.rstrip() + f"\n{space}    ", f"{space}    "
            text, line = text + value + end, line + value + end
        return "".join(before) + (text if given else text + ");") + "\n" + "".join(after)

    def call_vectors(self, block: str, values: Values, width: int, indent: int) -> str:
        """Return statements that call a block of `n` instances from j on, at nodes ``node``."""
        space = " " * indent
        suffix = "of" if self.rows else "at"
        before, given, after = [], [], []
        for a in self.arguments(block):
            known = a.role in ("parameter", "state", "output")
            where = f"&{self._place(a)}" if known else ""
            if a.role == "parameter" and (a.name, True) in self.parameters:
                value = self.parameter(a.name)
            elif a.direction == "in" and a.name in self.last:
                value = self.value(a, values)
            elif known:
                value = f"some({where}, n)"
            elif a.role == "ion":
                value = f"some_{suffix}(mem + ion_{a.name}, node, n)"
            else:
                value = self.value(a, values) if a.direction != "out" else ""
            if a.direction == "in":
                given.append(value)
                continue
            local, line = result_of(a, f"real{width}", value)
            before.append(f"{space}{line}\n")
            given.append(f"&{local}")
            keep = f"keep({local}, {where}, n);"
            if not known:
                keep = self._keep_vector(a, block, local)
            after += [f"{space}{keep}\n"] if keep else []
        if self.bare_current(block):
            after.append(f"{space}keep(i_i, &{self.bare_current(block)}, n);\n")
        return "".join([*before, call_of(dict(self.vectors)[block], given, indent), *after])

    def _keep_vector(self, a: Argument, block: str, local: str) -> str:
        """Return the statement that puts a result of `n` instances where it belongs."""
        current = a.name in [f"i{ion}" for ion in self.ions] and block == "current"
        suffix = "of" if self.rows else "at"
        if a.role == "ion_current" or (a.role == "ion" and current):
            where = f"mem + ion_{'d' * (a.role == 'ion_current')}{a.name}"
            if self.kind == "point":  # as a density
                return f"add_at({local} * (100 / some_at(mem + area, node, n)), {where}, node, n);"
            return f"add_{suffix}({local}, {where}, node, n);"
        return f"keep_{suffix}({local}, mem + ion_{a.name}, node, n);" if a.role == "ion" else ""

    def _place(self, a: Argument) -> str:
        return self.parameter(a.name) if a.role == "parameter" else self.kept(a.role, a.name)

    def value(self, a: Argument, values: Values) -> str:
        """Return the expression of an argument."""
        if a.role == "parameter":
            return self.parameter(a.name)
        if a.role == "state":
            own, last = self.kept("state", a.name), f" + count_{self.number} - 1]"
            is_last = a.direction == "in" and a.name in self.last
            return own.removesuffix(" + j]") + last if is_last else own
        if a.role == "ion":
            return f"mem[ion_{a.name} + a]"
        if a.role == "t":
            return f"(real)({values['t ' + a.name]})"
        if a.role == "pointer":
            return values["pointer"].format(f"ints[pointer_{self.number}_{a.name} + j]")
        if a.role == "stream":
            words = ", ".join(f"ints[stream_{self.number}_{a.name} + 4*j + {w}]" for w in range(4))
            return f"as_uint4((int4)({words}))"
        if a.role == "drawn":
            low, high = (f"(uint)ints[{where}]" for where in self._drawn(a.name))
            return f"({low} | (ulong){high} << 32)"
        if a.role == "table":
            return f"mem + table_{self.number}_{a.name}"
        if a.role == "weight":
            place = f"mem[weight_at + {self.weights.index(a.name)}]"
            return f"weight_at < 0 ? {values.get('sum', '0')} : {place}"
        if a.role == "other_weight":
            return f"mem[other_at + {self.weights.index(a.name)}]"
        return values[a.role]

    def _drawn(self, name: str) -> tuple[str, str]:
        """Where the halves are of how many words a stream of random numbers has given."""
        return f"drawn_{self.number}_{name} + 2*j", f"drawn_{self.number}_{name} + 2*j + 1"

    def stores(self, a: Argument, block: str, local: str) -> list[str]:
        """Return statements that put a result where it belongs."""
        if a.role in ("state", "output"):
            return [f"{self.kept(a.role, a.name)} = {local};"]
        if a.role == "drawn":
            low, high = self._drawn(a.name)
            return [f"ints[{low}] = (int)(uint){local};", f"ints[{high}] = (int)({local} >> 32);"]
        current = a.name in [f"i{ion}" for ion in self.ions]
        if a.role == "ion_current" or (a.role == "ion" and block == "current" and current):
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
    """``steps.mako``; `real` and `instant`, ``double`` or ``float``, are types of values and times.

    `regions` names what `at` holds: begins of regions, and counts. `noise` is the OpenCL source of
    `mechanisms.normal`. With `constant` there are constant mechanisms, whose currents are summed by
    node once. With `layered` events may come to another instance within a step: they are delivered
    in launches of their own. CPUs advance `width` instances at once, and work-items there have many
    nodes. Where functions are `calls`, and not copied to where they are called, a kernel of many
    mechanisms is built several times faster, and is as fast on CPUs. `bins` are rounds of events in
    bins of a step, see `events.bins`. With `by_cell` functions are for `ArenaEpochSpec`: where
    regions begin is a struct, and voltages are in local memory, or as there `far`.
    """

    template: ClassVar[str] = "simulate/steps"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "begin_step": (
            "int num_places, int capacity, ulong seed, real dt, instant half_dt, int *step_state",
            "int num_items if wide",
            "const instant *restrict step_begin, const int *restrict active",
            "const int *restrict above, const int *restrict below, const int *restrict beside",
            "const real *restrict u, const real *restrict constant_g if constant",
            "const real *restrict constant_b if constant, const real *restrict v",
            "real *restrict d, real *restrict b",
            "int *restrict spike_count, int *restrict spike_source, instant *restrict spike_time",
            "int slots if grid, int num_targets if grid, real scale_of_events if grid",
            "long *restrict incoming if grid",
            "real *mem, instant *clock, int *ints, const int *at",
        ),
        "finish_step": (
            "int num_places, int num_emitters, int num_v, int num_mem, int capacity, real dt",
            "instant half_dt, int *step_state, const instant *restrict step_begin, int num_items",
            "const int *restrict active, const real *restrict x, const real *restrict v_old",
            "real *restrict v_new, int *restrict failed, int *restrict spike_count",
            "int *restrict spike_source, instant *restrict spike_time",
            "int *restrict grid_count if grid, int *restrict grid_source if grid",
            "int *restrict grid_step if grid",
            "const int *restrict v_index, real *restrict v_rows, const int *restrict mem_first",
            "const int *restrict mem_column, const int *restrict mem_index",
            "real *restrict mem_rows, real *mem, instant *clock, int *ints, const int *at",
        ),
        "events": (
            "int first_item, int num_items, int capacity, real dt, instant half_dt",
            "const int *step_state, const instant *restrict step_begin, const real *restrict v",
            "int *restrict spike_count, int *restrict spike_source, instant *restrict spike_time",
            "real *mem, instant *clock, int *ints, const int *at",
        ),
    }
    sending: ClassVar[Word] = SENDING
    blocks: ClassVar[bool] = False  # whether blocks of cells see each other's events later
    real: str
    kinds: tuple[KindBlocks, ...]
    ions: tuple[str, ...]
    regions: tuple[str, ...]
    secondorder: bool
    second_order_currents: bool
    noise: str
    played: bool
    constant: bool
    layered: bool
    width: int
    calls: bool
    nernst: tuple[str, ...] = ()
    grid: bool = field(default=False, repr=False)
    bins: int = field(default=0, repr=False)
    by_cell: bool = field(default=False, repr=False)
    far: bool = field(default=False, repr=False)
    instant: str = "double"

    @property
    def arena(self) -> ArenaSpec:
        """What the functions of blocks and events are printed for: itself."""
        return self

    @property
    def regions_name(self) -> str:
        """Name of the argument that says where regions begin."""
        return "regions" if self.by_cell else "at"

    @property
    def at(self) -> str:
        """Its declaration."""
        return "const regions_ regions" if self.by_cell else "__global const int *at"

    @property
    def one_v(self) -> bool:
        """Whether functions of events are given the place of their node's voltage, not all."""
        of_events = (k.arguments(b) for k in self.net_kinds for b, *_ in k.blocks if b in k.events)
        pointed = any(a.role == "pointer" for given in of_events for a in given)
        return self.by_cell and not pointed

    @property
    def v_space(self) -> str:
        """Address space of voltages, which other work-groups write where epochs give all."""
        if self.by_cell and not self.one_v:
            return "volatile __global"
        return "__local" if self.by_cell and not self.far else "__global"

    @property
    def own_v(self) -> str:
        """Voltage of node a in functions."""
        return "*v" if self.one_v else "v[ints[place_of + a]]"

    @property
    def wide(self) -> bool:
        """Whether work-items have many nodes."""
        return self.width > 1

    @property
    def skips(self) -> bool:
        """Whether targets are passed by where no event of theirs is due."""
        return self.wide

    @property
    def soon(self) -> str:
        """Until when an event is looked for in a step: a bin ends at about its middle."""
        return "t_mid + (instant)0.01 * (t_mid - t_begin)" if self.bins else "t_mid"

    @property
    def looks_ahead(self) -> bool:
        """Whether it is known when a target has to be looked after next."""
        return self.skips or self.by_cell

    def counts(self, word: str) -> str:
        """Where the events of a connection's source are counted that its target may see."""
        short = self.sending.read("short", word) if self.bins else word
        return f"{short} ? event_live : event_count"

    @property
    def static(self) -> str:
        """What functions of the kernels are declared as."""
        return "static __attribute__((noinline))" if self.calls else "static"

    def functions(self, kind: KindBlocks) -> str:
        """Functions of the blocks of a kind."""
        return re.sub(r"^static (?=void |real\d* )", f"{self.static} ", kind.functions, flags=re.M)

    @property
    def net_kinds(self) -> tuple[KindBlocks, ...]:
        """Kinds that take or send events."""
        return tuple(kind for kind in self.kinds if kind.has_net)

    @property
    def summed_kinds(self) -> tuple[KindBlocks, ...]:
        """Kinds whose events may be sums of whole steps."""
        return tuple(kind for kind in self.kinds if kind.summed) if self.grid else ()

    @property
    def loose_kinds(self) -> tuple[KindBlocks, ...]:
        """Kinds of artificial cells, which are at no node."""
        return tuple(kind for kind in self.net_kinds if kind.kind == "artificial")
