"""Series coefficients for rate functions; see ``simulator/common/rates.mako``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import factorial, log
from typing import ClassVar

import numpy as np

from clhines.simulator.mechanisms.emit.exponentials import LOG2, series
from clhines.simulator.mechanisms.emit.helpers import bernoulli_coefficients

NEAR = 0.5  # below this |x|, x / (exp(x) - 1) is a series


def coefficients(real: str) -> dict[str, float]:
    """Return the numbers in ``simulator/common/rates.mako`` by name.

    ``exp_K`` is the coefficient of ``x**K`` in a polynomial for ``(exp(x) - 1) / x``; the first two
    are exactly 1 and 1/2. ``bernoulli_K`` is the coefficient of ``x**(2*K + 2)`` in ``x / (exp(x) -
    1)``, for ``|x| < NEAR``. ``log_high`` and ``log_low`` add up to log(2), and ``log_inverse`` is
    1 / log(2). ``nearly_zero`` is so small that it changes no rate.
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
    """Series coefficients for rate functions, as ``simulator/common/rates.mako`` prints them."""

    near: ClassVar[float] = NEAR
    real: str

    @property
    def arguments(self) -> dict[str, float]:
        """The numbers that need more than 32 bits, and so must be kernel arguments on GPUs."""
        every = coefficients(self.real)
        if self.real == "float":
            return {"nearly_zero": every["nearly_zero"]}
        return {k: v for k, v in every.items() if np.float64(v).view(np.int64) & 0xFFFFFFFF}

    @property
    def coefficients(self) -> dict[str, str]:
        """OpenCL source for each number: a member of the argument ``series__``, or a literal."""
        members, real = self.arguments, np.float64 if self.real == "double" else np.float32
        return {
            name: f"series__.{name}"
            if name in members
            else f"({real(value).item()!r}{self.suffix})"
            for name, value in coefficients(self.real).items()
        }

    @property
    def suffix(self) -> str:
        return "" if self.real == "double" else "f"


def _short(value: float, reach: Fraction | float, power: int, eps: float) -> float:
    if abs(value) * float(reach) ** power * 2.0**-21 > eps / 16:
        return value
    bits = (np.float64(value).view(np.int64) + (1 << 31)) & ~np.int64(0xFFFFFFFF)
    return float(bits.view(np.float64))


def terms(dt: float, tau: np.ndarray, real: str) -> int:
    """Return how many terms ``(exp(-x) - 1) / x`` needs for ``x = dt/tau``; 0 if x may be large.

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
