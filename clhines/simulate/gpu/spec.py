"""Specs of the kernel of an epoch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from clhines.plan.by_segment import schedule
from clhines.plan.kernel_spec import Parameter, TemplateSpec, Word
from clhines.plan.plan import Limits
from clhines.simulate.gpu import rates as epoch_rates
from clhines.simulate.kinds.spec import MechanismSpec, of_each_kind
from clhines.simulate.records.sampling import REST, TABLES, sampled_source

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
    found = [f"{kind.name}__factor"] if kind.density and not kind.factor else []
    values = zip(kind.parameters, kind.literals, strict=True)
    return found + [f"{kind.name}__p_{name}" for name, literal in values if not literal]


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
    by_node : bool
        A lane takes a node with all its mechanisms, see `lists`; states are in global
        memory. Otherwise it takes an instance, and leaves its sums in a slot.
    uniform : tuple of tuple of str
        Of each kind the parameters that are one number in each list of nodes.
    local_lines : int
        Lines of `WARP` states of a cell that are in local memory.
    side_by_side : bool
        Rate functions are those of ``common/rates.mako``, without branches; always `by_node`.
    samples : bool
        States or currents are recorded, see `sampling`.
    far : bool
        Voltages, pivots and right-hand sides are in global memory, of cells that are too large for
        local memory; only `by_node`, with one cell a work-group.
    """

    template: ClassVar[str] = "simulate/epoch"
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
    extended: ClassVar[None] = None  # see `ExtendedEpochSpec`
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
    by_node: bool = field(default=False, repr=False)
    uniform: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    local_lines: int = field(default=0, repr=False)
    side_by_side: bool = field(default=False, repr=False)
    samples: bool = field(default=False, repr=False)
    far: bool = field(default=False, repr=False)

    def parameters(self, kernel: str) -> list[Parameter]:
        """Parameters of the kernel: of the cells, of each kind, and what all kinds share."""
        found = super().parameters(kernel)
        if not self.advances:
            return found
        if self.takes_series:
            found += [Parameter(name, "real") for name in self.numbers]
        for kind in self.kinds:
            if self.by_node:
                found += of_each_kind(self.of_kind[1:], (kind,))
                continue
            found += of_each_kind(self.of_kind, (kind,))
            found += [Parameter(name, "const real *restrict") for name in varying(kind)]
        return [*found, *super().parameters("rest"), *self.of_samples]

    @property
    def of_samples(self) -> list[Parameter]:
        """Parameters for states and currents that are recorded, in the order of `sampling`."""
        if not self.samples:
            return []
        return [*of_each_kind(TABLES, self.kinds), *of_each_kind((REST,), self.kinds[:1])]

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
    def takes_series(self) -> bool:
        """Whether the rate functions take the numbers of their series."""
        return self.advances and (self.by_node or self.side_by_side)

    @property
    def quick_weights(self) -> bool:
        """Whether weights are polynomials where one does, see ``common/rates.mako``."""
        return self.takes_series and not self.by_node

    @property
    def has_slots(self) -> bool:
        """Whether instances leave their sums in slots."""
        return self.has_kinds and not self.by_node

    @property
    def by_place(self) -> bool:
        """Whether all numbers of nodes are in the order of the places."""
        return not self.by_node

    @property
    def list_width(self) -> int:
        """Numbers of a list of nodes."""
        return LIST_HEAD + sum(not kind.density for kind in self.kinds)

    @property
    def coefficients(self) -> dict[str, str]:
        """Numbers of ``common/rates.mako`` by name as source: of `series__`, or literals."""
        own, real = self.numbers, np.float64 if self.real == "double" else np.float32
        return {
            name: f"series__.{name}" if name in own else f"({real(value).item()!r}{self.suffix})"
            for name, value in epoch_rates.coefficients(self.real).items()
        }

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers that are arguments of the kernel; as literals they take two instructions."""
        return epoch_rates.arguments(self.real)

    @property
    def suffix(self) -> str:
        """End of a literal."""
        return "" if self.real == "double" else "f"

    near: ClassVar[float] = epoch_rates.NEAR
    weights_from: ClassVar[float] = float(epoch_rates.WEIGHTS[0])

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
        if self.by_node:
            held = 0 if self.far else 3
        tree = 7 if factor or not self.constant else 3
        reals = self.units * (held * self.capacity + tree * self.lanes)
        ints = self.units * 2 * self.segment
        if not self.by_node:
            ints += sum(k.most for k in self.kinds)
        if self.dense:
            ints += self.units * (self.lanes + 1)
        if self.dense and not factor:
            reals += self.units * (self.dense * (self.dense + 1) + 1)
        if self.constant and not factor:
            reals += self.units
        reals += self.units * self.local_lines * WARP
        if self.has_slots:
            reals += 2 * (self.slots + 1)
            reals += sum(len(k.states) * k.most for k in self.kinds if k.local)
        gaps = 8 * (4 + len(self.kinds))  # before what must lie at a multiple of 8
        return (8 if self.real == "double" else 4) * reals + 4 * ints + gaps

    @property
    def of_factors(self) -> EpochSpec:
        """The kernel that works out the constant factors of this one."""
        return replace(self, phase="factor", extra=0, kinds=(), slots=0, normal="", samples=False)

    def fits(self, limits: Limits) -> bool:
        """Whether its work-groups suit a device, and its numbers the bits that they are given."""
        kernels = (self, self.of_factors) if self.constant else (self,)
        return (
            self.work_group <= limits.max_work_group
            and max(k.local_bytes for k in kernels) <= limits.local_bytes
            and (self.lanes == WARP or self.units <= _NAMED_BARRIERS)
            and self.units <= MAX_UNITS
            and self.slots <= SITE.most("slot")
            and (self.by_node or self.capacity <= SITE.most("place") + 1)
        )
