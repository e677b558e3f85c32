"""Helper functions that generated source calls, in OpenCL and NumPy.

They are quotients that are finite at 0, see `_COMMENTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import factorial

import numpy as np

from clhines.simulator.mechanisms.emit.exponentials import exponentials, series, summed
from clhines.simulator.mechanisms.emit.printer import Printer, folded
from clhines.simulator.mechanisms.ir.exact import bernoulli_numbers


def _eps(real: str) -> float:
    return float(np.finfo(np.float32 if real == "float" else np.float64).eps)


@lru_cache(maxsize=8)
def bernoulli_coefficients(real: str, most: float = 1.0) -> list[Fraction]:
    """Return the coefficients of ``x**2, x**4 ...`` in the series of ``x / (exp(x) - 1)``.

    The series ends at terms below the rounding error of `real`, for x up to `most`.
    """
    result, numbers = [], bernoulli_numbers(80)
    for k in range(1, 40):
        value = numbers[2 * k] / factorial(2 * k)
        result.append(value)
        if abs(value) * most ** (2 * k) < _eps(real) / 64:
            break
    return result


@lru_cache(maxsize=16)
def _expm1_coefficients(real: str, most: float = 0.5) -> list[Fraction]:
    """Return Taylor coefficients of ``(exp(z) - 1) / z``, exact in `real` for z up to `most`."""
    eps = _eps(real)
    result = [Fraction(1)]
    while result[-1] * most ** (len(result) - 1) > eps / 16:
        result.append(result[-1] / (len(result) + 1))
    return result


def weight_slope_coefficients(real: str) -> list[Fraction]:
    """Return Taylor coefficients for the derivative of ``(exp(z) - 1) / z``.

    The series is accurate to rounding up to ``|z| = 1/2``; the constant is first.
    """
    return [k * c for k, c in enumerate(_expm1_coefficients(real, 0.625))][1:]


def _horner(p: Printer, coefficients: Sequence[Fraction], x: str) -> list[str]:
    numbers = [p.number(c) for c in reversed(coefficients)]
    first = f"sum = {numbers[0]}" if p.python else f"{p.type} sum = {numbers[0]}"
    return [first, *(f"sum = sum * {x} + {c}" for c in numbers[1:])]


def _helper_bodies(p: Printer) -> dict[str, tuple[list[str], list[str], str]]:
    """Return by name each helper's arguments, statements and result, in the language of `p`.

    In NumPy a helper computes both of its branches for whole arrays, and selects by ``np.where``.
    """
    one, half = p.number(1), p.number(0.5)
    c = bernoulli_coefficients("double" if p.python else p.real)
    slope = [2 * (k + 1) * value for k, value in enumerate(c)]
    terms = _expm1_coefficients("double" if p.python else p.real)
    slopes = weight_slope_coefficients("double")
    if not p.python:
        return _vector_bodies(p, slope) if p.width > 1 else _branching_bodies(p, c, slope, terms)

    def choose(argument: str, limit: str, a: str, b: str) -> str:
        return f"np.where({p.call('fabs', argument)} < {limit}, {a}, {b})"

    far, far_slope = f"x / (e - {one})", f"({one} - x - x / (e - {one})) / (e - {one})"
    return {
        "bernoulli": (
            ["x", "e"],
            ["y = x * x", *_horner(p, c, "y")],
            choose("x", one, f"sum * y - {half} * x + {one}", far),
        ),
        "bernoulli_slope": (
            ["x", "e"],
            ["y = x * x", *_horner(p, slope, "y")],
            choose("x", one, f"sum * x - {half}", far_slope),
        ),
        "weight": (
            ["b", "dt"],
            ["z = b * dt", *_horner(p, terms, "z")],
            choose("z", half, "dt * sum", f"({p.call('exp', 'z')} - {one}) / b"),
        ),
        "weight_slope": (
            ["b", "dt", "weight"],
            ["z = b * dt", *_horner(p, slopes, "z")],
            choose("z", half, "dt * dt * sum", _FAR_SLOPE.format(one)),
        ),
    }


def _branching_bodies(
    p: Printer, c: Sequence[Fraction], slope: Sequence[Fraction], series: Sequence[Fraction]
) -> dict[str, tuple[list[str], list[str], str]]:
    one, half = p.number(1), p.number(0.5)
    few = _expm1_coefficients(p.real, _SMALL)
    many = [f"sum = sum * z + {p.number(k)};" for k in reversed(series[len(few) : -1])]
    far = "x / (e - {0})", "({0} - x - x / (e - {0})) / (e - {0})"
    y = f"const {p.type} y = x * x"

    def leave(argument: str, limit: str, value: str) -> str:
        return f"if (fabs({argument}) >= {limit}) return {value}"

    return {
        "bernoulli": (
            ["x", "e"],
            [leave("x", one, far[0].format(one)), y, *_horner(p, c, "y")],
            f"sum * y - {half} * x + {one}",
        ),
        "bernoulli_slope": (
            ["x", "e"],
            [leave("x", one, far[1].format(one)), y, *_horner(p, slope, "y")],
            f"sum * x - {half}",
        ),
        "weight": (
            ["b", "dt"],
            [
                f"const {p.type} z = b * dt",
                leave("z", half, f"(exp(z) - {one}) / b"),
                f"{p.type} sum = {p.number(0)}",
                f"if (fabs(z) >= {p.number(_SMALL)}) {{   // below, these terms do not matter\n"
                f"        sum = {p.number(series[-1])};\n        "
                + "\n        ".join(many)
                + "\n    }",
                *(f"sum = sum * z + {p.number(k)}" for k in reversed(few)),
            ],
            "dt * sum",
        ),
        "weight_slope": (
            ["b", "dt", "weight"],
            [
                f"const {p.type} z = b * dt",
                leave("z", half, _FAR_SLOPE.format(one)),
                *_horner(p, weight_slope_coefficients(p.real), "z"),
            ],
            "dt * dt * sum",
        ),
    }


def _vector_bodies(
    p: Printer, slope: Sequence[Fraction]
) -> dict[str, tuple[list[str], list[str], str]]:
    one, half = p.number(1), p.number(0.5)

    def unless(quotient: str, most: str, coefficients: Sequence[Fraction], value: str) -> list[str]:
        near = [f"const {p.mask} near = x < {most} & x > -{most}"]
        lines = summed([p.number(k) for k in coefficients], "y", p.type)
        inside = "".join(f"        {line};\n" for line in [f"const {p.type} y = x * x", *lines])
        inside += f"        result = near ? {value} : result;\n    }}"
        return [f"{p.type} result = {quotient}", *near, f"if (SOME(near)) {{\n{inside}"]

    far, far_slope = f"x / (e - {one})", f"({one} - x - x / (e - {one})) / (e - {one})"

    def near(high: Fraction, is_slope: bool) -> list[str]:
        numbers = [p.number(k) for k in series(p.real, _LOW, high, is_slope=is_slope)]
        return [
            f"const {p.type} z = b * dt",
            *summed(numbers, "z", p.type),
            f"const {p.mask} small = z > {p.number(_LOW)} & z < {p.number(high)}",
            f"const {p.type} value = {'dt * dt' if is_slope else 'dt'} * sum",
        ]

    c, value = bernoulli_coefficients(p.real, 0.5), f"sum * y - {half} * x + {one}"
    return {
        "bernoulli": (["x", "e"], unless(far, half, c, value), "result"),
        "bernoulli_slope": (
            ["x", "e"],
            unless(far_slope, one, slope, f"sum * x - {half}"),
            "result",
        ),
        "weight": (
            ["b", "dt"],
            near(Fraction(1, 16), False),
            f"EVERY(small) ? value : small ? value : {p.prefix}_expm1_(z) / b",
        ),
        "weight_slope": (
            ["b", "dt", "weight"],
            near(Fraction(1, 2), True),
            f"EVERY(small) ? value : small ? value : {_FAR_SLOPE.format(one)}",
        ),
    }


_LOW = Fraction(-3, 4)  # least rate * step with a polynomial for vectors
_FAR_SLOPE = "(dt * ({0} + b * weight) - weight) / b"  # exp(b*dt) is 1 + b*weight
_SMALL = 0.03125  # rate * step up to which a short series suffices
_COMMENTS = {
    "bernoulli": "x / (exp(x) - 1), e = exp(x); its series near x = 0",
    "bernoulli_slope": "derivative of x / (exp(x) - 1), e = exp(x)",
    "weight": "(exp(b*dt) - 1) / b, the integral of exp(b*s) over a step",
    "weight_slope": "derivative of the weight by b",
}


def helpers(text: str, prefix: str, real: str, width: int = 1) -> str:
    """Return source of the helpers that `text` calls: quotients such as ``x / (exp(x) - 1)``.

    `real` is ``double``, ``float`` or ``numpy``; the names begin with `prefix`.
    With a `width` above 1 the source begins with the exponentials that they and `text` call.
    """
    p = Printer(prefix, real, width=width)
    result = ""
    if not any(f"{prefix}_{name}_(" in text for name in _COMMENTS):
        return result if width == 1 else _exponentials(text, p)
    for name, (arguments, lines, value) in _helper_bodies(p).items():
        if f"{prefix}_{name}_(" not in text:
            continue
        if p.python:
            result += f"def {prefix}_{name}_({', '.join(arguments)}):\n"
            result += "".join(f"    {line}\n" for line in lines) + f"    return {value}\n\n\n"
        else:
            declared = ", ".join(f"const {p.type} {a}" for a in arguments)
            result += f"// {_COMMENTS[name]}\nstatic {p.type} {prefix}_{name}_({declared})\n{{\n"
            result += "".join(f"    {line}{'' if line.endswith('}') else ';'}\n" for line in lines)
            result += folded(f"    return {value};") + "\n}\n\n"
    return result if width == 1 else _exponentials(result + text, p) + result


def _exponentials(text: str, p: Printer) -> str:
    texts = exponentials(p.real, p.width, p.prefix)
    called = [name for name in ("exp", "expm1") if f"{p.prefix}_{name}_(" in text]
    called = ["reduced", *called] if called else []
    tests = ["tests"] if called or "SOME(" in text else []
    roots = ["sqrt"] if f"{p.prefix}_sqrt_(" in text else []
    return "".join(texts[name] for name in [*tests, *called, *roots])
