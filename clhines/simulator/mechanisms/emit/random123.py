"""NEURON's random streams (Random123) in NumPy and OpenCL.

A stream's key has three numbers and the global index. The stream's words are Philox4x32-10 of the
key and a counter, four words per count. ``drawn`` is the number of words drawn before a block
begins, NEURON's ``get_seq``. In the block the next word has the number ``(keep ? drawn : 0) + at``:
``keep`` is 0 after ``random_setseq``, and ``at`` then is the number itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from clhines.simulator.mechanisms.emit.noise import philox, philox_rounds

KINDS = "random_uniform", "random_normal", "random_negexp", "random_pick", "random_used"
_SHIFT = 1.0 / 4294967297.0  # 1/(2^32 + 1): never 0, never 1
_WORDS = 2**34 - 1


def count(drawn: ArrayLike, keep: ArrayLike, at: ArrayLike) -> np.ndarray:
    """Return the number, int64, of the next word in a RANDOM stream, counted from 0.

    It is ``(keep ? drawn : 0) + at``: `drawn` words were drawn before the block began, and `at`
    since then. After ``random_setseq`` `keep` is 0, and `at` is the number itself.
    """
    begin = np.where(np.asarray(keep) != 0, drawn, 0)
    moved = np.clip(np.nan_to_num(np.asarray(at, np.float64)), -1.0, 2.0**62)
    return (begin + moved.astype(np.int64)) & _WORDS


def words(stream: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return one word, uint32, from each stream; `number` counts a stream's words from 0.

    `stream` is (..., 4) uint32: each stream's three numbers, and the global index.
    """
    first, second, third, index = (stream[..., k] for k in range(4))
    turn = (number >> 2).astype(np.uint32)
    block = philox(np.broadcast_arrays(turn, third, first, second), (index, np.uint32(0)))
    return np.take_along_axis(block, np.broadcast_to(number & 3, block.shape[1:])[None], 0)[0]


def _uniform(stream: np.ndarray, number: np.ndarray) -> np.ndarray:
    return (words(stream, number).astype(np.float64) + 1.0) * _SHIFT


def number(
    kind: str, stream: np.ndarray, drawn: ArrayLike, keep: ArrayLike, at: ArrayLike
) -> np.ndarray:
    """Draw a number from a stream, beginning with the word ``count(drawn, keep, at)``.

    `kind` is ``random_uniform`` (between 0 and 1), ``random_normal`` (mean 0, variance 1),
    ``random_negexp`` (mean 1), ``random_pick`` (a word) or ``random_used`` (how many words
    ``random_normal`` draws there).
    """
    place = count(drawn, keep, at)
    if kind in ("random_normal", "random_used"):
        value, used = _polar(stream, place)
        return value if kind == "random_normal" else used.astype(np.float64)
    if kind == "random_pick":
        return words(stream, place).astype(np.float64)
    value = _uniform(stream, place)
    return value if kind == "random_uniform" else -np.log(value)


def _polar(stream: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    number = np.broadcast_to(number, np.broadcast_shapes(np.shape(number), stream.shape[:-1]))
    value, used = np.zeros(number.shape), np.zeros(number.shape, np.int64)
    missing = np.ones(number.shape, bool)
    while missing.any():
        x, y = (2.0 * _uniform(stream, number + used + k) - 1.0 for k in (0, 1))
        square = x * x + y * y
        with np.errstate(all="ignore"):
            new = x * np.sqrt(-2.0 * np.log(square) / square)
        value = np.where(missing, new, value)
        used = used + 2 * missing
        missing = missing & (square > 1.0)
    return value, used


def python_source(text: str, prefix: str) -> str:
    """Return the helpers that NumPy source `text` calls; they call this module by its name."""
    result = ""
    for name in (k for k in (*KINDS, "random_count") if f"{prefix}_{k}_(" in text):
        arguments = "drawn, keep, at" if name == "random_count" else "stream, drawn, keep, at"
        called = "count(" if name == "random_count" else f"number({name!r}, "
        result += (
            f"def {prefix}_{name}_({arguments}):\n    return random123.{called}{arguments})\n\n\n"
        )
    return result


def opencl_source(text: str, prefix: str) -> str:
    """Return the helpers that OpenCL source `text` calls; a kernel must define ``real``."""
    used = [name for name in KINDS if f"{prefix}_{name}_(" in text]
    if not used and f"{prefix}_random_count_(" not in text:
        return ""
    result = _counter(prefix) + _words(prefix)
    if {"random_normal", "random_used"} & set(used):
        result += _polar_source(prefix)
    arguments = "const uint4 stream, const ulong drawn, const real keep, const real at"
    number = f"{prefix}_random_count_(drawn, keep, at)"
    bodies = {
        "random_uniform": f"(real){prefix}_random_unit_(stream, {number})",
        "random_negexp": f"(real)-log({prefix}_random_unit_(stream, {number}))",
        "random_pick": f"(real){prefix}_random_word_(stream, {number})",
        "random_normal": f"(real){prefix}_random_polar_(stream, {number}).x",
        "random_used": f"(real){prefix}_random_polar_(stream, {number}).y",
    }
    for name in used:
        result += f"static real {prefix}_{name}_(\n    {arguments})\n"
        result += f"{{\n    return {bodies[name]};\n}}\n\n"
    return result


def _counter(prefix: str) -> str:
    return f"""\
// number of words drawn from a random stream
static ulong {prefix}_random_count_(const ulong drawn, const real keep, const real at)
{{
    return ((keep != 0 ? drawn : 0) + (ulong)(long)at) & {_WORDS:#x}ul;
}}

"""


def _words(prefix: str) -> str:
    return f"""\
// a word of a random stream: Philox4x32-10 of its key and the word's number
static uint {prefix}_random_word_(const uint4 stream, const ulong number)
{{
    uint a = (uint)(number >> 2), b = stream.z, c = stream.x, d = stream.y;
    uint key0 = stream.w, key1 = 0;
{philox_rounds()}
    const uint which = (uint)number & 3u;
    return which < 2u ? (which == 0u ? a : b) : (which == 2u ? c : d);
}}

// a word as a number between 0 and 1
static double {prefix}_random_unit_(const uint4 stream, const ulong number)
{{
    return ((double){prefix}_random_word_(stream, number) + 1.0) * {_SHIFT!r};
}}

"""


def _polar_source(prefix: str) -> str:
    unit = f"{prefix}_random_unit_"
    return f"""\
// a normal number by the polar method, and the number of words that it draws
static double2 {prefix}_random_polar_(const uint4 stream, const ulong number)
{{
    double x, square;
    int used = 0;
    do {{
        x = 2.0 * {unit}(stream, number + used) - 1.0;
        const double y = 2.0 * {unit}(stream, number + used + 1) - 1.0;
        square = x * x + y * y;
        used += 2;
    }} while (square > 1.0);
    return (double2)(x * sqrt(-2.0 * log(square) / square), used);
}}

"""
