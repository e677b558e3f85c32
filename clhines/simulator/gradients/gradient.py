"""Gradient: the value of a loss of a run's records, and its derivatives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from clhines.core.checks import as_number, shown
from clhines.core.errors import InputError
from clhines.simulator.gradients.by_device import DeviceGradient
from clhines.simulator.gradients.by_reference import ReferenceGradient
from clhines.simulator.gradients.plan import is_supported
from clhines.simulator.gradients.quantities import GradientQuantity, Quantities, as_cotangents
from clhines.simulator.gradients.refused import check_model, check_records
from clhines.simulator.records.records import Record

_log = logging.getLogger(__name__)
Loss = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Gradient(Mapping[Any, Any]):
    """The derivatives of a loss, by what they were taken of.

    Attributes
    ----------
    value : float
        The loss.
    records : list of (rows, columns) float64
        What it was a function of.
    """

    value: float
    records: list[np.ndarray] = field(repr=False)
    of: tuple[GradientQuantity, ...] = field(repr=False)
    slopes: list[Any] = field(repr=False)

    def __getitem__(self, key: Any) -> Any:
        if key not in self.of:
            raise InputError(f"there is no gradient of {shown(key)}; expected one of `of`")
        return self.slopes[self.of.index(key)]

    def __iter__(self) -> Any:
        return iter(self.of)

    def __len__(self) -> int:
        return len(self.of)


class RunGradient:
    """A run whose records are differentiated: forward once, then back.

    It is on the device of a queue if kernels support the model, else by the reference.
    """

    def __init__(
        self,
        quantities: Quantities,
        records: Sequence[Record],
        steps: int,
        surrogate: float | None = None,
        place: tuple[cl.CommandQueue, np.dtype] | None = None,
    ) -> None:
        self.quantities, self._records, self._steps = quantities, list(records), steps
        self._surrogate, self._place = surrogate, place
        check_records(records)
        check_model(quantities.model, surrogate)

    @cached_property
    def _run(self) -> DeviceGradient | ReferenceGradient:
        quantities, records, steps, place = self.quantities, self._records, self._steps, self._place
        if place is None or not is_supported(quantities.model, records):
            _log.info("a gradient is computed by the reference, in NumPy and float64")
            return ReferenceGradient(quantities.model, records, steps, self._surrogate)
        _log.info("a gradient is computed on the device")
        return DeviceGradient(
            *(quantities.model, records, steps, *place),
            wanted=quantities.parameters(),
            matrix=quantities.by_matrix,
            axial="Ra" in quantities.of,
            starts=quantities.of_start,
        )

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shapes of the rows of each record."""
        return [(self._steps // r.every + 1, r.width) for r in self._records]

    def forward(self) -> list[np.ndarray]:
        """Return the rows of each record."""
        return self._run.forward()

    def backward(self, cotangents: Sequence[np.ndarray]) -> list[Any]:
        """Return the derivatives by each quantity, of those by the rows."""
        return self.quantities.slopes(self._run.backward(cotangents))

    def of_loss(self, loss: Loss) -> Gradient:
        """Return the gradient of a loss."""
        rows = self.forward()
        value, cotangents = valued(loss, rows)
        slopes = self.backward(cotangents)
        return Gradient(value, rows, tuple(self.quantities.of), slopes)


def valued(loss: Loss, rows: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
    """Return a loss and its derivatives by the rows."""
    if not callable(loss):
        raise InputError(f"loss is {shown(loss)}; expected a function of the records")
    found = loss(*(r.copy() for r in rows))
    if not isinstance(found, tuple) or len(found) != 2:
        raise InputError(
            f"loss returned {shown(found)}; expected its value and its derivatives by the records"
        )
    return as_number("the value of loss", found[0]), as_cotangents(found[1], rows)


def surrogate_width(surrogate: object) -> float | None:
    """Check the width of the sigmoid of spikes, mV."""
    if surrogate is None:
        return None
    width = as_number("surrogate", surrogate, "mV")
    if not width > 0:
        raise InputError(f"surrogate is {width:g} mV; expected more than 0")
    return width
