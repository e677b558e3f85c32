"""OpenCL source for exponentials of vectors.

OpenCL runtimes differ in their exponentials, and some call a scalar function for each number. Here

``exp(x) = 2**k * (1 + r*q(r))`` with an integer k and ``r = x - k*log(2)``, at most log(2)/2 in
magnitude; q is a polynomial for ``(exp(r) - 1)/r`` with as few terms as rounding allows. A result
that is a normal number gets k added to its exponent bits. A slower function computes other results;
it is called if a vector has any.
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
    integer: str
    bits: int  # the significand's stored bits
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
    real: str,
    low: Fraction = -_HALF,
    high: Fraction = _HALF,
    share: int = 8,
    is_slope: bool = False,
) -> tuple[float, ...]:
    """Return a polynomial's coefficients for ``(exp(z) - 1)/z``, the constant first.

    With `is_slope` the polynomial is for this function's derivative.

    The polynomial is accurate for z from `low` to `high`: its error is below 2/`share` of a
    rounding error of the type `real`. It is an economised Taylor series in a variable t from -1 to
    1: Chebyshev's polynomials replace the highest power ``t**n`` by lower ones, with an error of at
    most ``2**(1 - n)``, until the errors add up to the bound.
    """
    eps = float(np.finfo(np.float32 if real == "float" else np.float64).eps)
    middle, half = (low + high) / 2, (high - low) / 2
    terms = 30
    plain = [Fraction(1, factorial(k + 1)) for k in range(terms + 1)]
    plain = [k * c for k, c in enumerate(plain)][1:] if is_slope else plain[:-1]
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
        if rest > eps / share:  # the function's values are above 1/2, its slope's above 0.3
            return tuple(
                float(c) for c in _moved([c / half**k for k, c in enumerate(polynomial)], -middle)
            )
        polynomial = [c - highest * t for c, t in zip(polynomial, chebyshev[n])][:-1]


def _moved(polynomial: list[Fraction], by: Fraction) -> list[Fraction]:
    n = len(polynomial)
    return [
        sum((polynomial[k] * comb(k, j) * by ** (k - j) for k in range(j, n)), Fraction(0))
        for j in range(n)
    ]


def summed(coefficients: Sequence[str], x: str, kind: str) -> list[str]:
    """Return OpenCL statements that compute a polynomial in `x` into a new variable ``sum``.

    `coefficients` has literals, the constant first; `kind` is the type of `x` and ``sum``. Even and
    odd powers are summed separately: the chain of dependent operations is half as long.
    """
    lines = [f"const {kind} {x}2 = {x} * {x}"]
    for name, powers in (("sum", coefficients[::2]), ("odd", coefficients[1::2])):
        first, *others = reversed(powers)
        lines.append(f"{kind} {name} = {first}")
        lines += [f"{name} = {name} * {x}2 + {c}" for c in others]
    return [*lines, f"sum = odd * {x} + sum"]


def literal(real: str, x: float) -> str:
    return repr(float(x)) if real == "double" else f"{np.float32(x)}f"


# adding this number rounds a small number to an integer, in the sum's last bits
_MAGIC = {real: literal(real, 1.5 * 2.0**f.bits) for real, f in _FORMATS.items()}


def _reduction(real: str, width: int, x: str) -> str:
    f, vector, magic = _FORMATS[real], f"real{width}", _MAGIC[real]
    head = float(np.floor(_LN2 * 2.0**f.head) / 2.0**f.head)
    tail = float(LOG2 - Fraction(head))
    lines = [
        f"const {vector} shifted = {x} * {literal(real, 1 / _LN2)} + {magic}",
        f"const {vector} k = shifted - {magic}",
        f"const {vector} r = ({x} - k * {literal(real, head)}) - k * {literal(real, tail)}",
        *summed([literal(real, c) for c in series(real)], "r", vector),
    ]
    return "".join(f"    {line};\n" for line in lines)


def _reduced(real: str, width: int, name: str) -> str:
    """Return OpenCL source for the vector function `name`, which computes ``exp(r) - 1``.

    For ``x = k*log(2) + r`` it also returns ``2**k`` as two factors.
    """
    f = _FORMATS[real]
    vector, whole = f"real{width}", f"{f.integer}{width}"
    power = f"as_{real}{width}"
    return f"""\
// exp(r) - 1, where x = k*log(2) + r; 2^k as two factors, as k may exceed an exponent, and the
// inverse of the second factor
static {vector} {name}(const {vector} x, {vector} *scale, {vector} *more, {vector} *inverse)
{{
    const {vector} low = {literal(real, f.low)}, high = {literal(real, f.high)};
    const {vector} within = x < low ? low : x > high ? high : x;
{_reduction(real, width, "within")}\
    const {whole} power = as_{whole}(shifted) - as_{f.integer}({_MAGIC[real]});
    const {whole} first = power >> 1;
    *scale = {power}((first + {f.bias}) << {f.bits});
    *more = {power}((power - first + {f.bias}) << {f.bits});
    *inverse = {power}((first - power + {f.bias}) << {f.bits});
    return r * sum;
}}

"""


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
    """Return OpenCL source by key, for source that defines the vector type ``realWIDTH``.

    The keys ``exp``, ``expm1`` and ``sqrt`` have vector functions, whose names begin with `prefix`.
    All three need the macros with the key ``tests``; ``exp`` and ``expm1`` also need the function
    with the key ``reduced``. Errors are at most 1.5 (``exp``) and 3 (``expm1``) units in the last
    place, also of subnormal results if the device has them; NaN gives NaN.
    """
    vector, name = f"real{width}", f"{prefix}_reduced_"
    root = "__builtin_sqrt" if real == "double" else "__builtin_sqrtf"
    texts = {"tests": TESTS, "reduced": _reduced(real, width, name)}
    texts["sqrt"] = _ROOTS.format(width=width, prefix=prefix, root=root)
    begin = f"    {vector} scale, more, inverse;\n    const {vector} part = "
    begin += f"{name}(x, &scale, &more, &inverse);\n"
    one = literal(real, 1)
    f = _FORMATS[real]
    whole = f"{f.integer}{width}"
    texts["exp"] = f"""\
// exp(x), whose result may be subnormal, 0 or infinite
static __attribute__((noinline)) {vector} {prefix}_far_exp_(const {vector} x)
{{
{begin}    return (part + {one}) * scale * more;
}}

// exp(x)
static {vector} {prefix}_exp_(const {vector} x)
{{
{_reduction(real, width, "x")}\
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
