"""The kernel that advances whole cells of a network with exact times, node by node.

The elimination is that of `EpochSpec`; mechanisms are those of `ArenaSpec`, whose functions and
arenas it takes as they are. A lane does everything for its node that `Steps` does in two
kernels: the end of a step, then events and currents of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import factorial, log
from typing import ClassVar

import numpy as np

from clhines.simulator.gpu.lists import NodeLists
from clhines.simulator.gpu.spec import LIST_HEAD, WARP, EpochSpec, coefficients
from clhines.simulator.kinds.layouts import active_nodes
from clhines.simulator.kinds.spec import ArenaSpec, CallValues, KindBlocks, call_of, fields_of
from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.emit.lanes import Lanes
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.model.model import ADVANCE_REVERSAL, Model
from clhines.simulator.state.variables import Variables
from clhines.solver.plan.kernel_spec import Parameter

_HALVES = {"begin": "", "mid": " + half_dt", "end": " + half_dt + half_dt"}  # of a step
BY_LAYERS = frozenset({"instant_events", "set_voltages"})  # events of all nodes come first
SPECIAL = 1 << 30  # of the word of a node: it has detectors, or is played with
HAS_SPECIAL = -(1 << 31)  # of the bits of a list, one of whose nodes is special
MECHANISMS = ~HAS_SPECIAL  # the others


@dataclass(frozen=True)
class EpochBlocks(KindBlocks):
    """A kind in the lists of an epoch; between launches `lined` states are in their arena, too."""

    given: tuple[tuple[str, str, str], ...] = ()  # role, name, source: not read from their arena
    held: bool = False  # currents come right after the states' step, with states in variables
    num_values: int = 0  # lines of values of an instance in a list
    quick: bool = False  # functions are those of `Lanes`
    lined: bool = False  # states are in lines of the lists during a launch
    local: bool = False  # these lines are in local memory
    sums: tuple[str, ...] = ()  # ions whose currents are added up
    apart: bool = False  # lanes take instances, not the nodes that these are at
    constants: tuple[str, ...] = ()  # of functions, worked out once in a launch
    first_constant: int = 0  # number of the first among those of all kinds
    unread: tuple[str, ...] = ()  # states without line, which nothing but outputs reads
    shown: tuple[str, ...] = ()  # states in lines that pointers read in their arena
    leads: bool = False  # see `ArenaEpochSpec`

    @property
    def in_lines(self) -> list[str]:
        return [name for name in self.states if name not in self.unread]

    @property
    def alone(self) -> bool:
        """Whether a step sets the kind's own states and nothing else."""
        arguments = self.arguments("advance") if self.has("advance") else ()
        return all(a.role == "state" for a in arguments if a.direction != "in")

    def leading(self, block: str) -> tuple[str, ...]:
        return ("series__",) * self.quick

    @property
    def alike(self) -> tuple[str, ...]:
        """Parameters that are one number in all lists, for good."""
        return tuple(name for role, name, x in self.given if role == "parameter" and _is_number(x))

    @property
    def constants_call(self) -> str:
        """Statements that work out the constants, and put them into ``once__``."""
        values = {name: x for role, name, x in self.given if role == "parameter"}
        ordered = [values[name] for name, _ in self.parameters if name in self.alike]
        count, first = len(self.constants), self.first_constant
        results = [f"c + {k}" for k in range(count)]
        call = call_of(f"{self.name}_constants", ["series__", "dt", *ordered, *results], 8)
        puts = "".join(f"        once__[{first + k}] = c[{k}];\n" for k in range(count))
        return f"        real c[{count}];\n{call}{puts}"

    def in_memory(self, name: str) -> str:
        return super().kept("state", name)

    def changed(self, block: str) -> list[str]:
        if not self.has(block):
            return []
        return [a.name for a in self.arguments(block) if a.role == "state" and a.direction != "in"]

    def kept(self, role: str, name: str) -> str:
        if role != "state" or not (self.held or self.lined):
            return super().kept(role, name)
        if name in self.unread and not self.held:
            return self.in_memory(name)
        return f"s_{name}" if self.held else self.line(name)

    def line(self, name: str) -> str:
        if not self.lined:
            return self.in_memory(name)
        return f"{'local_state' if self.local else 'state'}[{self.in_lines.index(name) * WARP}]"

    def value(self, a: Argument, values: CallValues) -> str:
        if a.role == "constant":
            return f"once__[{self.first_constant + self.constants.index(a.name)}]"
        if self.is_last(a):
            return self.turn(a.name, values["turn"])
        if values.get("sums") and a.role == "ion" and a.name in [f"i{ion}" for ion in self.ions]:
            return f"sum_{a.name}"  # of the kinds before
        expressions = [x for role, name, x in self.given if (role, name) == (a.role, a.name)]
        return expressions[0] if expressions else super().value(a, values)

    def reads_node(self, block: str) -> bool:
        """Whether a call needs the number of the active node, for variables of ions."""
        constant = {name for role, name, _ in self.given if role == "ion"}
        return any(
            a.role == "ion" and a.name not in constant
            and (a.direction != "out" or not self.adds_current(a, block))
            for a in self.arguments(block)
        )  # fmt: skip

    def stores(self, a: Argument, block: str, local: str) -> list[str]:
        current = a.role == "ion" and a.name in [f"i{ion}" for ion in self.ions]
        if block == "current" and (current or a.role == "ion_current"):
            share = " * (100 / mem[area + a])" if self.kind == "point" else ""
            if a.name.removeprefix("i") not in self.sums:
                return []
            return [f"{'sum' if current else 'slope'}_{a.name} += {local}{share};"]
        if a.role == "state" and a.name in self.unread:  # the template's `seldom` puts it there
            return [f"s_{a.name} = {local};"] if self.held else []
        stores = super().stores(a, block, local)
        if a.role == "state" and a.name in self.shown and not self.held:
            stores.append(f"{self.in_memory(a.name)} = {local};")
        if self.leads and a.role == "state" and a.name in self.last:
            place = self.turn(a.name, "turn_now")
            stores.append(f"if (j == last_{self.number}) {place} = {local};")
        return stores


