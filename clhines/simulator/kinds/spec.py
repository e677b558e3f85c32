"""`ArenaSpec`: the spec of kernels on arenas, and checks that numbers fit a precision."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from clhines.core.errors import InputError
from clhines.simulator.kinds.kind import CallValues, KindBlocks
from clhines.simulator.kinds.vectors import VectorCall
from clhines.simulator.model.model import Kind
from clhines.simulator.state.ranges import check_range
from clhines.simulator.state.sources import SENDING
from clhines.solver.plan.kernel_spec import TemplateSpec, Word


def check_parameters(kind: Kind, dtype: np.dtype) -> None:
    for name, value in kind.parameters.items():
        check_range(f"{kind.mechanism.name}: {name}", np.asarray(value), dtype)


def check_constants(dtype: np.dtype, **values: np.ndarray) -> None:
    """Raise InputError if a named node constant, (m,) float64, uS or nA, overflows `dtype`."""
    most = np.finfo(dtype).max
    for name, sums in values.items():
        bad = np.flatnonzero(~(np.abs(sums) <= most))
        if len(bad):
            raise InputError(
                f"{name.replace('_', ' ')} of node {bad[0]} adds up to {sums[bad[0]]:g}; "
                f"expected at most {most:.3g}, the largest number of {np.dtype(dtype).name}"
            )


@dataclass(frozen=True)
class ArenaSpec(TemplateSpec):
    """Spec of kernels on the arenas: device arrays ``mem`` (reals), ``clock`` (times), ``ints``.

    With `calls` the compiler does not inline functions. Kernels with many mechanisms then build
    several times faster, and run as fast on CPUs.
    """

    template: ClassVar[str] = "simulator/steps"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "begin_step": (
            "int num_places, int capacity, ulong seed, real dt, instant half_dt, int *step_state",
            "int num_items if wide",
            "const instant *restrict step_begin, const int *restrict active",
            "const int *restrict above, const int *restrict below",
            "const int *restrict beside, const real *restrict u",
            "const real *restrict constant_g if constant",
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
            "const int *restrict active",
            "const real *restrict x, const real *restrict v_old",
            "real *restrict v_new",
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
    blocks: ClassVar[bool] = False  # whether cell blocks exchange events after an epoch
    real: str  # ``double`` or ``float``
    kinds: tuple[KindBlocks, ...]
    ions: tuple[str, ...]
    regions: tuple[str, ...]  # names in `at`: region offsets, and counts
    secondorder: bool
    second_order_currents: bool
    noise: str  # OpenCL source for `mechanisms.normal`
    played: bool
    constant: bool  # constant mechanisms' currents are summed by node once
    layered: bool  # events can reach another instance in their own step: one launch per layer
    width: int  # instances that a CPU's vector advances at once; 1: a work-item per node
    calls: bool
    nernst: tuple[str, ...] = ()
    grid: bool = field(default=False, repr=False)
    bins: int = field(default=0, repr=False)  # event rounds in a step's bin, `state.sources`
    by_cell: bool = field(default=False, repr=False)  # for `ArenaEpochSpec`: regions are a struct
    far: bool = field(default=False, repr=False)  # voltages are in global memory
    instant: str = "double"  # type for times
    sets_v: bool = False  # events may set voltages
    sums: bool = False  # pointers write variables
    steers: bool = field(default=False, repr=False)  # events set other connections' weights
    diffuses: bool = False  # states diffuse along cells, after `advance`
    diffusing_rows: ClassVar[int] = 0  # none are in local memory
    ptx: ClassVar[bool] = False

    @property
    def arena(self) -> ArenaSpec:
        return self

    @property
    def regions_name(self) -> str:
        return "regions" if self.by_cell else "at"

    @property
    def at(self) -> str:
        return "const regions_ regions" if self.by_cell else "__global const int *at"

    @property
    def one_v(self) -> bool:
        """Whether event functions get a pointer to their node's voltage instead of all voltages."""
        pointed = any(
            k.points_to_voltages(b) for k in self.net_kinds for b, *_ in k.blocks if b in k.events
        )
        return self.by_cell and not pointed

    @property
    def v_space(self) -> str:
        """OpenCL address space of the voltages; volatile if other work-groups write them."""
        if self.by_cell and not self.one_v:
            return "volatile __global"
        return "__local" if self.by_cell and not self.far else "__global"

    @property
    def v_type(self) -> str:
        return f"{self.v_space} {'' if self.sets_v else 'const '}real *"

    @property
    def own_v(self) -> str:
        return "*v" if self.one_v else "v[ints[place_of + a]]"

    @property
    def wide(self) -> bool:
        """Whether a work-item advances many nodes, and skips targets without due events."""
        return self.width > 1

    @property
    def soon(self) -> str:
        """Expression for the time until which a step delivers events.

        With bins, all events of a bin act together; a bin ends near the middle of a step.
        """
        return "t_mid + (instant)0.01 * (t_mid - t_begin)" if self.bins else "t_mid"

    @property
    def looks_ahead(self) -> bool:
        return self.wide or self.by_cell

    def counts(self, word: str) -> str:
        """Return the expression for the array that counts events from a connection's source.

        `word` is an expression for the connection's `SENDING` flags: with the flag ``short`` its
        target sees events in the step that sends them, otherwise only after it.
        """
        short = self.sending.read("short", word) if self.bins else word
        return f"{short} ? event_live : event_count"

    @property
    def static(self) -> str:
        return "static __attribute__((noinline))" if self.calls else "static"

    def functions(self, kind: KindBlocks) -> str:
        return re.sub(r"^static (?=void |real\d* )", f"{self.static} ", kind.functions, flags=re.M)

    def call_vectors(self, kind: KindBlocks, block: str, values: CallValues, indent: int) -> str:
        return VectorCall(kind, block, values).text(self.width, indent)

    @property
    def net_kinds(self) -> tuple[KindBlocks, ...]:
        return tuple(kind for kind in self.kinds if kind.has_net)

    @property
    def plays_into_events(self) -> bool:
        return any(kind.plays for kind in self.net_kinds)

    @property
    def summed_kinds(self) -> tuple[KindBlocks, ...]:
        return tuple(kind for kind in self.kinds if kind.summed) if self.grid else ()

    @property
    def loose_kinds(self) -> tuple[KindBlocks, ...]:
        return tuple(kind for kind in self.net_kinds if kind.kind == "artificial")
