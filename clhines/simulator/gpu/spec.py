"""Specs of the kernels of epochs, and numbers of rate functions for lanes side by side."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from clhines.simulator.kinds.spec import (
    ArenaSpec,
    MechanismSpec,
    SampledSpec,
    of_each_kind,
    sampled_source,
)
from clhines.simulator.mechanisms.emit.exponentials import LOG2, series
from clhines.simulator.mechanisms.emit.helpers import bernoulli_coefficients
from clhines.solver.plan.by_segment import schedule
from clhines.solver.plan.kernel_spec import Parameter, Word
from clhines.solver.plan.plan import Limits

NEAR = 0.5  # |x| below which x / (exp(x) - 1) is a series


def coefficients(real: str) -> dict[str, float]:
    """Numbers that ``simulator/common/rates.mako`` takes, by name.

    ``exp_K`` is the coefficient of ``x**K`` in a polynomial for ``(exp(x) - 1) / x`` but for 1 and
    1/2; ``bernoulli_K`` that of ``x**2(K + 1)`` in ``x / (exp(x) - 1)``, enough of them for
    ``|x| < NEAR``; ``log_high`` and ``log_low`` add up to log(2), ``log_inverse`` is 1 over that.
    ``nearly_zero`` is so small that it changes no rate.
    """
    eps = float(np.finfo(np.float64 if real == "double" else np.float32).eps)
    columns = {}
    for k, value in enumerate((1.0, 0.5, *series(real, -LOG2 / 2, LOG2 / 2, 32)[2:])):
        columns[f"exp_{k}"] = _short(value, LOG2 / 2, k, eps)
    for k, exact in enumerate(bernoulli_coefficients(real)):
        columns[f"bernoulli_{k}"] = _short(float(exact), NEAR, 2 * k + 2, eps)
        if abs(exact) * NEAR ** (2 * k + 2) < eps / 64:
            break
    high = float(np.float32(float(LOG2))) if real == "float" else float(LOG2)
    columns |= {"log_high": high, "log_low": float(LOG2 - Fraction(high))}
    columns["log_inverse"] = float(1 / LOG2)
    return {**columns, "nearly_zero": 1e-290 if real == "double" else 1e-30}


@dataclass(frozen=True)
class SeriesNumbers:
    """Numbers of ``simulator/common/rates.mako`` in one precision, as its template prints them."""

    near: ClassVar[float] = NEAR
    real: str

    @property
    def arguments(self) -> dict[str, float]:
        """Numbers that need more than the 32 bits of a GPU's instruction: not literals."""
        every = coefficients(self.real)
        if self.real == "float":
            return {"nearly_zero": every["nearly_zero"]}
        return {k: v for k, v in every.items() if np.float64(v).view(np.int64) & 0xFFFFFFFF}

    @property
    def coefficients(self) -> dict[str, str]:
        """Source of all numbers by name: of ``series__``, or literals."""
        own, real = self.arguments, np.float64 if self.real == "double" else np.float32
        return {
            name: f"series__.{name}" if name in own else f"({real(value).item()!r}{self.suffix})"
            for name, value in coefficients(self.real).items()
        }

    @property
    def suffix(self) -> str:
        return "" if self.real == "double" else "f"


def _short(value: float, reach: Fraction | float, power: int, eps: float) -> float:
    """Leave out the last 32 bits of a coefficient where its term is too small to need them."""
    if abs(value) * float(reach) ** power * 2.0**-21 > eps / 16:
        return value
    bits = (np.float64(value).view(np.int64) + (1 << 31)) & ~np.int64(0xFFFFFFFF)
    return float(bits.view(np.float64))


WARP = 32
_NAMED_BARRIERS = 15  # of NVIDIA's work-groups, besides the usual one
SITE = Word(place=12, cell=4, slot=15)  # of an instance: in the cell, in the work-group
SLOT_RUN = Word(first=16, number=15)  # slots of the instances of a node
RECORDED = Word(lane=16, node=15)  # node: number in the lane's segment
MAX_UNITS = SITE.most("cell") + 1
LIST_HEAD = 5  # numbers of a list of nodes before those of the point kinds
MAX_DENSITIES = 31  # kinds of the membrane, a bit each