@dataclass(frozen=True)
class ArenaEpochSpec(EpochSpec):
    """Numbers and switches of ``epoch_by_node.mako`` for a network with exact times."""

    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "advance": (
            "int first_step, int num_steps, int num_units, const int *restrict units",
            "const int *restrict rows, const int *restrict links, const int *restrict children",
            "const real *restrict all_tie, const real *restrict all_up, real *restrict all_v",
            "const int *restrict homes, const int *restrict instances",
            "const int *restrict node_lists, const int *restrict node_places",
            "const int *restrict node_members, const int *restrict node_active",
            "const int *restrict node_bits if mixed",
            "const real *restrict node_scalars, const real *restrict node_values",
            "real *restrict node_states",
            "int first_time, int looks, const double *restrict step_begin, real dt, double half_dt",
            "ulong seed, int capacity, int *restrict spike_count, int *restrict spike_source",
            "double *restrict spike_time, int slots if grid, int num_targets if grid",
            "real scale_of_events if grid, long *restrict incoming if grid",
            "int *restrict grid_count if grid, int *restrict grid_source if grid",
            "int *restrict grid_step if grid",
            "int *restrict failed, const int *restrict record_start",
            "const int *restrict record_list, real *restrict record_v, int record_row",
            "int num_records, int num_mem, const int *restrict mem_first",
            "const int *restrict mem_column, const int *restrict mem_index",
            "real *restrict mem_rows, real *mem, double *clock, int *ints, regions_ regions",
            "numbers_ numbers, real *far_held if far",
            "real *restrict seen_v if points, int num_places if points",
            "ulong *restrict arrived if meets, real *restrict shared if spreads",
            "int pending if ends_later",
        ),
        "publish": ("int num_sources, int *ints, regions_ regions",),
    }
    special: ClassVar[int] = SPECIAL
    mechanisms: ClassVar[int] = MECHANISMS
    most_once: ClassVar[int] = 64
    blocks: tuple[EpochBlocks, ...] = field(default=(), repr=False)
    num_numbers: int = field(default=0, repr=False)  # reals that are arguments of the kernel
    classes: tuple[int, ...] = field(default=(), repr=False)  # of nodes, with own statements
    mixed: bool = False  # nodes of a list have different mechanisms
    joins: int = 0  # work-groups that wait for each other after each step; 0: they do not
    layers: int = 0  # of targets whose events come before the currents; 0: node by node
    ends_later: bool = False  # the next launch ends the last step, if one is `pending`
    reads_nodes: bool = False  # pointers lead to states at other nodes
    turns: int = 0  # steps of which values of last instances are kept; 0: none are read
    diffusing_rounds: int = 0  # of what diffuses along cells; 0: nothing does
    leads: bool = False  # has the cells of these instances, of which other kernels read a step's
    selects: bool = field(default=False, repr=False)  # the first step computes states for nothing
    terms: tuple[int, ...] = field(default=(), repr=False)  # of exponentials, see `terms`
    nernst: tuple[str, ...] = field(default=(), repr=False)  # ions with Nernst's potential
    currents_read: tuple[str, ...] = field(default=(), repr=False)  # ions whose current is read

    def parameters(self, kernel: str) -> list[Parameter]:
        names = self.series_numbers.arguments if kernel == "advance" else ()
        series = (Parameter(name, "real") for name in names)
        return [*self._active_parameters(self.kernels[kernel]), *series]

    @property
    def once(self) -> list[str]:
        return [kind.constants_call for kind in self.blocks if kind.constants]

    @property
    def num_once(self) -> int:
        return sum(len(kind.constants) for kind in self.blocks)

    @property
    def grid(self) -> bool:
        """Whether some events come in whole steps, as sums."""
        return self.arena is not None and self.arena.grid

    @property
    def points(self) -> bool:
        """Whether a kind has pointers to voltages."""
        return any(
            kind.points_to_voltages(name) for kind in self.blocks for name, *_ in kind.blocks
        )

    @property
    def meets(self) -> bool:
        """Whether several work-groups wait for each other."""
        return self.joins > 1 or self.spreads

    @property
    def spreads(self) -> bool:
        return self.parts > 1

    @property
    def leading(self) -> list[EpochBlocks]:
        """Kinds whose last instance is among the cells of this kernel, if there are any."""
        return [kind for kind in self.blocks if kind.last and self.leads]

    @property
    def loop(self) -> ListLoop:
        return ListLoop(self)

    @property
    def num_scalars(self) -> int:
        """Parameters that are one number in each list of nodes."""
        return sum(len(names) for names in self.uniform)

    @property
    def sums_apart(self) -> tuple[str, ...]:
        """Ions whose currents are added up where they are looked for, not in each step."""
        if self.arena is None:
            return ()
        ours = [ion for ion in self.arena.ions if ion not in self.currents_read]
        return tuple(ion for ion in ours if all(k.held for k in self.with_ions((ion,))))

    def with_ions(self, ions: tuple[str, ...]) -> list[EpochBlocks]:
        """Kinds with currents of ions."""
        names = {f"i{ion}" for ion in ions}
        return [
            kind for kind in self.blocks if kind.has("current") and any(
                a.direction != "in" and a.role in ("ion", "ion_current") and a.name in names
                for a in kind.arguments("current")
            )
        ]  # fmt: skip

    def adding(self, ions: tuple[str, ...]) -> dict[int, EpochBlocks]:
        """Kinds by number, which add up currents of these ions alone."""
        return {k.number: replace(k, sums=ions) for k in self.blocks}


