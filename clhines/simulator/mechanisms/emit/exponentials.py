"""OpenCL source of exponentials of vectors: runtimes' own differ, and some call a scalar function.

``exp(x) = 2**k * (1 + r*q(r))`` with an integer k and ``r = x - k*log(2)``, at most log(2)/2 in
magnitude; q is a polynomial for ``(exp(r) - 1)/r`` with as few terms as rounding allows. If all
results of a vector are normal numbers, k is added to the bits of the exponent; else a slower way is
used for the other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, factorial

import numpy as np

LOG2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009")
_LN2 = float(LOG2)
_HALF = Fraction(355, 1024)  # half of log(2), and a little more


@dataclass(frozen=True)
class _Format:
    """A floating-point format."""

    integer: str
    bits: int  # stored bits of the significand
    bias: int
    low: float  # exp(low) is 0
    high: float  # exp(high) is infinite
    head: int  # leading bits of log(2) whose product with any k is exact
    first: float  # between these two, 2**k and the result are normal numbers
    last: float


_FORMATS = {
    "double": _Format("long", 52, 1023, -746.0, 710.0, 40, -707.0, 709.0),
    "float": _Format("int", 23, 127, -104.0, 89.0, 15, -86.0, 88.0),
}


@lru_cache(maxsize=8)
def series(
    real: str, low: Fraction = -_HALF, high: Fraction = _HALF, share: int = 8
) -> tuple[float, ...]:
    """Return a polynomial for ``(exp(z) - 1)/z`` from `low` to `high`, lowest power first.

    Economised Taylor series in a variable t from -1 to 1: the highest power ``t**n`` is replaced by
    lower ones, with an error of at most ``2**(1 - n)`` (Chebyshev's polynomial), as long as the
    errors add up to less than 2/`share` of a rounding.
    """
    eps = float(np.finfo(np.float32 if real == "float" else np.float64).eps)
    middle, half = (low + high) / 2, (high - low) / 2
    terms = 30
    plain = [Fraction(1, factorial(k + 1)) for k in range(terms)]
    polynomial = [c * half**k for k, c in enumerate(_moved(plain, middle))]
    chebyshev = [[Fraction(1)], [Fraction(0), Fraction(1)]]
    while len(chebyshev) < terms:
        twice = [Fraction(0), *(2 * c for c in chebyshev[-1])]
        chebyshev.append([a - b for a, b in zip(twice, chebyshev[-2] + [Fraction(0)] * 2)])
    rest = 0.0
    while True:
        n = len(polynomial) - 1
        highest = polynomial[n] / chebyshev[n][n]
        rest += abs(float(highest))
        if rest > eps / share:  # the function's values are above 1/2
            return tuple(
                float(c) for c in _moved([c / half**k for k, c in enumerate(polynomial)], -middle)
            )
        polynomial = [c - highest * t for c, t in zip(polynomial, chebyshev[n])][:-1]


def _moved(polynomial: list[Fraction], by: Fraction) -> list[Fraction]:
    """Return the coefficients in ``z`` of a polynomial in ``z + by``."""
    n = len(polynomial)
    return [
        sum((polynomial[k] * comb(k, j) * by ** (k - j) for k in range(j, n)), Fraction(0))
        for j in range(n)
    ]


def summed(coefficients: Sequence[str], x: str, kind: str) -> list[str]:
    """Return statements that compute a polynomial into ``sum``; coefficients have the lowest first.

    Even and odd powers are summed separately: the chain of dependent operations is half as long.
    """
    lines = [f"const {kind} {x}2 = {x} * {x}"]
    for name, powers in (("sum", coefficients[::2]), ("odd", coefficients[1::2])):
        first, *others = reversed(powers)
        lines.append(f"{kind} {name} = {first}")
        lines += [f"{name} = {name} * {x}2 + {c}" for c in others]
    return [*lines, f"sum = odd * {x} + sum"]


def literal(real: str, x: float) -> str:
    """Return a number in the precision of the source."""
    return repr(float(x)) if real == "double" else f"{np.float32(x)}f"


def _reduced(real: str, width: int, name: str) -> str:
    """Return the OpenCL function that ``exp`` and ``expm1`` call."""
    f = _FORMATS[real]
    vector, whole = f"real{width}", f"{f.integer}{width}"
    magic = 1.5 * 2.0**f.bits  # adding it rounds a small number to an integer, in the last bits
    head = float(np.floor(_LN2 * 2.0**f.head) / 2.0**f.head)
    tail = float(LOG2 - Fraction(head))
    horner = _lines(real, width)
    power = f"as_{real}{width}"
    return f"""\
// exp(r) - 1, where x = k*log(2) + r; 2^k as two factors, as k may exceed an exponent, and the
// inverse of the second factor
static {vector} {name}(const {vector} x, {vector} *scale, {vector} *more, {vector} *inverse)
{{
    const {vector} low = {literal(real, f.low)}, high = {literal(real, f.high)};
    const {vector} within = x < low ? low : x > high ? high : x;
    const {vector} shifted = within * {literal(real, 1 / _LN2)} + {literal(real, magic)};
    const {vector} k = shifted - {literal(real, magic)};
    const {vector} r = (within - k * {literal(real, head)}) - k * {literal(real, tail)};
{horner}\
    const {whole} power = as_{whole}(shifted) - as_{f.integer}({literal(real, magic)});
    const {whole} first = power >> 1;
    *scale = {power}((first + {f.bias}) << {f.bits});
    *more = {power}((power - first + {f.bias}) << {f.bits});
    *inverse = {power}((first - power + {f.bias}) << {f.bits});
    return r * sum;
}}

"""


def _lines(real: str, width: int) -> str:
    numbers = [literal(real, c) for c in series(real)]
    return "".join(f"    {line};\n" for line in summed(numbers, "r", f"real{width}"))


# Whether a condition holds for every number of a vector, or for any; PoCL's `all` and `any` take 20
# operations. Oclgrind's compiler has the builtin functions, but not its interpreter.
TESTS = """\
#if !defined(EVERY) && defined(__has_builtin) && !defined(__SPIR__) && !defined(__SPIR64__)
#if __has_builtin(__builtin_reduce_and) && __has_builtin(__builtin_expect)
#define EVERY(x) __builtin_expect(__builtin_reduce_and(x) != 0, 1)
#define SOME(x) __builtin_expect(__builtin_reduce_or(x) != 0, 0)
#endif
#endif
#ifndef EVERY
#define EVERY(x) all(x)
#define SOME(x) any(x)
#endif

"""


# PoCL calls a function that passes vectors through memory; this is as accurate
_ROOTS = """\
// square root of each number
static real{width} {prefix}_sqrt_(const real{width} x)
{{
#if defined(__has_builtin) && !defined(__SPIR__) && !defined(__SPIR64__)
#if __has_builtin({root})
#define {prefix}_root_{width} {root}
#endif
#endif
#ifndef {prefix}_root_{width}
    return sqrt(x);
#else
    real{width} y;
    for (int lane = 0; lane < {width}; lane++)
        ((real *)&y)[lane] = {prefix}_root_{width}(((const real *)&x)[lane]);
    return y;
#endif
}}

"""


def exponentials(real: str, width: int, prefix: str) -> dict[str, str]:
    """Return OpenCL functions by name, for source with ``typedef ... realWIDTH``.

    Errors are at most 1.5 (``exp``) and 3 (``expm1``) units in the last place, also of subnormal
    results if the device has them; NaN gives NaN. ``tests`` are macros, ``reduced`` is a function
    that the others call; ``exp``, ``expm1`` and ``sqrt`` take a vector. Names begin with `prefix`.
    """
    vector, name = f"real{width}", f"{prefix}_reduced_"
    root = "__builtin_sqrt" if real == "double" else "__builtin_sqrtf"
    texts = {"tests": TESTS, "reduced": _reduced(real, width, name)}
    texts["sqrt"] = _ROOTS.format(width=width, prefix=prefix, root=root)
    begin = f"    {vector} scale, more, inverse;\n    const {vector} part = "
    begin += f"{name}(x, &scale, &more, &inverse);\n"
    one = literal(real, 1)
    f = _FORMATS[real]
    whole, magic = f"{f.integer}{width}", literal(real, 1.5 * 2.0**f.bits)
    head = float(np.floor(_LN2 * 2.0**f.head) / 2.0**f.head)
    tail = float(LOG2 - Fraction(head))
    texts["exp"] = f"""\
// exp(x), whose result may be subnormal, 0 or infinite
static __attribute__((noinline)) {vector} {prefix}_far_exp_(const {vector} x)
{{
{begin}    return (part + {one}) * scale * more;
}}

// exp(x)
static {vector} {prefix}_exp_(const {vector} x)
{{
    const {vector} shifted = x * {literal(real, 1 / _LN2)} + {magic};
    const {vector} k = shifted - {magic};
    const {vector} r = (x - k * {literal(real, head)}) - k * {literal(real, tail)};
{_lines(real, width)}\
    const {whole} power = as_{whole}(shifted) << {f.bits};   // k in the bits of the exponent
    const {vector} y = as_{real}{width}(as_{whole}(r * sum + {one}) + power);
    const {whole} normal = x > {literal(real, f.first)} & x < {literal(real, f.last)};
    return EVERY(normal) ? y : normal ? y : {prefix}_far_exp_(x);
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
