"""Specs of the kernel of an epoch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from clhines.plan.by_segment import schedule
from clhines.plan.kernel_spec import Parameter, TemplateSpec, Word
from clhines.plan.plan import Limits
from clhines.simulate.kinds import MechanismSpec, of_each_kind

WARP = 32
_NAMED_BARRIERS = 15  # of NVIDIA's work-groups, besides the usual one
SITE = Word(place=12, cell=4, slot=15)  # of an instance: in the cell, in the work-group
SLOT_RUN = Word(first=16, number=15)  # slots of the instances of a node
RECORDED = Word(lane=16, node=15)  # node: number in the lane's segment
MAX_UNITS = SITE.most("cell") + 1


@dataclass(frozen=True)
class EpochSpec(TemplateSpec):
    """Numbers and switches of ``epoch.mako``: one work-item a segment of a branch.

    Attributes
    ----------
    real : str
        ``double`` or ``float``.
    phase : str
        ``factor``: the constant factors, once; ``advance``: steps.
    constant : bool
        Only the roots' conductances change.
    inflow : bool
        There are constant currents.
    lanes, units : int
        Lanes of a cell, cells of a work-group.
    extra : int
        Further work-items, for the mechanisms alone; with constant factors these have no others.
    segment : int
        Most nodes of a segment.
    capacity : int
        Values of the largest cell, and one more.
    rounds : int
        Most rounds of a cell, 1 or more.
    before, dense : int
        With constant factors: after so many rounds at most so many nodes are left, which are solved
        by the inverse of their matrix; 0 for rounds alone.
    slots : int
        Instances of a work-group.
    secondorder, ptx, fused : bool
        As in `Model` and `ContractionSpec`.
    kinds : tuple of MechanismSpec
    normal : str
        The functions of the generator, where a kind uses noise.
    registers : int
        Most registers of a work-item (NVIDIA's compiler); 0 leaves them to it.
    """

    template: ClassVar[str] = "simulate/epoch"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "advance": (
            "int first_step, int num_steps, int num_units, const int *restrict units",
            "const int *restrict rows, const int *restrict links, const int *restrict children",
            "const real *restrict all_d, const real *restrict all_tie",
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
            "const real *restrict all_c if advances, const real *restrict all_k if advances",
            "real *restrict all_v if advances",
        ),
        "rest": (
            "const int *restrict slots if has_kinds",
            "long *restrict incoming, int ring",
            "int num_targets, real scale, real dt",
            "ulong seed, const real *restrict threshold",
            "int *restrict spike_source, int *restrict spike_step",
            "int *restrict spike_count, int spike_capacity",
            "int *restrict failed, const int *restrict record_start",
            "const int *restrict record_list, real *restrict record_v",
            "int record_row, int num_records",
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
    real: str
    phase: str
    constant: bool
    inflow: bool
    lanes: int
    units: int
    extra: int
    segment: int
    capacity: int
    rounds: int
    before: int
    dense: int
    slots: int
    secondorder: bool
    ptx: bool
    fused: bool
    kinds: tuple[MechanismSpec, ...] = ()
    normal: str = field(default="", repr=False)
    registers: int = 0

    def parameters(self, kernel: str) -> list[Parameter]:
        """Parameters of the kernel: of the cells, of each kind, and what all kinds share."""
        found = super().parameters(kernel)
        if not self.advances:
            return found
        for kind in self.kinds:
            found += of_each_kind(self.of_kind, (kind,))
            varying = [
                f"p_{p}" for p, v in zip(kind.parameters, kind.literals, strict=True) if not v
            ]
            if kind.density and not kind.factor:
                varying.insert(0, "factor")
            found += [Parameter(f"{kind.name}__{v}", "const real *restrict") for v in varying]
        return [*found, *super().parameters("rest")]

    @property
    def makes_factors(self) -> bool:
        """Whether the kernel works out the constant factors."""
        return self.phase == "factor"

    @property
    def advances(self) -> bool:
        """Whether the kernel takes steps."""
        return not self.makes_factors

    @property
    def uses_factors(self) -> bool:
        """Whether the kernel takes the constant factors."""
        return self.advances and self.constant

    @property
    def has_kinds(self) -> bool:
        """Whether there are mechanisms."""
        return bool(self.kinds)

    @property
    def build_options(self) -> tuple[str, ...]:
        """Options of the compiler."""
        return (f"-cl-nv-maxrregcount={self.registers}",) if self.registers else ()

    @property
    def work_group(self) -> int:
        """Work-items of a group."""
        return self.lanes * self.units + self.extra

    @property
    def local_bytes(self) -> int:
        """Local memory that the kernel takes, at most."""
        factor = self.phase == "factor"
        held = 2 if factor else 3 + (not self.constant) + self.inflow
        tree = 7 if factor or not self.constant else 3
        reals = self.units * (held * self.capacity + tree * self.lanes)
        ints = self.units * 2 * self.segment + sum(k.most for k in self.kinds)
        if self.dense:
            ints += self.units * (self.lanes + 1)
        if self.dense and not factor:
            reals += self.units * (self.dense * (self.dense + 1) + 1)
        if self.constant and not factor:
            reals += self.units
        if self.kinds:
            reals += 2 * (self.slots + 1)
            reals += sum(len(k.states) * k.most for k in self.kinds if k.local)
        gaps = 8 * (4 + len(self.kinds))  # before what must lie at a multiple of 8
        return (8 if self.real == "double" else 4) * reals + 4 * ints + gaps

    @property
    def of_factors(self) -> EpochSpec:
        """The kernel that works out the constant factors of this one."""
        return replace(self, phase="factor", extra=0, kinds=(), slots=0, normal="")

    def fits(self, limits: Limits) -> bool:
        """Whether its work-groups suit a device, and its numbers the bits that they are given."""
        kernels = (self, self.of_factors) if self.constant else (self,)
        return (
            self.work_group <= limits.max_work_group
            and max(k.local_bytes for k in kernels) <= limits.local_bytes
            and (self.lanes == WARP or self.units <= _NAMED_BARRIERS)
            and self.units <= MAX_UNITS
            and self.slots <= SITE.most("slot")
            and self.capacity <= SITE.most("place") + 1
        )
