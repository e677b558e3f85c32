"""All exceptions and warnings of clhines; all errors derive from :class:`ClhinesError`.

Each message is one line, with the value, the expected values, and the place.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, NoReturn, cast

_NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
_SHOWN = 60  # most characters of a value in a message
# environment variables with the rank count: MPICH and Intel, Open MPI, Slurm
_LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_LONGEST = 400  # most characters of a name in a message: longer than any path that fits on a screen
_NAMES = re.compile(r"(?<!\w)'[^'\n]*'|\S+")  # a quoted name, which may have spaces, or a word


def shown(value: object) -> str:
    """Return the `repr` of a value, shortened for a one-line message."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of more digits than Python prints
        return f"a {type(value).__name__} with too many digits to print"
    except Exception:  # raised by a user's class
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def meant(value: object, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean 'X'?"`` if a candidate is similar to the value, else ""."""
    if not isinstance(value, str):
        return ""
    lower = {word.lower(): word for word in candidates}
    near = get_close_matches(value.strip().lower()[:_SHOWN], lower, n=1, cutoff=0.6)
    return f"; did you mean '{lower[near[0]]}'?" if near and lower[near[0]] != value else ""


class ClhinesError(Exception):
    """Base class of all errors that clhines raises on purpose; they can be pickled."""

    def __init__(self, message: object = "", *more: object) -> None:
        text = str(message)
        cut = self._cut(text)
        # keep the object if nothing is cut: `message` may be a str with the id of a refusal
        super().__init__(message if cut == text and isinstance(message, str) else cut, *more)

    @staticmethod
    def _cut(message: str) -> str:
        """Shorten each very long name in a message: users' names have any length."""

        def cut(match: re.Match[str]) -> str:
            name = match[0]
            return name if len(name) < _LONGEST else name[:_SHOWN] + "..." + name[-1]

        return _NAMES.sub(cut, message)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle message and attributes, without `__init__`: its parameters differ by class."""
        return _unpickled, (type(self), self.args, dict(vars(self)))


def _unpickled(
    cls: type[ClhinesError], args: tuple[object, ...], attributes: dict[str, object]
) -> ClhinesError:
    # MemoryError and another built-in base leave no usable `__new__`: call `__init__` instead
    error = cls(*args) if issubclass(cls, MemoryError) else cls.__new__(cls, *args)
    vars(error).update(attributes)
    return error


class ForestError(ClhinesError, ValueError):
    """The parent array or the cell offsets do not describe a forest of rooted trees."""


class InputError(ClhinesError, ValueError):
    """An argument has the wrong shape, dtype, order or value."""


class MorphologyError(ClhinesError, ValueError):
    """An SWC file is malformed; the message starts with ``file:line:``."""


class CableError(ClhinesError, ValueError):
    """A morphology cannot be discretised: a radius or a length is not positive."""


class PivotError(ClhinesError, ArithmeticError):
    """A pivot was zero, negative, NaN or infinite.

    Attributes
    ----------
    cell : int
        Index of the first cell with a bad pivot.
    node : int
        Index in natural order of the deepest bad node in that cell.
    """

    def __init__(self, message: str, cell: int, node: int) -> None:
        super().__init__(message)
        self.cell, self.node = cell, node


class SpikeOverflowError(ClhinesError, OverflowError):
    """A run had more spikes than its spike list can hold.

    Attributes
    ----------
    step : int
        The list became full before the end of this step, or shortly after it.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class DeviceError(ClhinesError, RuntimeError):
    """No usable OpenCL device: none exists, none matches, or none has the precision.

    Attributes
    ----------
    is_refusal : bool
        True if clhines cannot do the run; False if the user named a device that does not exist.
    """

    is_refusal = True

    @classmethod
    def no_match(cls, message: str) -> DeviceError:
        """Return the error for a device name, or number, that matches no device."""
        error = cls(message)
        error.is_refusal = False
        return error


class DeviceMemoryError(DeviceError, MemoryError):
    """The device has too little memory; the message has the needed and the available size."""


class HostMemoryError(ClhinesError, MemoryError):
    """The host has too little memory; the message has the needed and the available size."""


class BuildError(ClhinesError, RuntimeError):
    """A generated kernel did not compile; the message ends with the numbered source."""

    @staticmethod
    def _cut(message: str) -> str:
        return message


class RankError(ClhinesError, RuntimeError):
    """Another MPI rank of the simulation failed; the message is from that rank.

    Attributes
    ----------
    rank : int
    is_refusal : bool
        Whether all failed ranks refused the run, see the function `is_refusal`.
    """

    def __init__(self, message: str, rank: int, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.rank, self.is_refusal = rank, is_refusal


def is_refusal(error: BaseException) -> bool:
    """Whether an error means that clhines cannot do a run: a refusal, failed build or no memory."""
    if hasattr(error, "is_refusal"):
        return bool(error.is_refusal)
    opencl = getattr(sys.modules.get("pyopencl"), "Error", InputError)
    kinds = InputError, DeviceError, BuildError, SpikeOverflowError, MemoryError, opencl
    return isinstance(error, kinds)


def description(error: BaseException | None) -> tuple[str, bool]:
    """Return an error's message in one line, "" for None, and whether a run may go on without it.

    MPI ranks gather these for `raise_together`.
    """
    if error is None:
        return "", True
    text = " ".join(str(error).split())
    line = text if isinstance(error, Exception) and text else f"{type(error).__name__} {text}"
    return line, is_refusal(error)


def raise_together(error: BaseException | None, every: Sequence[tuple[str, bool]]) -> NoReturn:
    """Raise this MPI rank's `error`, or another rank's: `every` has all ranks' `description`."""
    are_refusals = all(refuses for _, refuses in every)
    if error is not None and (are_refusals or not is_refusal(error)):
        raise error
    failed = [r for r, (line, _) in enumerate(every) if line]
    rank = next((r for r in failed if not every[r][1]), failed[0])
    raise RankError(f"rank {rank}: {every[rank][0]}", rank, are_refusals)


def say_to_caller(message: str) -> None:
    """Warn at the user's line; if a framework has silenced all warnings, print to stderr instead.

    NetPyNE silences them when it is imported. ``python -W ignore`` silences the printed line, too.
    """
    user_filters = (f for f in warnings.filters if f[1] is None and issubclass(UserWarning, f[2]))
    is_off = next(user_filters, None) == ("ignore", None, Warning, None, 0)
    if is_off and "ignore" not in sys.warnoptions:
        tell(message)
        return
    warn_caller(message, UserWarning)


def tell(message: str) -> None:
    """Print a message on stderr; nothing happens if stderr is closed."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"clhines: {message}", file=sys.stderr, flush=True)


@cache
def tell_once(message: str) -> None:
    """Print a message on stderr, but only once per process."""
    tell(message)


def launched() -> bool:
    """Whether an MPI launcher started this process as one of several."""
    sizes = [os.environ.get(name, "") for name in _LAUNCHERS]
    return any(size.isdigit() and int(size) > 1 for size in sizes)


class CacheWarning(UserWarning):
    """An OpenCL cache on disk cannot be used; the message names the cache and the reason."""


class AccuracyWarning(ClhinesError, UserWarning):  # noqa: N818
    """A solution has lost digits. ``check="raise"`` raises this warning as an error.

    Attributes
    ----------
    cell, node : int
        The row with the largest error, or the row whose elimination lost digits. For tridiagonal
        systems: the number of the system, and the row counted over all systems.
    cells : tuple of int
        All cells or systems that lost digits.
    """

    def __init__(
        self, message: str, cell: int = -1, node: int = -1, cells: tuple[int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.cell, self.node, self.cells = cell, node, cells


class RepairWarning(UserWarning):
    """`repair` replaced a value in a morphology file; the message names file and line."""


class SimulationError(ClhinesError, ArithmeticError):
    """A voltage was not finite after a step.

    Attributes
    ----------
    cell, node : int
        The first such cell in that step, and the node of its soma.
    time : float, ms
        The end of that step.
    result : clhines.simulator.result.Result
        Records and spikes before that step.
    """

    def __init__(self, message: str, cell: int, node: int, time: float, result: object) -> None:
        super().__init__(message)
        self.cell, self.node, self.time, self.result = cell, node, time, result


class RunInterrupt(KeyboardInterrupt):
    """Ctrl-C has ended a run. Not a `ClhinesError`: ``except Exception`` does not catch it.

    Attributes
    ----------
    result : clhines.simulator.result.Result
        Spikes and records of the steps that were complete; the simulation stands at their end.
    """

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


def install(extra: str) -> str:
    """Return the command that installs an optional dependency group of the package."""
    return f"python -m pip install '.[{extra}]' in a checkout of clhines"


def warn_caller(message: str | Warning, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called clhines, however many calls ago."""
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_back and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def suggest_keywords(home: ModuleType, name: str) -> object:
    """Wrap the function or class `home.name` to suggest keywords for misspelt ones; return it."""
    public = getattr(home, name)
    if isinstance(public, FunctionType) and not hasattr(public, "__suggests__"):
        original, public = public, _suggesting(public)
        for key in [key for key, value in vars(home).items() if value is original]:
            setattr(home, key, public)
    elif isinstance(public, type):
        for key, method in list(vars(public).items()):
            is_public = key == "__init__" or not key.startswith("_")
            function = method.__func__ if isinstance(method, classmethod) else method
            if isinstance(function, FunctionType) and is_public and key != "enqueue":  # is too fast
                if not hasattr(function, "__suggests__"):
                    wrapped = _suggesting(function)
                    setattr(public, key, wrapped if method is function else classmethod(wrapped))
    return public


def _suggesting(function: FunctionType) -> FunctionType:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters):
        return function  # it accepts any keyword
    parameter_names = [p.name for p in parameters if p.kind in _NAMED]
    begin = f"{function.__qualname__}() got an unexpected keyword argument '"

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            text = str(error)
            if not kwargs or not text.startswith(begin) or "id you mean" in text:
                raise
            wrong = text[len(begin) :].partition("'")[0]
            error.args = (f"{text}{meant(wrong, parameter_names)}",)
            raise

    wrapped.__suggests__ = True  # type: ignore[attr-defined]
    return cast("FunctionType", wrapped)
