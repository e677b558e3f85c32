"""The value of a loss of a run's records, and its derivatives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from clhines.core.checks import as_choice, as_number, shown
from clhines.core.errors import InputError
from clhines.simulator.gradients.by_device import DeviceGradient, DeviceSteps
from clhines.simulator.gradients.by_reference import ReferenceGradient
from clhines.simulator.gradients.by_tangents import TangentGradient
from clhines.simulator.gradients.plan import CopyLayout, goes_forward, unsupported
from clhines.simulator.gradients.quantities import GradientQuantity, Quantities, as_cotangents
from clhines.simulator.gradients.refused import check_model, check_records
from clhines.simulator.records.records import Record

_log = logging.getLogger(__name__)
Loss = Callable[..., Any]
MODES = ("auto", "forward", "reverse")


@dataclass(frozen=True, eq=False)
class Gradient(Mapping[Any, Any]):
    """A loss's derivatives; ``gradient[quantity]`` is with respect to a quantity.

    Attributes
    ----------
    value : float
        The loss.
    records : list of (rows, columns) float64
        Each record's rows, of which the loss is a function.
    how : str
        Forward or reverse, and the device; if on the host, why.
    """

    value: float
    records: list[np.ndarray] = field(repr=False)
    of: tuple[GradientQuantity, ...] = field(repr=False)
    slopes: list[Any] = field(repr=False)
    how: str

    def __getitem__(self, key: Any) -> Any:
        try:
            return dict(zip(self.of, self.slopes, strict=True))[key]
        except (KeyError, TypeError):  # an array or list is no key
            said = f"there is no gradient of {shown(key)}; expected one of `of`"
            raise InputError(said) from None

    def __contains__(self, key: object) -> bool:
        try:
            return key in dict.fromkeys(self.of)
        except TypeError:  # an array or list
            return False

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def __iter__(self) -> Any:
        return iter(self.of)

    def __len__(self) -> int:
        return len(self.of)


class RunGradient:
    """A run that can be differentiated: `forward` returns rows, `backward` returns derivatives.

    It runs on the queue's device if the kernels support the model, otherwise in NumPy. `surrogate`
    is the width, mV, of the sigmoid that stands for a spike's step function.
    """

    def __init__(
        self,
        quantities: Quantities,
        records: Sequence[Record],
        steps: int,
        surrogate: object = None,
        place: tuple[cl.CommandQueue, np.dtype] | None = None,
        mode: str = "auto",
    ) -> None:
        self.quantities, self._records, self._steps = quantities, list(records), steps
        width = None if surrogate is None else as_number("surrogate", surrogate, "mV")
        if width is not None and not width > 0:
            raise InputError(f"surrogate is {width:g} mV; expected more than 0")
        self._surrogate, self._place = width, place
        check_records(records)
        check_model(quantities.model, width)
        self._why = "no device" if place is None else unsupported(quantities.model, records, steps)
        self._copies = 0 if self._why else CopyLayout(quantities.model, 1).count
        plain = not self._why and goes_forward(quantities.model, records)
        directions = quantities.directions(self._copies) if plain else []
        if as_choice("mode", mode, MODES) == "forward" and not directions:
            why = self._why or "events, ions, or more than parameters that only steps read"
            raise InputError(f"mode is 'forward'; expected 'reverse' ({why})")
        # two numbers cost more forward, or as much: bench/notes/gradients.md
        forward = mode == "forward" or (mode == "auto" and len(directions) == 1)
        self._directions = directions if forward else []

    @property
    def how(self) -> str:
        if self._why:
            return f"reverse, on the host in float64 ({self._why})"
        return f"{'forward' if self._directions else 'reverse'}, on the device"

    @cached_property
    def _run(self) -> DeviceGradient | TangentGradient | ReferenceGradient:
        quantities, records, steps, place = self.quantities, self._records, self._steps, self._place
        _log.info("a gradient is computed: %s", self.how)
        if place is None or self._why:
            return ReferenceGradient(quantities.model, records, steps, self._surrogate)
        options = self._copies, self._directions, self._surrogate
        device_steps = DeviceSteps(quantities, records, steps, place, *options)
        if self._directions:
            return TangentGradient(device_steps)
        return DeviceGradient(device_steps, quantities.of_start or device_steps.host.starts_steps)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        return [(self._steps // r.every + 1, r.width) for r in self._records]

    def forward(self) -> list[np.ndarray]:
        """Advance all steps; return the rows of each record."""
        return self._run.forward()

    def backward(self, cotangents: object) -> list[Any]:
        """Return a loss's derivatives with respect to each quantity.

        `cotangents` has the loss's derivatives with respect to each record's rows.
        """
        if "_run" not in vars(self):
            raise InputError("backward() before forward(); expected forward() first")
        by_rows = as_cotangents(cotangents, self.shapes)
        return self.quantities.slopes(self._run.backward(by_rows))

    def of_loss(self, loss: Loss) -> Gradient:
        rows = self.forward()
        value, cotangents = call_loss(loss, [r.copy() for r in rows])
        value, slopes = as_number("the value of loss", value), self.backward(cotangents)
        return Gradient(value, rows, tuple(self.quantities.of), slopes, self.how)


def call_loss(loss: Loss, rows: Sequence[np.ndarray]) -> tuple[Any, Any]:
    """Return what a user's loss returns: its value and its derivatives, not checked."""
    if not callable(loss):
        raise InputError(f"loss is {shown(loss)}; expected a function of the records")
    result = loss(*rows)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise InputError(
            f"loss returned {shown(result)}; expected its value and its derivatives by the records"
        )
    return result[0], result[1]
