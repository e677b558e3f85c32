"""Exponentials of OpenCL vectors, as source: runtimes differ in theirs, and some call a function.

``exp(x) = 2**k * (1 + r*q(r))`` with a whole number k and ``r = x - k*log(2)``, at most half of
log(2) away from 0; q is the series of ``(exp(r) - 1)/r`` up to where the rest is no rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import factorial

import numpy as np

_EXACT = Fraction("0.693147180559945309417232121458176568075500134360255254120680009")
_LN2 = float(_EXACT)


@dataclass(frozen=True)
class _Format:
    """Everything the source needs to know about a floating-point format."""

    integer: str
    bits: int  # stored bits of the significand
    bias: int
    low: float  # exp(low) is 0
    high: float  # exp(high) is infinite
    head: int  # leading bits of log(2) whose product with any k is exact


_FORMATS = {
    "double": _Format("long", 52, 1023, -746.0, 710.0, 40),
    "float": _Format("int", 23, 127, -104.0, 89.0, 15),
}


def series(real: str) -> list[float]:
    """Coefficients of ``r**k`` in ``(exp(r) - 1)/r``, enough up to half of log(2)."""
    eps = float(np.finfo(np.float32 if real == "float" else np.float64).eps)
    result = [1.0]
    while (_LN2 / 2) ** len(result) / factorial(len(result) + 1) > eps / 16:
        result.append(1 / factorial(len(result) + 1))
    return result


def literal(real: str, x: float) -> str:
    """Return a number in the precision of the source."""
    return repr(float(x)) if real == "double" else f"{np.float32(x)}f"


def _reduced(real: str, width: int, name: str) -> str:
    """Return OpenCL of the function that ``exp`` and ``expm1`` call."""
    f = _FORMATS[real]
    vector, whole = f"real{width}", f"{f.integer}{width}"
    magic = 1.5 * 2.0**f.bits  # added to a small number leaves it whole, in the last bits
    head = float(np.floor(_LN2 * 2.0**f.head) / 2.0**f.head)
    tail = float(_EXACT - Fraction(head))
    first, *rest = [literal(real, c) for c in reversed(series(real))]
    horner = "".join(f"    sum = sum * r + {c};\n" for c in rest)
    power = f"as_{real}{width}"
    return f"""\
// exp(r) - 1 of x = k*log(2) + r; 2^k as two factors, for k may be beyond an exponent, and the
// inverse of the second
static {vector} {name}(const {vector} x, {vector} *scale, {vector} *more, {vector} *inverse)
{{
    const {vector} low = {literal(real, f.low)}, high = {literal(real, f.high)};
    const {vector} within = x < low ? low : x > high ? high : x;
    const {vector} shifted = within * {literal(real, 1 / _LN2)} + {literal(real, magic)};
    const {vector} k = shifted - {literal(real, magic)};
    const {vector} r = (within - k * {literal(real, head)}) - k * {literal(real, tail)};
    {vector} sum = {first};
{horner}\
    const {whole} power = as_{whole}(shifted) - as_{f.integer}({literal(real, magic)});
    const {whole} first = power >> 1;
    *scale = {power}((first + {f.bias}) << {f.bits});
    *more = {power}((power - first + {f.bias}) << {f.bits});
    *inverse = {power}((first - power + {f.bias}) << {f.bits});
    return r * sum;
}}

"""


def exponentials(real: str, width: int, prefix: str) -> dict[str, str]:
    """Return OpenCL of functions by name, for source that has ``typedef ... realWIDTH``.

    Results are within 1.5 (``exp``) and 3 (``expm1``) units in the last place, subnormal ones
    too where the device has them; NaN gives NaN.

    Parameters
    ----------
    real : str
        ``double`` or ``float``.
    width : int
        Lanes of a vector.
    prefix : str
        Prefix of the functions' names.

    Returns
    -------
    dict of str to str
        ``reduced``: what the others call; ``exp`` and ``expm1``: of one vector.
    """
    vector, name = f"real{width}", f"{prefix}_reduced_"
    texts = {"reduced": _reduced(real, width, name)}
    begin = f"    {vector} scale, more, inverse;\n    const {vector} part = "
    begin += f"{name}(x, &scale, &more, &inverse);\n"
    one = literal(real, 1)
    texts["exp"] = f"""\
// exp(x)
static {vector} {prefix}_exp_(const {vector} x)
{{
{begin}    return (part + {one}) * scale * more;
}}

"""
    texts["expm1"] = f"""\
// exp(x) - 1
static {vector} {prefix}_expm1_(const {vector} x)
{{
{begin}    return (part * scale + (scale - inverse)) * more;
}}

"""
    return texts