def varying(kind: MechanismSpec) -> list[str]:
    """Names of the arrays of a kind's numbers that differ: its factor, then parameters."""
    names = [f"{kind.name}__factor"] if kind.density and not kind.factor else []
    values = zip(kind.parameters, kind.literals, strict=True)
    return names + [f"{kind.name}__p_{name}" for name, literal in values if not literal]


@dataclass(frozen=True)
class OnChip:
    """Data of a group's cells that stay on the chip during a launch, divided among the lanes."""

    spec: EpochSpec

    @property
    def eliminates(self) -> bool:
        """Whether `d` is eliminated in the kernel."""
        return self.spec.makes_factors or not self.spec.constant

    @property
    def whole(self) -> bool:
        return self.spec.advances and not self.spec.constant

    @property
    def held(self) -> tuple[str, ...]:
        """Arrays of the nodes of a cell that stay on the chip."""
        if self.spec.makes_factors:
            return "d", "tie"
        if self.spec.by_node:
            return "w", "a", "v"
        if self.spec.constant:
            return "c", "f1", "inverse", *(("k",) if self.spec.inflow else ())
        return "c", "d", "tie", *(("g", "k") if self.spec.inflow else ()), "v"

    def begin_of(self, name: str) -> str:
        """Return the first value of place k of an array of `held`."""
        if self.spec.by_node and name != "v":
            return "0"
        past = "k >= mine.s1 ? 0 : " if self.spec.advances else ""
        return f"{past}all_{name}[mine.s0 + k]"

    @property
    def tree_rounds(self) -> int:
        """Most rounds in which the tree of segments is contracted."""
        all_of_them = self.spec.makes_factors or not self.spec.dense
        return self.spec.rounds if all_of_them else self.spec.before

    @property
    def in_warp(self) -> bool:
        """Whether the lanes of a cell are those of a warp."""
        return self.spec.ptx and self.spec.lanes == self.spec.warp

    @property
    def last_round(self) -> str:
        """Number of a cell's rounds: its own where no lane of another cell waits for these."""
        alone = self.in_warp or (self.spec.ptx and self.whole)
        return "mine.s5" if alone and not self.spec.dense else str(self.tree_rounds)

    @property
    def alone(self) -> bool:
        """Whether a work-group has one cell and a lane for each work-item."""
        return self.spec.by_node and self.spec.units == 1

    @property
    def apart(self) -> int:
        """Work-items for the mechanisms alone, after those of the cells."""
        return self.spec.extra if self.spec.constant else 0

    @property
    def step_of_active(self) -> int:
        return self.apart or self.spec.work_group

    @property
    def local_bytes(self) -> int:
        spec, factor = self.spec, self.spec.makes_factors
        held = 0 if spec.far else len(self.held)
        tree = 7 if self.eliminates else 3
        reals = spec.units * (held * spec.capacity + tree * spec.lanes)
        ints = spec.units * 2 * spec.segment
        ints += spec.units * len(spec.kinds) if spec.by_node else sum(k.most for k in spec.kinds)
        if spec.dense:
            ints += spec.units * (spec.lanes + 1)
        if spec.dense and not factor:
            reals += spec.units * (spec.dense * (spec.dense + 1) + 1)
        if spec.constant and not factor:
            reals += spec.units
        reals += spec.units * spec.local_lines * WARP + spec.most_once
        if spec.has_slots:
            reals += 2 * (spec.slots + 1)
            reals += sum(len(k.states) * k.most for k in spec.kinds if k.local)
        gaps = 8 * (4 + len(spec.kinds))  # before what must lie at a multiple of 8
        return (8 if spec.real == "double" else 4) * reals + 4 * ints + gaps