@dataclass(frozen=True)
class ListLoop:
    """Source of a lane's loop over its lists: pointers, times, and an instance `j` of a kind."""

    spec: ArenaEpochSpec

    @property
    def opens(self) -> str:
        """Step that has no step before it to end."""
        return "first_step - pending" if self.spec.ends_later else "first_step"

    @property
    def seen(self) -> str:
        """Voltages of all cells at the begin of a step, as pointers have them; others write it."""
        return "(volatile __global const real *)seen_v + (step % 2) * num_places"

    @property
    def passes(self) -> tuple[tuple[str, ...], ...]:
        """Sections of a step for which lists are gone through one after the other.

        ``states`` and ``end`` end the step before; ``begin`` is that of a step. Between two passes
        the nodes of a cell meet.
        """
        spec = self.spec
        assert spec.arena is not None
        meets = spec.layers or spec.arena.sums or spec.reads_nodes or spec.leads
        if spec.diffusing_rounds:
            return (("states",), ("end",), ("begin",)) if meets else (("states",), ("end", "begin"))
        return (("states", "end"), ("begin",)) if meets else (("states", "end", "begin"),)

    @property
    def in_lists(self) -> tuple[EpochBlocks, ...]:
        """Kinds that lanes take node by node."""
        return tuple(k for k in self.spec.blocks if not k.apart and k.kind != "artificial")

    @property
    def apart(self) -> tuple[EpochBlocks, ...]:
        return tuple(k for k in self.spec.blocks if k.apart)

    @property
    def waiting(self) -> list[EpochBlocks]:
        """Kinds of these whose instances with events are taken together."""
        return [k for k in self.apart if k.has_net and not k.watches and self.spec.ptx]

    def slot(self, k: int) -> str:
        """Offset of the slots of a step; other work-groups may still read those of the last one."""
        return f"turn % 2 * count_{k} + " if self.spec.spreads else ""

    def turned(self, array: str, at: str) -> str:
        """Place of a number in an array that other work-groups read when it is of their turn."""
        return f"((volatile __global {self.bits} *){array})[{at}]"

    @property
    def bits(self) -> str:
        """Type of the bits of a number, of which the last says of which turn it is."""
        return "ulong" if self.spec.real == "double" else "uint"

    def of_turn(self, number: str) -> str:
        return f"as_{self.bits}({number}) / 2 * 2 + phase"

    def opening(self, kind: EpochBlocks, known: int = 0) -> str:
        """Begin of statements for an instance; `known`: bits of the list, where it has its own."""
        space = " " * 12
        instance = f"{space}    const int j = {self.instance(kind)};\n"
        if kind.kind == "density":
            present = self.present(kind)
            lane = (
                f"{space}    if ({present.replace('bits', 'own')}) {{\n" if self.spec.mixed else ""
            )
            return f"{space}{'' if known else f'if ({present}) '}{{\n{lane}{instance}"
        count = self.present(kind)
        return (
            f"{space}for (int n = {count}; n > 0; --n) {{\n{space}    if (*m >= 0) {{\n{instance}"
        )

    def instance(self, kind: EpochBlocks) -> str:
        return f"instances[number * {len(self.spec.blocks)} + {kind.number}] + *m"

    def present(self, kind: EpochBlocks) -> str:
        """Return the expression that is not 0 where a list has a kind; of points how many."""
        if kind.kind == "density":
            return f"bits & {hex(1 << self._rank(kind))}"
        return f"list[{LIST_HEAD + self._rank(kind)}]"

    def is_in(self, known: int, kind: EpochBlocks) -> bool:
        return bool(known >> self._rank(kind) & 1)

    @property
    def old(self) -> CallValues:
        """Values for calls that end the step before."""
        return self._values("old_begin", "old_end", "old_end")

    @property
    def new(self) -> CallValues:
        """Values for calls that begin a step."""
        return self._values("t_begin", "t_mid", "t_end")

    def _values(self, begin: str, now: str, end: str) -> CallValues:
        known = {"t begin": begin, "t now": now, "t end": end}
        times = {name: self._time(of) for name, of in known.items()}
        turn = "turn_before" if now == "old_end" else "turn_now"
        return {"v": "v", "dt": "dt", **times, "pointer": f"({self.seen})[{{}}]", "turn": turn}

    def _time(self, name: str) -> str:
        """Return a time of this step, or of the `old` one, in NEURON's sums of half steps."""
        of, at = name.split("_")
        old = f"max(step - 1, {self.opens})"
        step = old if of == "old" else "min(step, first_step + num_steps - 1)"
        return f"step_begin[{step} - first_time]" + _HALVES[at]

    def times(self, of: str, *names: str) -> str:
        """Return statements that set the begin of a step, ``old`` or ``t``, and its other times."""
        values = {"begin": self._time(f"{of}_begin")}
        values |= {name: f"{of}_begin{_HALVES[name]}" for name in names}
        return " ".join(f"const double {of}_{name} = {x};" for name, x in values.items())

    def closing(self, kind: EpochBlocks) -> str:
        space = " " * 12
        step = "".join(f"{space}    {n} += {k * WARP};\n" for n, k in self._steps(kind))
        inner = kind.kind != "density" or self.spec.mixed
        return (f"{space}    }}\n" if inner else "") + step + f"{space}}}\n"

    def skipping(self, kind: EpochBlocks) -> str:
        """Statement that passes the instances of a kind."""
        count = f"list[{LIST_HEAD + self._rank(kind)}]"
        if kind.kind == "density":
            count = f"(bits >> {self._rank(kind)} & 1)"
        steps = self._steps(kind)
        return " ".join(f"{name} += {count} * {lines * WARP};" for name, lines in steps)

    def _steps(self, kind: EpochBlocks) -> list[tuple[str, int]]:
        """Pointers that an instance of a kind moves, and the lines by which it does."""
        state = "local_state" if kind.local else "state"
        lines = [("m", 1), ("p", kind.num_values), (state, len(kind.in_lines))]
        return [(name, number) for name, number in lines if number]

    @property
    def begin(self) -> str:
        """Statements that set the pointers to the first instance of a node."""
        lines = 4 if self.spec.inflow else 2
        first = f"m = member; p = value + {lines * WARP}; state = first_state;"
        return first + (" local_state = first_local;" if self.spec.local_lines else "")

    def _rank(self, kind: EpochBlocks) -> int:
        density = kind.kind == "density"
        alike = [k.number for k in self.spec.blocks if (k.kind == "density") == density]
        return alike.index(kind.number)


