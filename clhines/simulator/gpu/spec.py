"""Specs of epoch kernels on GPUs: all that the planner decides and the templates print."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from clhines.simulator.gpu.blocks import HALVES, ListBlocks, SiteBlocks
from clhines.simulator.gpu.words import (
    LIST_HEAD,
    MAX_UNITS,
    MECHANISMS,
    NAMED_BARRIERS,
    RECORDED,
    SITE,
    SLOT_RUN,
    SPECIAL,
    WARP,
    ColumnRow,
)
from clhines.simulator.kinds.kind import CallValues
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.mechanisms.emit.series import SeriesNumbers
from clhines.solver.plan.by_segment import schedule
from clhines.solver.plan.kernel_spec import Parameter, TemplateSpec, Word
from clhines.solver.plan.plan import Limits


@dataclass(frozen=True)
class KindPlan:
    """What a plan decides for a mechanism: instances per work-group, and storage of states."""

    states: tuple[str, ...]
    density: bool  # currents and conductances are multiplied by a factor for each instance
    takes_events: bool
    most: int = 0  # instances per work-group
    factor: str = ""  # a literal: a node's factor over its C/dt
    local: bool = False  # states are in local memory


@dataclass(frozen=True)
class OnChip:
    """Describe the data that a work-group has in registers and local memory during a launch."""

    spec: EpochSpec

    @property
    def eliminates(self) -> bool:
        return self.spec.makes_factors or not self.spec.constant

    @property
    def whole(self) -> bool:
        return self.spec.advances and not self.spec.constant

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the arrays by node that stay in registers or local memory during a launch."""
        if self.spec.makes_factors:
            return "d", "tie"
        if self.spec.by_node:
            return "w", "a", "v"
        if self.spec.constant:
            return "c", "f1", "inverse", *(("k",) if self.spec.inflow else ())
        return "c", "d", "tie", *(("g", "k") if self.spec.inflow else ()), "v"

    def begin_of(self, name: str) -> str:
        """Return the expression that initialises entry k of `name`, one of the `held` arrays."""
        if self.spec.by_node and name != "v":
            return "0"
        past = "k >= mine.s1 ? 0 : " if self.spec.advances else ""
        return f"{past}all_{name}[mine.s0 + k]"

    @property
    def tree_rounds(self) -> int:
        """The most elimination rounds that a cell needs for its tree of segments' last nodes."""
        all_of_them = self.spec.makes_factors or not self.spec.dense
        return self.spec.rounds if all_of_them else self.spec.before

    @property
    def in_warp(self) -> bool:
        return self.spec.ptx and self.spec.lanes == self.spec.warp

    @property
    def last_round(self) -> str:
        """Expression for how many elimination rounds a cell's lanes take part in.

        It is the number that the cell needs, unless other cells' lanes wait at the same barriers.
        """
        alone = self.in_warp or (self.spec.ptx and self.whole)
        return "mine.s5" if alone and not self.spec.dense else str(self.tree_rounds)

    @property
    def column_reals(self) -> int:
        """Reals in local memory per lane, for its segment's last column; 0 without layers."""
        k = self.spec.potentials
        return 2 * (2 * k + k * (k - 1) // 2) + k * k + k if k else 0

    @property
    def num_columns(self) -> int:
        return self.spec.capacity // self.spec.potentials if self.spec.potentials else 0

    @property
    def alone(self) -> bool:
        """Whether a work-group has one cell and all its work-items are lanes of that cell."""
        return self.spec.by_node and self.spec.units == 1

    @property
    def apart(self) -> int:
        """How many work-items only advance mechanisms; they come after all others."""
        return self.spec.extra if self.spec.constant else 0

    @property
    def step_of_active(self) -> int:
        return self.apart or self.spec.work_group

    @property
    def local_bytes(self) -> int:
        spec, factor = self.spec, self.spec.makes_factors
        held = 0 if spec.far else len(self.held)
        tree = self.column_reals or (7 if self.eliminates else 3)
        reals = spec.units * (held * spec.capacity + tree * spec.lanes)
        ints = spec.units * (2 * spec.segment + self.num_columns)
        ints += spec.units * len(spec.kinds) if spec.by_node else sum(k.most for k in spec.kinds)
        if spec.dense:
            ints += spec.units * (spec.lanes + 1)
        if spec.dense and not factor:
            reals += spec.units * (spec.dense * (spec.dense + 1) + 1)
        if spec.constant and not factor:
            reals += spec.units
        reals += spec.units * spec.local_lines * WARP + spec.most_once * spec.by_node
        if spec.has_slots:
            reals += 2 * (spec.slots + 1)
            reals += sum(len(k.states) * k.most for k in spec.kinds if k.local)
        gaps = 8 * (4 + len(spec.kinds))  # arrays begin at multiples of 8 bytes
        return (8 if spec.real == "double" else 4) * reals + 4 * ints + gaps


@dataclass(frozen=True, kw_only=True)
class EpochSpec(TemplateSpec):
    """Spec of epoch kernels, which advance whole cells for many steps.

    A work-item eliminates a segment (a chain of nodes). A plan leaves `arena` and `blocks` empty;
    `functions` sets them when the arenas are filled.
    """

    templates: ClassVar[tuple[str, ...]] = (
        "simulator/epoch_factors",
        "simulator/epoch_constant",
        "simulator/epoch_by_instance",
        "simulator/epoch_by_node",
    )
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "advance": (
            "launch_ launch if advances, int num_units, const int *restrict units",
            "const int *restrict rows, const int *restrict links, const int *restrict children",
            "const real *restrict all_d if by_place",
            "const real *restrict all_tie if not potentials",
            "const real *restrict all_up if not potentials",
            "const int *restrict row_of_column if potentials",
            "const real *restrict rows_of_factors if potentials",
            "real *restrict all_f1 if makes_factors, real *restrict all_f2 if makes_factors",
            "real *restrict all_inverse if makes_factors",
            "real *restrict tree_factors if makes_factors",
            "real *restrict tree_inverses if makes_factors",
        ),
        "publish": ("int num_sources, int *ints, regions_ regions",),
    }
    of_steps: ClassVar[tuple[str, ...]] = (  # parameters for kernels that advance
        "const real *restrict all_f1 if constant, const real *restrict all_f2 if constant",
        "const real *restrict all_inverse if constant",
        "const real *restrict tree_factors if constant",
        "const real *restrict tree_inverses if constant",
        "const real *restrict all_c if by_place, const real *restrict all_g if flows",
        "const real *restrict all_k if by_place, real *restrict all_v",
        "const int *restrict slot_runs if has_slots, const int *restrict soma_detector if in_steps",
        "const int *restrict homes if by_node, const int *restrict instances if by_node",
        "const int *restrict node_lists if by_node, const int *restrict node_places if by_node",
        "const int *restrict node_members if by_node, const int *restrict node_active if by_node",
        "const int *restrict node_bits if mixed",
        "const real *restrict node_scalars if by_node, const real *restrict node_values if by_node",
        "real *restrict node_states if by_node, numbers_ numbers if by_node",
        "const instant *restrict step_begin, real dt, instant half_dt",
        "ulong seed, int capacity, int *restrict spike_count if not in_steps",
        "int *restrict spike_source if not in_steps, instant *restrict spike_time if not in_steps",
        "int slots if grid, int num_targets if grid",
        "real scale_of_events if grid, long *restrict incoming if grid",
        "int *restrict grid_count if lists_steps, int *restrict grid_source if lists_steps",
        "int *restrict grid_step if lists_steps",
        "int *restrict failed, const int *restrict record_start",
        "const int *restrict record_list, real *restrict record_v",
        "int record_every, int num_records, int num_mem, const int *restrict mem_first",
        "const int *restrict mem_column, const int *restrict mem_index",
        "real *restrict mem_rows, real *mem, instant *clock, int *ints, regions_ regions",
        "real *far_held if far",
        "real *restrict seen_v if points, int num_places if points",
        "ulong *restrict arrived if meets, real *restrict shared if spreads",
    )
    of_kind: ClassVar[str] = "const int *restrict {0}__start, const int *restrict {0}__list"
    table: ClassVar[str] = "const int *restrict"  # type of the arrays that `joined` joins
    link: ClassVar[Word] = schedule.LINK
    at_elimination: ClassVar[Word] = schedule.AT_ELIMINATION
    family: ClassVar[Word] = schedule.FAMILY
    lane_counts: ClassVar[Word] = schedule.LANE_COUNTS
    site: ClassVar[Word] = SITE
    slot_run: ClassVar[Word] = SLOT_RUN
    recorded: ClassVar[Word] = RECORDED
    special: ClassVar[int] = SPECIAL
    mechanisms: ClassVar[int] = MECHANISMS
    warp: ClassVar[int] = WARP
    most_once: ClassVar[int] = 64  # numbers that lists compute once per launch
    real: str
    branches: ClassVar[bool] = False  # in rate functions: they would keep gates apart
    phase: str = "advance"  # "factor": the constant factors, once; "advance": steps
    constant: bool = False  # only the roots' conductances change
    inflow: bool  # there are constant currents
    lanes: int  # per cell
    units: int = 1  # cells per work-group
    extra: int = 0  # work-items for mechanisms only; with constant factors they do all of these
    segment: int  # most nodes in a segment
    capacity: int  # the largest cell's value count, plus one
    rounds: int = 1  # most rounds in a cell
    before: int = 0  # with constant factors: rounds after which at most `dense` nodes remain,
    dense: int = 0  # to be solved by their inverse matrix; 0: rounds only
    slots: int = 0  # instances per work-group
    secondorder: bool = False
    ptx: bool
    fused: bool = False
    kinds: tuple[KindPlan, ...] = ()
    registers: int = 0  # most per work-item (NVIDIA's compiler); 0: its choice
    whole: bool = False  # record rows have all voltages, in device order
    samples: bool = False  # instances' states and currents are recorded
    joined: tuple[str, ...] = ()  # integer tables in one array: a launch has fewer arguments
    in_steps: bool = True  # all events come in whole steps: the solve compares thresholds
    detects: bool = False  # there are detectors besides the somas'
    by_node: bool = field(default=False, repr=False)  # a lane has a node, see `lists`
    parts: int = field(default=1, repr=False)  # work-groups per cell, which share its lists
    most_lists: int = field(default=0, repr=False)  # most lists in a cell, if it has several groups
    uniform: tuple[tuple[str, ...], ...] = field(default=(), repr=False)  # one number per list
    local_lines: int = field(default=0, repr=False)  # lines for a cell's states in local memory
    crowded: bool = field(default=False, repr=False)  # many cells in flight: short statements
    far: bool = field(default=False, repr=False)  # large cells' node values are in global memory
    arena: ArenaSpec | None = field(default=None, repr=False)  # the functions' spec; None in a plan
    blocks: tuple[ListBlocks | SiteBlocks, ...] = field(default=(), repr=False)
    num_numbers: int = field(default=0, repr=False)  # reals that are kernel arguments
    classes: tuple[int, ...] = field(default=(), repr=False)  # classes with their own statements
    mixed: bool = False  # a list's nodes have different mechanisms
    joins: int = 0  # work-groups that wait for each other after each step; 0: none
    layers: int = 0  # target layers whose events precede the currents; 0: node by node
    ends_later: bool = False  # the next launch ends the last step, if one is `pending`
    reads_nodes: bool = False  # pointers lead to states at other nodes
    turns: int = 0  # steps for which last instances' values are stored; 0: none are read
    potentials: int = 0  # in a column: nodes have layers around them, see `columns`; 0: no layers
    driven: tuple[int, ...] = field(default=(), repr=False)  # layers with electrode currents
    diffusing_rounds: int = 0  # elimination rounds for diffusing states; 0: nothing diffuses
    diffusing_rows: int = field(
        default=0, repr=False
    )  # the most in a cell; 0: too large for local memory
    leads: bool = False  # has the last instances' cells, whose values other kernels read
    selects: bool = field(default=False, repr=False)  # the first step computes unused states
    terms: tuple[int, ...] = field(default=(), repr=False)  # terms of exponentials, see `terms`
    nernst: tuple[str, ...] = field(default=(), repr=False)  # ions with Nernst's potential
    currents_read: tuple[str, ...] = field(default=(), repr=False)  # ions whose current is read

    @property
    def template(self) -> str:  # type: ignore[override]
        factors, constant, by_instance, by_node = self.templates
        if self.makes_factors:
            return factors
        return constant if self.constant else by_node if self.by_node else by_instance

    def parameters(self, kernel: str) -> list[Parameter]:
        parameters = super().parameters(kernel)
        if kernel == "publish" or not self.advances:
            return parameters
        of_kinds = tuple(self.of_kind.format(kind.name) for kind in self.sites)
        parameters += self._active_parameters((*self.of_steps, *of_kinds))
        if self.joined:
            parameters = [p for p in parameters if p.type != self.table]
            parameters += [Parameter("tables", self.table), Parameter("begins", "begins_")]
        names = self.series_numbers.arguments if self.takes_series else ()
        return [*parameters, *(Parameter(name, "real") for name in names)]

    @property
    def of_launch(self) -> tuple[str, ...]:
        """The numbers in the argument `launch`, which differ from launch to launch."""
        of_epoch = ("looks",) * self.by_node + ("pending",) * self.ends_later
        return ("first_step", "num_steps", "first_time", "record_row", *of_epoch)

    @property
    def columns(self) -> ColumnRow:
        return ColumnRow(self.potentials)

    @property
    def makes_factors(self) -> bool:
        return self.phase == "factor"

    @property
    def advances(self) -> bool:
        return not self.makes_factors

    @property
    def flows(self) -> bool:
        return self.by_place and self.inflow and not self.constant

    @property
    def takes_series(self) -> bool:
        return self.advances and (self.by_node or (bool(self.kinds) and not self.constant))

    @property
    def has_slots(self) -> bool:
        return bool(self.kinds) and not self.by_node

    @property
    def by_place(self) -> bool:
        return not self.by_node

    @property
    def grid(self) -> bool:
        return self.arena is not None and self.arena.grid

    @property
    def lists_steps(self) -> bool:
        return self.grid or self.in_steps

    @property
    def series_numbers(self) -> SeriesNumbers:
        return SeriesNumbers(self.real)

    @property
    def build_options(self) -> tuple[str, ...]:
        return (f"-cl-nv-maxrregcount={self.registers}",) if self.registers else ()

    @property
    def work_group(self) -> int:
        return self.lanes * self.units + self.extra

    @property
    def chip(self) -> OnChip:
        return OnChip(self)

    @property
    def required_size(self) -> str:
        """The attribute that tells the compiler the work-group size, or "".

        NVIDIA's compiler must not know the size if `registers` limits the register count.
        """
        if self.registers:
            return ""
        return " __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))"

    @property
    def of_factors(self) -> EpochSpec:
        plain = replace(self, arena=None, blocks=(), samples=False, detects=False)
        return replace(plain, phase="factor", extra=0, kinds=(), slots=0)

    def fits(self, limits: Limits) -> bool:
        """Whether a device can run the work-groups, and packed integers can hold their indices."""
        kernels = (self, self.of_factors) if self.constant else (self,)
        return (
            self.work_group <= limits.max_work_group
            and max(k.chip.local_bytes for k in kernels) <= limits.local_bytes
            and (self.lanes == WARP or self.units <= NAMED_BARRIERS)
            and self.units <= MAX_UNITS
            and self.slots <= SITE.most("slot")
            and (self.by_node or self.capacity <= SITE.most("place") + 1)
            and (not self.potentials or self.capacity <= RECORDED.most("node"))
        )

    @property
    def sites(self) -> tuple[SiteBlocks, ...]:
        return tuple(kind for kind in self.blocks if isinstance(kind, SiteBlocks))

    @property
    def splits(self) -> bool:
        """Whether work-items that only advance mechanisms have their own loop over steps."""
        return self.ptx and self.constant and bool(self.sites)

    def is_ahead(self, kind: SiteBlocks) -> bool:
        """Whether lanes, with at most one instance each, read a mechanism's events a step early."""
        return kind.summed and kind.most <= self.chip.step_of_active

    def _of_node(self, array: int) -> str:
        cell, place = SITE.read("cell", "site"), SITE.read("place", "site")
        each = len(self.chip.held)
        first = f"({cell}) * {each}" if not array else f"(({cell}) * {each} + {array})"
        return f"all_held[{first} * CAPACITY + ({place})]"

    @property
    def voltage(self) -> str:
        """Expression for the voltage at the node of ``site`` (with constant factors, a root)."""
        if self.constant:
            return f"root_v[{SITE.read('cell', 'site')}]"
        return self._of_node(len(self.chip.held) - 1)

    def factor_of(self, kind: SiteBlocks) -> str:
        return f"{self._of_node(0)} * {kind.factor}" if kind.factor else kind.own_factor

    @cached_property
    def lists(self) -> tuple[ListBlocks, ...]:
        return tuple(kind for kind in self.blocks if isinstance(kind, ListBlocks))

    @property
    def once(self) -> list[str]:
        return [kind.constants_call for kind in self.lists if kind.constants]

    @property
    def num_once(self) -> int:
        return sum(len(kind.constants) for kind in self.lists)

    @property
    def points(self) -> bool:
        return any(kind.points_to_voltages(name) for kind in self.lists for name, *_ in kind.blocks)

    @property
    def meets(self) -> bool:
        """Whether several work-groups wait for each other within a launch."""
        return self.joins > 1 or self.spreads

    @property
    def spreads(self) -> bool:
        return self.parts > 1

    @property
    def leading(self) -> list[ListBlocks]:
        return [kind for kind in self.lists if kind.last and self.leads]

    @property
    def loop(self) -> ListLoop:
        return ListLoop(self)

    @property
    def num_scalars(self) -> int:
        return sum(len(names) for names in self.uniform)