@dataclass(frozen=True)
class InstanceCalls:
    """Expressions and calls for one `instance` of a kind, the `q`-th of the work-group's."""

    spec: EpochSpec
    kind: MechanismSpec

    @property
    def needs_instance(self) -> bool:
        """Whether a step needs the number of the instance."""
        kind = self.kind
        stays = all(kind.literals) and kind.local and (not kind.density or bool(kind.factor))
        return not stays or kind.takes_events or kind.uses_noise or self.spec.samples

    @property
    def is_ahead(self) -> bool:
        """Whether each lane has one instance at most: its event is read one step ahead."""
        return self.kind.takes_events and self.kind.most <= self.spec.chip.step_of_active

    def state(self, s: int) -> str:
        kind = self.kind
        if kind.local:
            return f"{kind.name}__local[{s * kind.most} + q]"
        return f"{kind.name}__states[{s} * {kind.name}__count + instance]"

    def _of_node(self, array: int) -> str:
        """Return the value of an array of `OnChip.held` at the node of a `site`."""
        cell, place = SITE.read("cell", "site"), SITE.read("place", "site")
        each = len(self.spec.chip.held)
        first = f"({cell}) * {each}" if not array else f"(({cell}) * {each} + {array})"
        return f"all_held[{first} * CAPACITY + ({place})]"

    @property
    def voltage(self) -> str:
        """Voltage of the node; with constant factors that is a root."""
        if self.spec.constant:
            return f"root_v[{SITE.read('cell', 'site')}]"
        return self._of_node(len(self.spec.chip.held) - 1)

    @property
    def factor(self) -> str:
        kind = self.kind
        if kind.factor:
            return f"{self._of_node(0)} * {kind.factor}"
        return f"{kind.name}__factor[instance]"

    @property
    def _values(self) -> list[str]:
        kind = self.kind
        pairs = zip(kind.parameters, kind.literals, strict=True)
        return [literal or f"{kind.name}__p_{name}[instance]" for name, literal in pairs]

    @property
    def _by_address(self) -> list[str]:
        return [f"&s_{name}" for name in self.kind.states]

    @property
    def advance(self) -> str:
        """Call that advances the states over the step before."""
        constants = self.spec.of_constants(self.kind)
        arguments = [
            "v",
            "(real)(step - 1) * dt",
            "dt",
            *self._values,
            *constants,
            *self._by_address,
        ]
        return f"{self.kind.name}_advance({self.spec.series}{', '.join(arguments)});"

    @property
    def event(self) -> str:
        arguments = ["(real)weight * scale", *self._values, *self._by_address]
        return f"{self.kind.name}_event({self.spec.series}{', '.join(arguments)});"

    @property
    def current(self) -> str:
        kind = self.kind
        states = [f"s_{name}" for name in kind.states]
        arguments = [
            "v",
            "(step + (real)0.5) * dt",
            "dt",
            *self._values,
            *self.spec.of_constants(kind),
        ]
        arguments += [*states, *["noise"] * kind.uses_noise, "&i", "&g"]
        return f"{kind.name}_current({self.spec.series}{', '.join(arguments)});"


