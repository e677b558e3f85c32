"""Spec of the kernels that deliver spikes; `grid` launches them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clhines.plan.kernel_spec import TemplateSpec

FLAG_BITS = 32  # steps a launch of ``pull`` takes


@dataclass(frozen=True)
class DeliverSpec(TemplateSpec):
    """``delivery.mako``: one algorithm.

    Attributes
    ----------
    columns : int
        Targets that a work-group of ``vsn`` and ``vssn`` sums for; else 0.
    lanes : int
        Work-items a spike; those of ``vsn`` all work at one. A power of two, as `work_group`.
    exclusive : bool
        One delay only: no two work-groups add to the same sum.
    """

    template: ClassVar[str] = "simulate/delivery"
    flag_bits: ClassVar[int] = FLAG_BITS
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "flag": (
            "const int *restrict spike_source, const int *restrict spike_step",
            "const int *restrict spike_count, int capacity, int *marks, int turn, int first_step",
            "int steps, int last_step, volatile int *fired",
        ),
        "clear": ("int num_sources, int *restrict fired",),
        "pull": (
            "int first_step, int num_targets, int slots, const int *restrict fired",
            "const int *restrict first, const int *restrict source, const int *restrict delay",
            "const int *restrict position, const long *restrict weight, long *restrict incoming",
        ),
        "deliver": (
            "const int *restrict spike_source, const int *restrict spike_step",
            "const int *restrict spike_count, int capacity, int *marks, int turn, int first_step",
            "int steps, int last_step, int num_targets, int slots, const int *restrict first",
            "const int *restrict delays if staged, const int *restrict target if staged",
            "const int *restrict offset if placed, const long *restrict weight",
            "volatile long *incoming",
        ),
    }
    algorithm: str
    work_group: int
    columns: int = 0
    lanes: int = 0
    exclusive: bool = False

    @property
    def pulled(self) -> bool:
        """Whether targets fetch from their sources."""
        return self.algorithm == "pull"

    @property
    def staged(self) -> bool:
        """Whether a work-group sums in local memory first."""
        return self.algorithm in ("vsn", "vssn")

    @property
    def placed(self) -> bool:
        """Whether connections know the place of their sum in the ring."""
        return not self.staged