def is_quick(kind: KindBlocks) -> bool:
    """Whether the functions of a kind are called in lists of nodes alone."""
    return kind.kind == "density" and not kind.takes_events and bool(kind.functions)


def terms(dt: float, tau: np.ndarray, real: str) -> int:
    """Count the terms of ``(exp(-x) - 1) / x`` for ``x = dt/tau``; 0 where x can be too large.

    >>> terms(0.025, np.array([1.0, 2.0]), "double"), terms(0.025, np.array([0.01, 2.0]), "double")
    (8, 0)
    """
    if not (tau > 0).all():
        return 0
    most = dt / float(tau.min()) * (1 + 1e-6)
    if not most < log(2) / 2:
        return 0
    eps = float(np.finfo(np.float64 if real == "double" else np.float32).eps)
    every = sum(name.startswith("exp_") for name in coefficients(real))
    enough = (n for n in range(1, every) if most**n / factorial(n + 1) < eps / 4)
    return next(enough, every)


_OF_INSTANCE = frozenset(
    {
        *("v", "t", "dt", "parameter", "state", "output", "i", "g", "table", "flag", "noise"),
        *("weight", "other_weight", "send", "arm", "watch", "stream", "drawn"),
    }
)
_ENDS = ("after_solve", "before_step", "before_breakpoint")
_MOST_CLASSES = 3  # of nodes that have statements of their own
_FEW_CLASSES = 8  # up to which some have
_FEW_LISTS = 128  # in a launch: statements for classes then bring less than they take to compile
_LONG = 8  # steps of a launch that can do the work of one more
_MOST_NUMBERS = 256  # that are arguments of the kernel


