"""Functions of a mechanism, generated once per text: OpenCL source, and NumPy twins to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from clhines.errors import InputError
from clhines.mechanisms.emit.functions import Source
from clhines.mechanisms.ir.exact import ExpressionError
from clhines.mechanisms.text import meaning

Twin = Callable[..., Sequence[np.ndarray]]


@contextmanager
def _refusing(text: str) -> Iterator[None]:
    """Name the mechanism whose functions would be too large."""
    try:
        yield
    except ExpressionError as error:
        name = meaning.known(text).name
        raise InputError(f"mechanism {name}: its functions take {error}") from error


@lru_cache(maxsize=64)
def source(text: str, real: str) -> str:
    """Return the OpenCL functions of `Mechanism.functions`."""
    with _refusing(text):
        return Source(meaning.read(text), real).text()


@lru_cache(maxsize=64)
def grouped_source(
    text: str, real: str, width: int, single: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """Return the OpenCL functions of `Mechanism.grouped`, and the names of constants."""
    with _refusing(text):
        return Source(meaning.read(text), real, width, single).parts()


@lru_cache(maxsize=64)
def twins(text: str) -> dict[str, Twin]:
    """Make the NumPy twins. The code that is run is printed from numbers and checked names."""
    e = meaning.read(text)
    with _refusing(text):
        code = Source(e, "numpy").text()
    space: dict[str, object] = {"np": np}
    exec(compile(code, f"<mechanism {e.name}>", "exec"), space)
    prefix = e.name + "_"
    return {
        name[len(prefix) :]: f
        for name, f in space.items()
        if name.startswith(prefix) and callable(f)
    }


def call(text: str, function: str, *arguments: ArrayLike) -> Sequence[np.ndarray]:
    """Call a twin, ``initial`` for instance, of arguments in the order of its parameters."""
    # NumPy's numbers, as Python's raise on a division by 0
    given = [np.float64(a) if isinstance(a, int | float) else a for a in arguments]
    with np.errstate(all="ignore"):  # np.where computes both of its branches
        return twins(text)[function](*given)


def parameters(text: str, params: Mapping[str, ArrayLike] | None) -> list[ArrayLike]:
    """Return the values of all parameters in order: those given, defaults for the others."""
    e, params = meaning.known(text), params or {}
    known = [q.name for q in e.parameters]
    unknown = [name for name in params if name not in known]
    if unknown:
        raise InputError(
            f"mechanism {e.name} has no parameter '{unknown[0]}'; "
            f"it has {', '.join(known) or 'none'}"
        )
    return [params.get(q.name, q.default) for q in e.parameters]


def inputs(
    text: str, params: Mapping[str, ArrayLike] | None, states: Mapping[str, ArrayLike] | None
) -> list[ArrayLike]:
    """Return the values of all parameters, then of all states, in order."""
    e, states = meaning.known(text), states or {}
    missing = [s for s in e.state_names if s not in states]
    if missing:
        raise InputError(f"mechanism {e.name}: no value of state '{missing[0]}'")
    return parameters(text, params) + [states[s] for s in e.state_names]


def named_states(text: str, values: Sequence[np.ndarray], like: ArrayLike) -> dict[str, np.ndarray]:
    """Return states by name, each of the shape to which `like` and all of them broadcast."""
    shape = np.broadcast_shapes(np.shape(like), *map(np.shape, values))  # takes more than 32
    names = meaning.known(text).state_names
    return {s: np.broadcast_to(x, shape).copy() for s, x in zip(names, values, strict=True)}
