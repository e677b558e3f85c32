"""NEURON's global generator (scop_random, exprand, normrand) in NumPy and OpenCL.

It is a linear congruential generator modulo 2**32. ``drawn`` is its state minus 1 when a block
begins: 0 in a new process. In the block the next number is ``at`` draws after the state ``keep > 0
? drawn + 1 : -1 - keep``; ``keep`` is below 0 after ``set_seed``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

NAMES = {"uniform": "scop_uniform", "normal": "scop_normal", "negexp": "scop_negexp"}
_USED = "scop_used"  # numbers that scop_normal takes
FACTOR, TERM, MOST = 2147437301, 453816981, 2**32 - 1


def _states(drawn: ArrayLike, keep: ArrayLike, at: ArrayLike) -> np.ndarray:
    """Return the states, uint64, of NEURON's global generator after `at` draws.

    The draws begin at the state ``drawn + 1`` if `keep` is above 0, else at the seed ``-1 - keep``.
    """
    keep, turns = np.nan_to_num(np.asarray(keep, np.float64)), np.asarray(at, np.float64)
    seeds = np.maximum(-1.0 - keep, 0.0).astype(np.int64)
    state = np.where(keep > 0, np.asarray(drawn, np.int64) + 1, seeds) & MOST
    state, turns = np.broadcast_arrays(state.astype(np.uint64), turns)
    for turn in range(int(turns.max(initial=0))):
        state = np.where(turn < turns, (state * np.uint64(FACTOR) + TERM) & MOST, state)
    return state


def count(drawn: ArrayLike, keep: ArrayLike, at: ArrayLike) -> np.ndarray:
    return (_states(drawn, keep, at).astype(np.int64) - 1) & MOST


def number(kind: str, drawn: ArrayLike, keep: ArrayLike, at: ArrayLike) -> np.ndarray:
    """Draw a number from NEURON's global generator; ``count(drawn, keep, at) + 1`` is its state.

    `kind` is ``scop_uniform`` (0 to 1), ``scop_normal`` (mean 0, variance 1), ``scop_negexp`` (mean
    1) or ``scop_used`` (how many uniform numbers ``scop_normal`` draws there).
    """
    at = np.asarray(at, np.float64)
    if kind in (NAMES["uniform"], NAMES["negexp"]):
        value = _states(drawn, keep, at + 1) / MOST
        return value if kind == NAMES["uniform"] else -np.log(value)
    x, square, used = (np.zeros(np.shape(at)) for _ in range(3))
    missing = np.ones(np.shape(at), bool)
    while missing.any():
        pair = [2.0 * number(NAMES["uniform"], drawn, keep, at + used + k) - 1.0 for k in (0, 1)]
        x = np.where(missing, pair[0], x)
        square = np.where(missing, pair[0] * pair[0] + pair[1] * pair[1], square)
        used, missing = used + 2 * missing, square >= 1.0
    return used if kind == _USED else x * np.sqrt(-2.0 * np.log(square) / square)


def python_source(text: str, prefix: str) -> str:
    """Return the helpers that NumPy source `text` calls; they call this module by its name."""
    result = ""
    for name in (*NAMES.values(), _USED, "scop_count"):
        if f"{prefix}_{name}_(" in text:
            called = "count(" if name == "scop_count" else f"number({name!r}, "
            result += f"def {prefix}_{name}_(drawn, keep, at):\n"
            result += f"    return scop.{called}drawn, keep, at)\n\n\n"
    return result


def opencl_source(text: str, prefix: str) -> str:
    """Return the helpers that OpenCL source `text` calls; a kernel must define ``real``."""
    if f"{prefix}_scop_" not in text:
        return ""
    arguments = "(const ulong drawn, const real keep, const real at)"
    unit = f"{prefix}_scop_state_(drawn, keep, at + 1) / {MOST}.0"
    bodies = {
        "scop_count": ("ulong", f"{prefix}_scop_state_(drawn, keep, at) - 1u"),
        NAMES["uniform"]: ("real", f"(real)({unit})"),
        NAMES["negexp"]: ("real", f"(real)-log({unit})"),
        NAMES["normal"]: ("real", f"(real){prefix}_scop_polar_(drawn, keep, at).x"),
        _USED: ("real", f"(real){prefix}_scop_polar_(drawn, keep, at).y"),
    }
    result = f"""\
// state of NEURON's one generator
static uint {prefix}_scop_state_{arguments}
{{
    uint state = keep > 0 ? (uint)drawn + 1u : (uint)(ulong)(-1 - keep);
    for (int turn = 0; turn < (int)at; turn++) state = state * {FACTOR}u + {TERM}u;
    return state;
}}

"""
    if any(f"{prefix}_{name}_(" in text for name in (NAMES["normal"], _USED)):
        result += f"""\
// a normal number by the polar method, and how many numbers it draws
static double2 {prefix}_scop_polar_{arguments}
{{
    uint state = {prefix}_scop_state_(drawn, keep, at);
    double x, square;
    int used = 0;
    do {{
        state = state * {FACTOR}u + {TERM}u;
        x = 2.0 * (state / {MOST}.0) - 1.0;
        state = state * {FACTOR}u + {TERM}u;
        const double y = 2.0 * (state / {MOST}.0) - 1.0;
        square = x * x + y * y;
        used += 2;
    }} while (square >= 1.0);
    return (double2)(x * sqrt(-2.0 * log(square) / square), used);
}}

"""
    for name, (kind, body) in bodies.items():
        if f"{prefix}_{name}_(" in text:
            result += f"static {kind} {prefix}_{name}_{arguments}\n{{\n    return {body};\n}}\n\n"
    return result