def takes_apart(model: Model) -> frozenset[int]:
    """Return kinds of point processes that stand alone, whose instances lanes take one by one."""
    apart, played = set(), {p.kind for p in model.played}
    played |= model.added_kinds | {to.kind for to in model.read.values()}
    if model.needs & BY_LAYERS:
        return frozenset()
    for k, kind in enumerate(model.kinds):
        program = kind.mechanism.program
        roles = {a.role for block in program.blocks.values() for a in block}
        several = bool((np.diff(kind.node) == 0).any())
        several |= model.forest.num_cells > 1 and bool(kind.varying)
        if kind.mechanism.kind != "point" or not several or k in played or model.of_last(k):
            continue
        if roles <= _OF_INSTANCE and not set(_ENDS) & set(program.blocks):
            apart.add(k)
    return frozenset(apart)


def node_words(model: Model) -> np.ndarray:
    """(n,) int64: number of each active node in its cell, with `SPECIAL`; -1 of others."""
    active, bounds = active_nodes(model), model.forest.cell_offsets
    first = np.searchsorted(active, bounds)
    words = np.full(model.forest.num_nodes, -1)
    words[active] = np.arange(len(active)) - np.repeat(first[:-1], np.diff(first))
    special = np.zeros(len(words), bool)
    special[model.sources.detector_node] = True
    for played in model.played:
        special[model.kinds[played.kind].node[played.instance]] = True
    return np.where(special, words | SPECIAL, words)


