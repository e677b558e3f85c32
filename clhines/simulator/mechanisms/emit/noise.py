"""Counter-based normal numbers: functions of a seed, an instance and a step; NumPy and OpenCL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.errors import InputError

PHILOX = ((0xD2511F53, 0x9E3779B9), (0xCD9E8D57, 0xBB67AE85))  # multiplier and key's step
_TERMS, _BITS = 12, 10  # uniform numbers in a sum, and bits in each


def philox(
    counter: Sequence[ArrayLike] | np.ndarray, key: Sequence[ArrayLike] | np.ndarray
) -> np.ndarray:
    """Return the four random words that Philox4x32-10 makes of a counter and a key.

    By Salmon, Moraes, Dror and Shaw (2011).

    Parameters
    ----------
    counter : (4, ...) array_like of uint32
    key : (2, ...) array_like of uint32

    Returns
    -------
    (4, ...) uint32
    """
    low = np.uint64(0xFFFFFFFF)
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [np.asarray(x, np.uint64) for x in key]
    for turn in range(10):
        a, b = np.uint64(PHILOX[0][0]) * c[0], np.uint64(PHILOX[1][0]) * c[2]
        step = [(k[j] + np.uint64(turn * PHILOX[j][1] & 0xFFFFFFFF)) & low for j in (0, 1)]
        high = np.uint64(32)
        c = [(b >> high) ^ c[1] ^ step[0], b & low, (a >> high) ^ c[3] ^ step[1], a & low]
    return np.stack(np.broadcast_arrays(*c)).astype(np.uint32)


def philox_rounds() -> str:
    """Return OpenCL for the rounds in `philox`: uint a, b, c, d change by key0 and key1."""
    (m0, k0), (m1, k1) = PHILOX
    return f"""\
    for (int turn = 0; turn < 10; turn++) {{
        const uint high0 = mul_hi({m0:#x}u, a), low0 = {m0:#x}u * a;
        const uint high1 = mul_hi({m1:#x}u, c), low1 = {m1:#x}u * c;
        a = high1 ^ b ^ key0;
        b = low1;
        c = high0 ^ d ^ key1;
        d = low0;
        key0 += {k0:#x}u;
        key1 += {k1:#x}u;
    }}"""


def normal(seed: int, instance: ArrayLike, step: ArrayLike) -> np.ndarray:
    """Return normal numbers that depend on a seed, an instance and a step only.

    Each is the scaled sum of twelve uniform ten-bit numbers (Irwin-Hall distribution): mean 0,
    variance 1, excess kurtosis -0.1, at most 6 in magnitude. All but the last product is integer
    arithmetic, so every device gives the same numbers.

    Parameters
    ----------
    seed : int, 0 to 2**64 - 1
        Key of the generator.
    instance, step : array_like of int, 0 to 2**64 - 1
        Counter of the generator; broadcast together. To be independent, numbers of one step need
        different instances.

    Returns
    -------
    numpy.ndarray of float64
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    numbers = [np.asarray(x, np.uint64) for x in (instance, step, seed)]
    words = [x for q in numbers for x in (q & low, q >> half)]
    bits = philox(np.broadcast_arrays(*words[:4]), words[4:])
    total = np.zeros(bits.shape[1:], np.int64)
    for word in bits:
        for shift in range(0, 30, _BITS):
            total += (word >> np.uint32(shift)).astype(np.int64) & (2**_BITS - 1)
    centre = _TERMS * (2**_BITS - 1)
    return (2 * total - centre) * _normal_scale()


def _normal_scale() -> float:
    return float(0.5 / np.sqrt(_TERMS * (4.0**_BITS - 1) / 12))


def normal_source(real: str) -> str:
    """Return OpenCL source of `normal`, for a kernel that defines the type ``real``.

    Returns
    -------
    str
        ``static real normal(const ulong seed, const ulong instance, const ulong step)``
    """
    if real not in ("double", "float"):
        raise InputError(f"real is {real!r}; expected 'double' or 'float'")
    scale = _normal_scale()
    literal = repr(scale) if real == "double" else f"{np.float32(scale)}f"
    mask = 2**_BITS - 1
    return f"""\
// sum of the ten-bit parts of a word
static int normal_parts(const uint word)
{{
    return (int)((word & {mask}u) + (word >> {_BITS} & {mask}u) + (word >> {2 * _BITS} & {mask}u));
}}

// a normal number: the sum of twelve uniform numbers from Philox4x32-10, keyed by the seed
static real normal(const ulong seed, const ulong instance, const ulong step)
{{
    uint a = (uint)instance, b = (uint)(instance >> 32);
    uint c = (uint)step, d = (uint)(step >> 32);
    uint key0 = (uint)seed, key1 = (uint)(seed >> 32);
{philox_rounds()}
    const int sum = normal_parts(a) + normal_parts(b) + normal_parts(c) + normal_parts(d);
    return (real)(2 * sum - {_TERMS * mask}) * {literal};
}}
"""
