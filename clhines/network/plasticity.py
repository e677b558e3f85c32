"""STDP: the rule by which weights change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from clhines.checks import as_number
from clhines.errors import InputError

_FORGOTTEN = 2.0**-64  # a trace that has decayed to this share counts as 0


class Weighted(Protocol):
    """Connections, as far as a rule knows them: `weight` is (k,) float64."""

    weight: np.ndarray


@dataclass(frozen=True)
class STDP:
    """The pair rule; in each step, in this order.

    1. For each spike of a source, each of its connections: ``w -= a_minus * y``, where y is the sum
       of ``exp(-t / tau_minus)`` over the earlier spikes of the postsynaptic cell, t ago.
    2. The new weights are delivered.
    3. For each spike of a postsynaptic cell, each connection to it: ``w += a_plus * x``, where x is
       the sum of ``exp(-t / tau_plus)`` over the spikes of the source, those of this step included.

    After each, w is brought back between `w_min` and `w_max`.

    Attributes
    ----------
    a_plus, a_minus : float
        In the unit of the weights.
    tau_plus, tau_minus : float, ms
    w_min, w_max : float
        Bounds of the weights; neither is infinite.
    """

    a_plus: float
    a_minus: float
    tau_plus: float = 20.0
    tau_minus: float = 20.0
    w_min: float = 0.0
    w_max: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number = as_number(name, value, "ms" if name.startswith("tau") else None)
            object.__setattr__(self, name, number)
            if name.startswith("tau") and number <= 0:
                raise InputError(f"{name} is {number} ms; expected more than 0")
        if self.w_min > self.w_max:
            raise InputError(f"w_min is {self.w_min}, above w_max, {self.w_max}")

    def largest(self, connections: Weighted, plastic: bool | np.ndarray = True) -> np.ndarray:
        """Return the largest magnitude that each weight can reach, for `Delivery`.

        Parameters
        ----------
        connections : Connections
        plastic : bool or (k,) bool
            Connections that the rule changes.

        Returns
        -------
        (k,) float64
        """
        bound = max(abs(self.w_min), abs(self.w_max))
        return np.where(plastic, bound, np.abs(connections.weight))

    @staticmethod
    def decay(tau: float, dt: float) -> np.ndarray:
        """Return what is left of a trace after 0, 1, 2, ... steps, as far as it counts."""
        steps = math.ceil(-math.log(_FORGOTTEN) * tau / dt)
        return np.exp(np.arange(steps + 1) * (-dt / tau))