@dataclass(frozen=True, kw_only=True)
class EpochSpec(SampledSpec):
    """Numbers and switches of the kernels of epochs: one work-item a segment of a branch."""

    templates: ClassVar[tuple[str, ...]] = (
        "simulator/epoch_factors",
        "simulator/epoch_constant",
        "simulator/epoch_by_instance",
        "simulator/epoch_by_node",
    )
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "advance": (
            "int first_step, int num_steps, int num_units, const int *restrict units",
            "const int *restrict rows, const int *restrict links, const int *restrict children",
            "const real *restrict all_d if by_place, const real *restrict all_tie",
            "const real *restrict all_up",
            "real *restrict all_f1 if makes_factors, real *restrict all_f2 if makes_factors",
            "real *restrict all_inverse if makes_factors",
            "real *restrict tree_factors if makes_factors",
            "real *restrict tree_inverses if makes_factors",
            "const real *restrict all_f1 if uses_factors",
            "const real *restrict all_f2 if uses_factors",
            "const real *restrict all_inverse if uses_factors",
            "const real *restrict tree_factors if uses_factors",
            "const real *restrict tree_inverses if uses_factors",
            "const real *restrict all_c if advances and by_place",
            "const real *restrict all_g if flows",
            "const real *restrict all_k if advances and by_place",
            "real *restrict all_v if advances",
            "const int *restrict homes if by_node, const int *restrict instances if by_node",
            "const int *restrict node_lists if by_node, const int *restrict node_places if by_node",
            "const int *restrict node_members if by_node",
            "const real *restrict node_scalars if by_node",
            "const real *restrict node_values if by_node, real *restrict node_states if by_node",
            "real *far_held if far",
        ),
        "rest": (
            "const int *restrict slots if has_slots",
            "long *restrict incoming, int ring",
            "int num_targets, real scale, real dt",
            "ulong seed, const real *restrict threshold",
            "int *restrict spike_source, int *restrict spike_step",
            "int *restrict spike_count, int capacity",
            "int *restrict failed, const int *restrict record_start",
            "const int *restrict record_list, real *restrict record_v",
            "int record_row, int num_records, int *restrict detector_held if detects",
            "const int *restrict detector_hold if detects",
            "const real *restrict detector_threshold if detects",
            "const int *restrict detector_source if detects",
        ),
    }
    of_kind: ClassVar[tuple[str, ...]] = (
        "const int *restrict {name}__start, const int *restrict {name}__list",
        "real *restrict {name}__states, int {name}__count",
    )
    link: ClassVar[Word] = schedule.LINK
    at_elimination: ClassVar[Word] = schedule.AT_ELIMINATION
    family: ClassVar[Word] = schedule.FAMILY
    lane_counts: ClassVar[Word] = schedule.LANE_COUNTS
    site: ClassVar[Word] = SITE
    slot_run: ClassVar[Word] = SLOT_RUN
    recorded: ClassVar[Word] = RECORDED
    warp: ClassVar[int] = WARP
    most_once: ClassVar[int] = 0  # numbers that are worked out once in a launch
    real: str
    phase: str = "advance"  # "factor": the constant factors, once; "advance": steps
    constant: bool = False  # only the roots' conductances change
    inflow: bool  # there are constant currents
    lanes: int  # of a cell
    units: int = 1  # cells of a work-group
    extra: int = 0  # work-items for mechanisms alone; with constant factors these have no others
    segment: int  # most nodes of a segment
    capacity: int  # values of the largest cell, and one more
    rounds: int = 1  # of a cell at most
    before: int = 0  # with constant factors: after so many rounds at most `dense` nodes are left,
    dense: int = 0  # which are solved by the inverse of their matrix; 0 for rounds alone
    slots: int = 0  # instances of a work-group
    secondorder: bool = False
    ptx: bool
    fused: bool = False
    kinds: tuple[MechanismSpec, ...] = ()
    normal: str = field(default="", repr=False)  # source of the generator, where a kind uses noise
    registers: int = 0  # of a work-item at most (NVIDIA's compiler); 0 leaves them to it
    by_node: bool = field(default=False, repr=False)  # lanes take nodes, see `lists`
    parts: int = field(default=1, repr=False)  # work-groups of a cell, which share its lists
    most_lists: int = field(default=0, repr=False)  # of a cell, where there are several
    uniform: tuple[tuple[str, ...], ...] = field(default=(), repr=False)  # one number in each list
    local_lines: int = field(default=0, repr=False)  # of states of a cell, in local memory
    side_by_side: bool = field(
        default=False, repr=False
    )  # rates of ``simulator/common/rates.mako``
    samples: bool = field(default=False, repr=False)
    detects: bool = field(default=False, repr=False)  # there are detectors besides the somas'
    far: bool = field(
        default=False, repr=False
    )  # values of nodes are in global memory: large cells
    arena: ArenaSpec | None = field(default=None, repr=False)  # of functions; None in a plan

    @property
    def template(self) -> str:  # type: ignore[override]
        factors, constant, by_instance, by_node = self.templates
        if self.makes_factors:
            return factors
        return constant if self.constant else by_node if self.by_node else by_instance

    def parameters(self, kernel: str) -> list[Parameter]:
        parameters = super().parameters(kernel)
        if not self.advances:
            return parameters
        if self.takes_series:
            parameters += [Parameter(name, "real") for name in self.series_numbers.arguments]
        for kind in self.kinds:
            if self.by_node:
                parameters += of_each_kind(self.of_kind[1:], (kind,))
                continue
            parameters += of_each_kind(self.of_kind, (kind,))
            parameters += [Parameter(name, "const real *restrict") for name in varying(kind)]
        return [*parameters, *super().parameters("rest"), *self.of_samples]

    def sampled_states(self, kind: MechanismSpec, row: str) -> str:
        """Source that writes the states of an instance that are recorded."""
        values = [f"s_{name}" for name in kind.states]
        return sampled_source(self.kinds.index(kind), f"< {len(values)}", values, row)

    def sampled_current(self, kind: MechanismSpec, current: str) -> str:
        """Source that writes the current of an instance where it is recorded.

        Where operations may be fused, `current` works it out once more from values that the
        compiler cannot know: which of them it fuses, and so the last bits of a cell, may not
        depend on whether the current is recorded.
        """
        written = sampled_source(self.kinds.index(kind), f"== {len(kind.states)}", ["i"], "step")
        if not self.fused:
            return written
        names = ["v", *(f"s_{name}" for name in kind.states)]
        again = [f"const real {name} = again__[{n}];" for n, name in enumerate(names)]
        return "\n".join(
            (
                f"if (samples_{self.kinds.index(kind)}[instance] >= 0) {{",
                f"    volatile real again__[{len(names)}] = {{{', '.join(names)}}};",
                *(f"    {line}" for line in (*again, "real i, g;", current, written)),
                "}",
            )
        )

    @property
    def makes_factors(self) -> bool:
        return self.phase == "factor"

    @property
    def advances(self) -> bool:
        return not self.makes_factors

    @property
    def once(self) -> list[str]:
        """Statements, a warp each, that work out what is constant during a launch."""
        return []

    @property
    def flows(self) -> bool:
        """Whether constant conductances take currents of v from what a step begins with."""
        return self.advances and self.by_place and self.inflow and not self.constant

    @property
    def uses_factors(self) -> bool:
        return self.advances and self.constant

    @property
    def takes_series(self) -> bool:
        """Whether the rate functions take the numbers of their series."""
        return self.advances and (self.by_node or self.side_by_side)

    @property
    def has_slots(self) -> bool:
        return bool(self.kinds) and not self.by_node

    @property
    def by_place(self) -> bool:
        """Whether all numbers of nodes are in the order of the places."""
        return not self.by_node

    @property
    def first_list(self) -> str:
        """Expression of the first list of a warp, less that of the cell."""
        return f"part + {self.parts} * warp" if self.parts > 1 else "warp"

    @property
    def list_width(self) -> int:
        """Numbers of a list of nodes."""
        return LIST_HEAD + sum(not kind.density for kind in self.kinds)

    @property
    def series_numbers(self) -> SeriesNumbers:
        return SeriesNumbers(self.real)

    @property
    def build_options(self) -> tuple[str, ...]:
        return (f"-cl-nv-maxrregcount={self.registers}",) if self.registers else ()

    @property
    def work_group(self) -> int:
        return self.lanes * self.units + self.extra

    # -- what templates print --------------------------------------------------------------------

    @property
    def chip(self) -> OnChip:
        return OnChip(self)

    @property
    def required_size(self) -> str:
        """Attribute of the kernel; with `registers`, NVIDIA's compiler wants the size left open."""
        if self.registers:
            return ""
        return " __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))"

    @property
    def series(self) -> str:
        """First argument of the rate functions."""
        return "series__, " if self.takes_series else ""

    @property
    def splits(self) -> bool:
        """Whether the work-items for mechanisms alone have a loop over steps of their own."""
        return self.ptx and self.uses_factors and bool(self.instances)

    @property
    def instances(self) -> tuple[InstanceCalls, ...]:
        """Kinds whose instances are taken one by one."""
        return () if self.by_node else tuple(InstanceCalls(self, kind) for kind in self.kinds)

    def of_constants(self, kind: MechanismSpec) -> list[str]:
        """Variables with the results of a kind's function of constants."""
        return [f"{kind.name}__c{k}" for k in range(kind.num_constants)]

    def constants_call(self, kind: MechanismSpec) -> str:
        literals = filter(None, kind.literals)
        arguments = [
            f"{self.series}dt",
            *literals,
            *(f"&{name}" for name in self.of_constants(kind)),
        ]
        return f"{kind.name}_constants({', '.join(arguments)});"

    @property
    def of_factors(self) -> EpochSpec:
        """The kernel that works out the constant factors of this one."""
        return replace(self, phase="factor", extra=0, kinds=(), slots=0, normal="", samples=False)

    def fits(self, limits: Limits) -> bool:
        """Whether its work-groups suit a device, and its numbers the bits that they are given."""
        kernels = (self, self.of_factors) if self.constant else (self,)
        return (
            self.work_group <= limits.max_work_group
            and max(k.chip.local_bytes for k in kernels) <= limits.local_bytes
            and (self.lanes == WARP or self.units <= _NAMED_BARRIERS)
            and self.units <= MAX_UNITS
            and self.slots <= SITE.most("slot")
            and (self.by_node or self.capacity <= SITE.most("place") + 1)
        )