def with_blocks(
    spec: ArenaEpochSpec,
    functions: ArenaSpec,
    lists: NodeLists,
    variables: Variables,
    network: Model,
    epoch: int,
    leads: bool = False,
) -> tuple[ArenaEpochSpec, list[float]]:
    """Return a plan's spec with its kinds, and numbers, also of ions, that are arguments."""
    model, (ions, numbers) = variables.model, constant_ions(functions.kinds, variables)
    apart = takes_apart(network)
    held = set() if leads or network.diffusions else held_kinds(functions.kinds, network)
    added = network.added_kinds
    blocks, scalar = [], 0
    for k, (kind, text) in enumerate(zip(model.kinds, functions.kinds, strict=True)):
        uniform = lists.numbers.uniform[k]
        of_lane = [n for n in kind.varying if n not in uniform and k not in apart]
        where = (
            {name: f"scalar[{scalar + i}]" for i, name in enumerate(uniform)}
            | {name: f"p[{i * WARP}]" for i, name in enumerate(of_lane)}
            if k not in apart
            else {}
        )
        expressions = [*ions, *_parameters(k, variables, where, numbers)]
        scalar += len(uniform)
        quick = is_quick(text)
        lined = quick and bool(text.states) and k not in added
        blocks.append(
            EpochBlocks(
                **fields_of(text), given=tuple(expressions), num_values=len(of_lane), quick=quick,
                held=k in held and k not in added, local=spec.kinds[k].local,
                lined=lined, apart=k in apart, unread=lists.lanes.kinds[k].unread,
                shown=network.states_read(k) if lined else (), leads=leads,
            )
        )  # fmt: skip
    texts, blocks, numbers_of_terms = _with_functions(spec, functions.kinds, blocks, variables)
    spec = replace(
        spec,
        arena=replace(functions, by_cell=True, far=spec.far, kinds=tuple(texts)),
        classes=() if lists.lanes.mixed else _classes(lists),
        mixed=lists.lanes.mixed,
        selects=epoch >= _LONG,
        terms=numbers_of_terms,
        blocks=tuple(blocks),
        num_numbers=len(numbers),
        nernst=functions.nernst,
        currents_read=tuple(n for n in functions.ions if f"i{n}" in _read(functions.kinds)),
        reads_nodes=reads_nodes(network),
    )
    return spec, numbers


