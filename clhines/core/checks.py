"""Check arguments, and that data fit into the host's memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.errors import ForestError, HostMemoryError, InputError, meant, shown, warn_caller
from clhines.core.quantities import as_numbers

MAX_COUNT = 10**15  # larger counts exceed any memory
_UNCHECKED = 2**20  # bytes: to ask the system takes longer than to allocate so few
_MEMINFO = Path("/proc/meminfo")
_GROUPS = (  # a control group's memory limit and use, as files; versions 2 and 1
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)
# DLPack's device types: memory that the host can read, and names of the others.
_HOST_MEMORY = (1, 3, 11, 13)  # the host's, pinned by CUDA and ROCm, managed by CUDA
_DLPACK = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}


def host_array(name: str, a: Any) -> Any:
    """View an object with ``__dlpack__`` as a NumPy array on the same memory; keep others."""
    if isinstance(a, np.ndarray) or not hasattr(type(a), "__dlpack__"):
        return a  # look at the type: pint's quantities forward attributes to their arrays
    kind = type(a).__name__
    if hasattr(type(a), "is_neg") and a.is_neg():  # PyTorch negates on reads, DLPack not
        raise InputError(f"{name} is {kind} with the negative bit; expected {name}.resolve_neg()")
    try:
        place = int(a.__dlpack_device__()[0])
        if place in _HOST_MEMORY:
            return np.from_dlpack(a)
    except Exception as error:  # raised by another library, as for a tracer of jax.jit
        raise InputError(f"{name} is {kind}, whose memory cannot be shared: {error}") from error
    where = _DLPACK.get(place, f"DLPack device {place}")
    raise InputError(
        f"{name} is {kind} in memory of {where}, which OpenCL cannot share; expected host memory, "
        "as from .cpu() or .get()"
    )


def to_array(
    name: str, values: object, dtype: DTypeLike | None = None, unit: str | None = None
) -> np.ndarray:
    """Convert values to an array in `unit`; refuse masked entries, whose data NumPy would use."""
    values = host_array(name, as_numbers(name, values, unit))
    parts = values if isinstance(values, (list, tuple)) else [values]
    masked = sum(int(np.ma.count_masked(p)) for p in parts if isinstance(p, np.ma.MaskedArray))
    if masked:
        raise InputError(
            f"{name} has {masked} masked values; expected none (see MaskedArray.filled)"
        )
    try:
        return np.asarray(values, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{name} is not an array: {error}") from error


def as_array(
    name: str, values: object, dtype: DTypeLike | None = None, unit: str | None = None
) -> np.ndarray:
    """Convert values to a number or 1-D array in `unit`; refuse more dimensions."""
    array = to_array(name, values, dtype, unit)
    if array.ndim > 1:
        raise InputError(f"{name} has shape {array.shape}; expected one dimension")
    return array


def as_number(name: str, value: object, unit: str | None = None) -> float:
    array = as_array(name, value, unit=unit)
    if array.ndim or array.dtype.kind not in "fiu" or not np.isfinite(array):
        raise InputError(f"{name} is {shown(value)}; expected a finite number")
    return float(array)


def as_real(name: str, values: object, unit: str | None = None, copy: bool = True) -> np.ndarray:
    array = to_array(name, values, unit=unit)
    if array.size and array.dtype.kind not in "fiu":
        raise InputError(f"{name} has dtype {array.dtype}; expected real numbers")
    with np.errstate(over="ignore"):  # longdouble beyond float64 is refused below
        array = array.astype(np.float64, copy=copy)
    if not np.isfinite(array).all():
        at = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{name}{list(at) or ''} is {array[at]}; expected a finite number")
    return array


def as_whole_number(name: str, value: object, least: int, most: int = MAX_COUNT) -> int:
    is_other = isinstance(value, (bool, np.timedelta64))
    if is_other or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} is {shown(value)}; expected a whole number, {least} or more")
    if value > most:
        raise InputError(f"{name} is {shown(value)}; expected a whole number, at most {most}")
    return int(value)


def as_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        near = meant(value, choices)
        raise InputError(f"{name}={shown(value)}; expected {', '.join(choices)}{near}")
    return value


def as_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} is {shown(value)}; expected a text")
    return value


def as_switch(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} is {shown(value)}; expected True or False")
    return bool(value)


def is_switched_on(variable: str) -> bool:
    """Whether an environment variable is 1; any other value but 0 counts as 1, with a warning."""
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        warn_caller(f"{variable}={shown(value)}; expected 0 or 1: works as 1", UserWarning)
    return value not in ("", "0")


def as_check(value: object) -> bool | str:
    if isinstance(value, str) and value == "raise":
        return value
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"check is {shown(value)}; expected True, False or 'raise'")
    return bool(value)


def as_indices(name: str, numbers: object, count: int, what: str) -> np.ndarray:
    """Check indices of `what`, such as cells, from 0 to ``count - 1``; return them, (m,) int64."""
    values = np.atleast_1d(as_array(name, numbers))
    if not values.size:
        return np.zeros(0, np.int64)
    if values.dtype.kind not in "iu":
        text = values.dtype.kind == "U"
        got = f"is {shown(str(values[0]))}" if text else f"has dtype {values.dtype}"
        raise InputError(f"{name} {got}; expected whole numbers of {what}s")
    bad = np.flatnonzero((values < 0) | (values >= count))
    if len(bad):
        k = int(bad[0])
        raise InputError(f"{name}[{k}]: there is no {what} {values[k]}; expected 0 to {count - 1}")
    return values.astype(np.int64)


def as_places(name: str, values: np.ndarray, count: int, what: str) -> np.ndarray:
    if values.dtype.kind != "b":
        return as_indices(name, values, count, what)
    if values.shape != (count,):
        raise InputError(f"{name} is a mask of shape {values.shape}; expected ({count},)")
    return np.flatnonzero(values)


def integers(values: np.ndarray, name: str) -> np.ndarray:
    """Convert values to a 1-D array of signed integers; raise `ForestError` if impossible."""
    try:
        array = to_array(name, values)
    except InputError as error:
        raise ForestError(str(error)) from error
    if array.ndim != 1:
        raise ForestError(f"{name} has {array.ndim} dimensions; expected 1")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise ForestError(f"{name} holds {array.max()}; expected at most {np.iinfo(np.int64).max}")
    if array.dtype.kind == "u" or (array.dtype.kind == "i" and array.dtype.itemsize < 4):
        array = array.astype(np.int64)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ForestError(f"{name}[{int(np.flatnonzero(np.isnan(array))[0])}] is NaN")
    if array.dtype.kind != "i" and array.size:
        raise ForestError(f"{name} has dtype {array.dtype}; expected an integer dtype")
    return np.ascontiguousarray(array if array.size else array.astype(np.int64))


def real_numbers(name: str, a: object) -> np.ndarray:
    """Convert values to an array of real numbers; refuse other dtypes and masked entries."""
    array = to_array(name, a)
    if array.dtype.kind not in "fiub":
        hint = ""
        if array.dtype.kind == "c":
            hint = (
                ": with a real matrix solve for b.real and b.imag as two right-hand sides; with "
                "a complex one use scipy.linalg.solve_banded, or spsolve for trees"
            )
        raise InputError(f"{name} has dtype {array.dtype}; expected real numbers{hint}")
    return array


def to_numpy(name: str, a: object, dtype: np.dtype) -> np.ndarray:
    array = real_numbers(name, a)
    if array.dtype != dtype or not array.flags.c_contiguous:
        needed = array.size * dtype.itemsize
        check_room(2 * needed if name == "b" else needed, f"{name} and its solutions")
    return np.ascontiguousarray(in_precision(name, array, dtype))


def in_precision(name: str, a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert `a` to `dtype`; refuse longdouble and, if `name` is "b", values that overflow."""
    if a.dtype.kind == "f" and a.dtype.itemsize > 8:
        raise InputError(
            f"{name} has dtype {a.dtype}; expected float64 or float32, as devices have no more "
            f"digits: pass {name}.astype(float), or solve with mpmath"
        )
    with np.errstate(over="ignore"):  # refused below, or reported as bad pivots
        converted = a.astype(dtype, copy=False)
    if name == "b" and converted is not a and dtype.itemsize < a.dtype.itemsize:
        lost = np.isinf(converted)
        if lost.any() and np.isfinite(a[lost]).any():
            k = tuple(int(i) for i in np.argwhere(lost & np.isfinite(a))[0])
            raise InputError(
                f"{name}[{', '.join(map(str, k))}] is {a[k]:g}; expected at most "
                f"{np.finfo(dtype).max:.3g}, the largest {dtype} (or dtype float64)"
            )
    return converted


def available() -> int | None:
    sizes = [n for n in (_of_system(), *(_of_group(*names) for names in _GROUPS)) if n is not None]
    return min(sizes, default=None)


def _of_system() -> int | None:
    try:
        for line in _MEMINFO.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # neither Linux nor another POSIX
        return None


def _of_group(limit: Path, use: Path) -> int | None:
    try:
        return max(int(limit.read_text("ascii")) - int(use.read_text("ascii")), 0)
    except (OSError, ValueError):  # no such group, or no limit: "max"
        return None


def check_room(needed: float, what: str) -> None:
    """Raise HostMemoryError if the host has less than `needed` bytes free; `what` is the data."""
    if needed < _UNCHECKED:
        return
    there, needed = available(), min(needed, 2.0**100)
    if there is not None and needed > there:
        raise HostMemoryError(
            f"{what} take {_size(needed)} or more of the host's memory; there are {_size(there)}"
        )


def _size(size: float) -> str:
    for unit, bytes_ in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if size >= bytes_:
            return f"{size / bytes_:.3g} {unit}"
    return f"{size:.0f} bytes"