@dataclass(frozen=True)
class ListLoop:
    """Print a lane's loop over its lists of nodes, and over the mechanisms at each node.

    A list has up to 32 nodes, which a warp's lanes advance together, see `lists`.
    """

    spec: EpochSpec

    @property
    def opens(self) -> str:
        return "first_step - pending" if self.spec.ends_later else "first_step"

    @property
    def seen(self) -> str:
        """Expression for all cells' voltages at the beginning of a step, which POINTERs read."""
        return "(volatile __global const real *)seen_v + (step % 2) * num_places"

    @property
    def passes(self) -> tuple[tuple[str, ...], ...]:
        """The loops over a cell's lists in a step; for each loop the names of its phases.

        ``states`` and ``end`` end the step before, ``begin`` begins a step. Between two loops the
        cell's lanes wait at a barrier.
        """
        spec = self.spec
        assert spec.arena is not None
        meets = spec.layers or spec.arena.sums or spec.reads_nodes or spec.leads
        if spec.diffusing_rounds:
            return (("states",), ("end",), ("begin",)) if meets else (("states",), ("end", "begin"))
        return (("states", "end"), ("begin",)) if meets else (("states", "end", "begin"),)

    @property
    def first_list(self) -> str:
        return f"part + {self.spec.parts} * warp" if self.spec.parts > 1 else "warp"

    @property
    def list_width(self) -> int:
        return LIST_HEAD + sum(not kind.density for kind in self.spec.kinds)

    @property
    def sums_apart(self) -> tuple[str, ...]:
        """Ions whose currents no mechanism reads: they are summed only in steps that show them.

        These steps are recorded, or the last of a launch.
        """
        if self.spec.arena is None:
            return ()
        unread = [ion for ion in self.spec.arena.ions if ion not in self.spec.currents_read]
        return tuple(ion for ion in unread if all(k.held for k in self.with_ions((ion,))))

    def with_ions(self, ions: tuple[str, ...]) -> list[ListBlocks]:
        names = {f"i{ion}" for ion in ions}
        return [
            kind for kind in self.spec.lists if kind.has("current") and any(
                a.direction != "in" and a.role in ("ion", "ion_current") and a.name in names
                for a in kind.arguments("current")
            )
        ]  # fmt: skip

    def adding(self, ions: tuple[str, ...]) -> dict[int, ListBlocks]:
        return {k.number: replace(k, sums=ions) for k in self.spec.lists}

    @property
    def in_lists(self) -> tuple[ListBlocks, ...]:
        return tuple(k for k in self.spec.lists if not k.apart and k.kind != "artificial")

    @property
    def apart(self) -> tuple[ListBlocks, ...]:
        return tuple(k for k in self.spec.lists if k.apart)

    @property
    def waiting(self) -> list[ListBlocks]:
        """Mechanisms for which a warp lists the instances with due events.

        Then only these instances' events are handled, a lane for each instance.
        """
        return [k for k in self.apart if k.has_net and not k.watches and self.spec.ptx]

    def slot(self, k: int) -> str:
        return f"turn % 2 * count_{k} + " if self.spec.spreads else ""

    def turned(self, array: str, at: str) -> str:
        return f"((volatile __global {self.bits} *){array})[{at}]"

    @property
    def bits(self) -> str:
        """Integer type as long as a real; the last bit tells which step wrote the real."""
        return "ulong" if self.spec.real == "double" else "uint"

    def of_turn(self, number: str) -> str:
        """Return OpenCL text: the bits of the real `number`, with ``phase`` as the last bit.

        The variable ``phase``, 0 or 1, tells the step in which a real was written. A work-group
        that reads the real waits until this bit is its own step's phase.
        """
        return f"as_{self.bits}({number}) / 2 * 2 + phase"

    def opening(self, kind: ListBlocks, known: int = 0) -> str:
        """Return the statements that open the loop over a mechanism's instances in a list.

        If the statements are for lists with one known set of mechanisms, `known` has a bit for each
        of them, else it is 0.
        """
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

    def instance(self, kind: ListBlocks) -> str:
        return f"instances[number * {len(self.spec.blocks)} + {kind.number}] + *m"

    def present(self, kind: ListBlocks) -> str:
        """Return the expression for the most instances of a mechanism at one node in a list.

        For a density mechanism the expression is a bit: nonzero if the list has the mechanism.
        """
        if kind.kind == "density":
            return f"bits & {hex(1 << self._rank(kind))}"
        return f"list[{LIST_HEAD + self._rank(kind)}]"

    def is_in(self, known: int, kind: ListBlocks) -> bool:
        return bool(known >> self._rank(kind) & 1)

    @property
    def old(self) -> CallValues:
        return self._values("old_begin", "old_end", "old_end")

    @property
    def new(self) -> CallValues:
        return self._values("t_begin", "t_mid", "t_end")

    def _values(self, begin: str, now: str, end: str) -> CallValues:
        variables = {"t begin": begin, "t now": now, "t end": end}
        times = {name: self._time(variable) for name, variable in variables.items()}
        turn = "turn_before" if now == "old_end" else "turn_now"
        return {"v": "v", "dt": "dt", **times, "pointer": f"({self.seen})[{{}}]", "turn": turn}

    def _time(self, name: str) -> str:
        prefix, at = name.split("_")
        old = f"max(step - 1, {self.opens})"
        step = old if prefix == "old" else "min(step, first_step + num_steps - 1)"
        return f"step_begin[{step} - first_time]" + HALVES[at]

    def times(self, prefix: str, *names: str) -> str:
        """Return declarations of a step's begin and of its times `names`: ``mid``, ``end``.

        The prefix ``t`` stands for this step, ``old`` for the step before.
        """
        values = {"begin": self._time(f"{prefix}_begin")}
        values |= {name: f"{prefix}_begin{HALVES[name]}" for name in names}
        return " ".join(f"const instant {prefix}_{name} = {x};" for name, x in values.items())

    def closing(self, kind: ListBlocks) -> str:
        space = " " * 12
        step = "".join(f"{space}    {n} += {k * WARP};\n" for n, k in self._steps(kind))
        inner = kind.kind != "density" or self.spec.mixed
        return (f"{space}    }}\n" if inner else "") + step + f"{space}}}\n"

    def skipping(self, kind: ListBlocks) -> str:
        """Return the statement that moves the pointers to a list's numbers past all instances."""
        count = f"list[{LIST_HEAD + self._rank(kind)}]"
        if kind.kind == "density":
            count = f"(bits >> {self._rank(kind)} & 1)"
        steps = self._steps(kind)
        return " ".join(f"{name} += {count} * {lines * WARP};" for name, lines in steps)

    def _steps(self, kind: ListBlocks) -> list[tuple[str, int]]:
        state = "local_state" if kind.local else "state"
        lines = [("m", 1), ("p", kind.num_values), (state, len(kind.in_lines))]
        return [(name, number) for name, number in lines if number]

    @property
    def begin(self) -> str:
        lines = 4 if self.spec.inflow else 2
        first = f"m = member; p = value + {lines * WARP}; state = first_state;"
        return first + (" local_state = first_local;" if self.spec.local_lines else "")

    def _rank(self, kind: ListBlocks) -> int:
        density = kind.kind == "density"
        alike = [k.number for k in self.spec.blocks if (k.kind == "density") == density]
        return alike.index(kind.number)