def _parameters(
    k: int, variables: Variables, where: dict[str, str], numbers: list[float]
) -> list[tuple[str, str, str]]:
    """Return expressions for the parameters of kind `k`; single ones become further `numbers`.

    `where` has the expressions of those that differ between instances.
    """
    kind, expressions = variables.model.kinds[k], list[tuple[str, str, str]]()
    played = {p.parameter for p in variables.model.played if p.kind == k}
    for name in kind.mechanism.parameters:
        value, expression = kind.parameters[name], where.get(name)
        if np.ndim(value) == 0:
            if len(numbers) >= _MOST_NUMBERS:
                continue
            expression = f"numbers.n{len(numbers)}"
            numbers.append(float(np.append(variables.parameters[k].get(name, []), value)[0]))
        if expression is not None and name not in played:
            expressions.append(("parameter", name, expression))
    return expressions


def _with_functions(
    spec: ArenaEpochSpec,
    kinds: Sequence[KindBlocks],
    blocks: Sequence[EpochBlocks],
    variables: Variables,
) -> tuple[list[KindBlocks], list[EpochBlocks], tuple[int, ...]]:
    """Return kinds and blocks with functions for lists, and the numbers of terms in use."""
    texts, printed, terms, count = list[KindBlocks](), list[EpochBlocks](), set[int](), 0
    for block, kind in zip(blocks, kinds, strict=True):
        if not block.quick:
            texts.append(kind)
            printed.append(block)
            continue
        lanes = Lanes(spec.ptx, _few_terms(variables, kind.number, spec.real))
        found = _for_lanes(block, variables, spec.real, lanes, spec.most_once - count)
        texts.append(replace(kind, functions=found.functions))
        printed.append(replace(found, first_constant=count))
        count += len(found.constants)
        every = {number for *_, number in lanes.terms}
        terms |= {number for number in every if f"node_grown_{number}_(" in found.functions}
    return texts, printed, tuple(sorted(terms))


def _few_terms(variables: Variables, kind: int, real: str) -> tuple[tuple[str, int, int], ...]:
    """Columns of a kind's tables that can be time constants, see `Lanes`."""
    columns = (
        (table, column, terms(variables.model.dt, values[:, column], real))
        for table, values in variables.tables[kind].items()
        for column in range(values.shape[1])
    )
    return tuple(found for found in columns if found[2])


def _for_lanes(
    block: EpochBlocks, variables: Variables, real: str, lanes: Lanes, room: int
) -> EpochBlocks:
    """Return a kind with functions for lanes; they take at most `room` constants, or none."""
    compiled = variables.model.kinds[block.number].mechanism.compiled
    names, outputs = [name for name, *_ in block.blocks], variables.declared(block.number)
    how = real, 1, block.alike, outputs, lanes

    def printed(lifts: bool) -> tuple[str, list[str], list[tuple[Argument, ...]]]:
        functions = Functions(compiled, *how)
        text, constants = functions.lifted(names) if lifts else (functions.text(names), [])
        return text, constants, [functions.calls(name) for name in names]

    for lifts in (True, False):
        key = "lanes", *how, *names, lifts
        text, constants, calls = compiled.once(key, partial(printed, lifts))
        if len(constants) <= room:
            break
    functions = zip(block.blocks, calls, strict=True)
    blocks = tuple((name, function, arguments) for (name, function, _), arguments in functions)
    return replace(block, functions=text, blocks=blocks, constants=tuple(constants))


def _is_number(expression: str) -> bool:
    """Whether an expression is a number among the arguments of the kernel."""
    return expression.startswith("numbers.")


def _classes(lists: NodeLists) -> tuple[int, ...]:
    """Return sets of density mechanisms, as bits, that most lists have.

    There are none if the launch has few lists, or the model many such sets.
    """
    if (lists.homes[:, 3] - lists.homes[:, 2]).sum() < _FEW_LISTS:
        return ()
    bits, count = np.unique(lists.rows[:, 0], return_counts=True)
    order = np.argsort(-count, kind="stable")
    several = [int(b) for b in bits[order] if b]
    return tuple(several[:_MOST_CLASSES]) if len(several) <= _FEW_CLASSES else ()


def _of_ions(kinds: Sequence[KindBlocks], directions: tuple[str, ...]) -> set[tuple[str, str]]:
    """Blocks and variables of ions of all arguments of some directions."""
    return {
        (block, a.name)
        for kind in kinds
        for block, _, arguments in kind.blocks
        for a in arguments
        if a.role == "ion" and a.direction in directions
    }


def _read(kinds: Sequence[KindBlocks]) -> set[str]:
    return {name for _, name in _of_ions(kinds, ("in", "inout"))}


def _written(kinds: Sequence[KindBlocks], ions: Sequence[str]) -> set[str]:
    """Variables of ions that blocks set, besides currents that they add up."""
    currents = {f"i{ion}" for ion in ions}
    found = _of_ions(kinds, ("out", "inout"))
    return {name for block, name in found if block != "current" or name not in currents}


def constant_ions(
    kinds: Sequence[KindBlocks], variables: Variables
) -> tuple[list[tuple[str, str, str]], list[float]]:
    """Variables of ions that are one number for good, and these numbers."""
    written, constant = _written(kinds, [i.name for i in variables.model.ions]), []
    numbers = list[float]()
    for ion in variables.model.ions:
        advances = ((ion.style & ADVANCE_REVERSAL) > 0).any()
        for name in ion.variables[:3]:
            values = variables.ions[name][ion.node]
            changes = name in written or (advances and name == ion.variables[0])
            if changes or not len(values) or (values != values[0]).any():
                continue
            constant.append(("ion", name, f"numbers.n{len(numbers)}"))
            numbers.append(float(values[0]))
    return constant, numbers


def held_kinds(kinds: Sequence[KindBlocks], network: Model) -> set[int]:
    """Return kinds whose currents the end of a step does not change, so they may come first.

    None if nodes meet between the end of a step and the next one's currents.
    """
    names = [ion.name for ion in network.ions]
    needs = network.needs & {"read_currents", *BY_LAYERS}
    if needs or reads_nodes(network) or any(kind.has(x) for kind in kinds for x in _ENDS):
        return set()
    changed = _written(kinds, names)
    for ion in network.ions:
        if ((ion.style & ADVANCE_REVERSAL) > 0).any():
            changed.add(ion.variables[0])
    played = {p.kind for p in network.played}
    currents = {f"i{name}" for name in names}
    return {
        kind.number
        for kind in kinds
        if kind.kind == "density"
        and not (kind.takes_events or kind.outputs or kind.number in played)
        and _may_come_first(kind, changed, currents)
    }


def reads_nodes(model: Model) -> bool:
    """Whether pointers lead to states at other nodes."""
    kinds = model.kinds
    nodes = ((kinds[k].node, kinds[to.kind].node[to.instance]) for (k, _), to in model.read.items())
    return any((own != other).any() for own, other in nodes)


def _may_come_first(kind: KindBlocks, changed: set[str], currents: set[str]) -> bool:
    """Whether the current of a kind reads nothing that others change, and sets nothing of ions."""
    if not kind.has("current") or {*kind.asks("current", "pointer")} & {*kind.reads}:
        return False
    arguments = kind.arguments("current")
    sets = {
        a.role
        for a in arguments
        if a.direction != "in" and not (a.role == "ion" and a.name in currents)
    }
    reads = {a.name for a in arguments if a.role == "ion" and a.direction == "in"}
    return sets <= {"i", "g", "ion_current"} and not reads & changed
