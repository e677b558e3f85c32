"""Every exception a user of clhines can meet; all errors derive from :class:`ClhinesError`.

Each message is one line: what was given, what was expected, and where.
"""

from __future__ import annotations

import functools
import inspect
import os
import pickle
import re
import sys
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import numpy as np

_NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
_SHOWN = 60  # characters of a value that a message repeats
# environment variables that launchers of MPI set: MPICH's and Intel's, Open MPI's, Slurm's
_LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_LONGEST = 400  # characters of a name in a message: more than any path that fits on a screen
_NAMES = re.compile(r"(?<!\w)'[^'\n]*'|\S+")  # a quoted name, which may have spaces, or a word
_hooks: list[object] = []  # that this package has given Python for errors that nobody catches


def shown(value: object) -> str:
    """Return the `repr` of a value, cut to what fits into a message of one line."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of more digits than Python prints
        return f"a {type(value).__name__} with too many digits to print"
    except Exception:  # of a user's own class
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def meant(value: object, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean 'X'?"`` where a known word is close to a wrong one, else nothing."""
    if not isinstance(value, str):
        return ""
    lower = {word.lower(): word for word in candidates}
    near = get_close_matches(value.strip().lower()[:_SHOWN], lower, n=1, cutoff=0.6)
    return f"; did you mean '{lower[near[0]]}'?" if near and lower[near[0]] != value else ""


class ClhinesError(Exception):
    """Base class of every error that clhines raises on purpose; all can be pickled."""

    def __init__(self, message: object = "", *more: object) -> None:
        text = str(message)
        cut = self._cut(text)
        # a refusal's sentence knows its id: it stays as it is
        super().__init__(message if cut == text and isinstance(message, str) else cut, *more)

    @staticmethod
    def _cut(message: str) -> str:
        """Cut long names: a user may have chosen them."""

        def cut(match: re.Match[str]) -> str:
            name = match[0]
            return name if len(name) < _LONGEST else name[:_SHOWN] + "..." + name[-1]

        return _NAMES.sub(cut, message)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the message and the attributes, whatever the parameters of `__init__`."""
        return _unpickled, (type(self), self.args, self._picklable())

    def _picklable(self) -> dict[str, object]:
        return dict(vars(self))


def _unpickled(
    cls: type[ClhinesError], args: tuple[object, ...], attributes: dict[str, object]
) -> ClhinesError:
    # Python refuses `__new__` of what has two built-in bases; those take their message alone.
    error = cls(*args) if issubclass(cls, MemoryError) else cls.__new__(cls, *args)
    vars(error).update(attributes)
    return error


def _can_pickle(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # whatever the type of the value raises
        return False
    return True


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
        Index of the node in natural order, the deepest bad one in that cell.
    """

    def __init__(self, message: str, cell: int, node: int) -> None:
        super().__init__(message)
        self.cell, self.node = cell, node


class SpikeOverflowError(ClhinesError, OverflowError):
    """More spikes were found than their list has room for.

    Attributes
    ----------
    step : int
        The step that the message names.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class DeviceError(ClhinesError, RuntimeError):
    """No usable OpenCL device: none found, none matches, or it lacks the precision asked for."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The device has too little memory; the message says how much is needed and there is."""


class HostMemoryError(ClhinesError, MemoryError):
    """The host has too little memory; the message says how much is needed and there is."""


class DeviceShareError(DeviceError):
    """Some of several devices failed; the message names them and their cells.

    Attributes
    ----------
    errors : dict of int to Exception
        Exception of each failed device, keyed by its index in ``devices``.
    result : object
        Results of the other devices. For NumPy arrays the solution, NaN in cells that were not
        solved; otherwise a list with one item per device, None for those that failed and, once
        the error has been pickled, for arrays on a device.
    solved : (num_cells,) bool
        All False if there was nothing to solve.
    """

    def __init__(
        self, message: str, errors: dict[int, Exception], result: object, solved: np.ndarray
    ) -> None:
        super().__init__(message)
        self.errors, self.result, self.solved = errors, result, solved

    def _picklable(self) -> dict[str, object]:
        """Leave out arrays on devices, and name errors of OpenCL: these stay in their process."""
        errors = {
            k: e if _can_pickle(e) else DeviceError(f"{type(e).__name__}: {e}")
            for k, e in self.errors.items()
        }
        result = self.result
        if isinstance(result, list):
            result = [one if _can_pickle(one) else None for one in result]
        elif not _can_pickle(result):
            result = None
        return {**vars(self), "errors": errors, "result": result}


class BuildError(ClhinesError, RuntimeError):
    """A generated kernel did not compile; the message ends with the numbered source."""

    @staticmethod
    def _cut(message: str) -> str:
        return message


class RankError(ClhinesError, RuntimeError):
    """Another rank of a simulation has failed; the message is that rank's.

    Attributes
    ----------
    rank : int
    is_refusal : bool
        Whether all ranks that have failed refuse the run; see `is_refusal`.
    """

    def __init__(self, message: str, rank: int, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.rank, self.is_refusal = rank, is_refusal


def is_refusal(error: BaseException) -> bool:
    """Whether a run is refused, cannot be built, or lacks memory, and has not failed otherwise."""
    if hasattr(error, "is_refusal"):
        return bool(error.is_refusal)
    opencl = getattr(sys.modules.get("pyopencl"), "Error", InputError)
    kinds = InputError, DeviceError, BuildError, SpikeOverflowError, MemoryError, opencl
    return isinstance(error, kinds)


def say_to_caller(message: str) -> None:
    """Warn the caller, by a line on stderr where a framework has turned all warnings off.

    That is what NetPyNE does when it is imported; who starts Python with ``-W ignore`` hears
    nothing.
    """
    user_filters = (f for f in warnings.filters if f[1] is None and issubclass(UserWarning, f[2]))
    is_off = next(user_filters, None) == ("ignore", None, Warning, None, 0)
    if is_off and "ignore" not in sys.warnoptions:
        tell(message)
        return
    warn_caller(message, UserWarning)


def tell(message: str) -> None:
    """Print a line on stderr, if there is one."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"clhines: {message}", file=sys.stderr, flush=True)


@cache
def tell_once(message: str) -> None:
    """Print a line on stderr, the first time in this process."""
    tell(message)


def launched() -> bool:
    """Whether a launcher of MPI has started this process together with others."""
    sizes = [os.environ.get(name, "") for name in _LAUNCHERS]
    return any(size.isdigit() and int(size) > 1 for size in sizes)


def stop_all_on_errors() -> None:
    """See to it that an error that nobody catches ends all ranks of mpi4py, not this one alone."""
    if sys.excepthook in _hooks:
        return
    usual = sys.excepthook

    def stop(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        world = other_ranks()
        if world is not None and isinstance(value, RankError):
            time.sleep(1.0)  # the rank that has the error says so first, if it does
            print(f"clhines: {value}", file=sys.stderr)
        else:
            usual(kind, value, trace)
        if world is None:
            return
        if not isinstance(value, RankError):
            print(f"clhines: rank {world.rank} of {world.size} stops all", file=sys.stderr)
        end_all(world, 1)

    _hooks.append(stop)
    sys.excepthook = stop


def end_all(comm: Any, code: int) -> None:
    """End all ranks of a communicator of mpi4py, once what has been said is passed on."""
    sys.stderr.flush()
    time.sleep(0.5)  # launchers may drop what they have not passed on by then
    comm.Abort(code)
    time.sleep(5.0)  # it may return before the launcher ends this process


def other_ranks() -> Any:
    """Return mpi4py's world, if this process has loaded it and is not alone in it, else None."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    return mpi.COMM_WORLD if mpi.COMM_WORLD.size > 1 else None


class StoreWarning(UserWarning):
    """The winner of measuring could not be stored; the solver works all the same."""


class CacheWarning(UserWarning):
    """A cache of OpenCL cannot be used; it works without. The message says which, and why."""


class AccuracyWarning(ClhinesError, UserWarning):  # noqa: N818
    """A solution has lost digits; with ``check="raise"`` it is raised.

    Attributes
    ----------
    cell, node : int
        The row with the largest error, or where the elimination lost digits; tridiagonal systems:
        the system, and the row counted over all systems.
    cells : tuple of int
        All such cells or systems.
    """

    def __init__(
        self, message: str, cell: int = -1, node: int = -1, cells: tuple[int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.cell, self.node, self.cells = cell, node, cells


class RepairWarning(UserWarning):
    """A value of a file was replaced as `repair` asked for; the message names file and line."""


class SimulationError(ClhinesError, ArithmeticError):
    """A voltage was not finite after a step.

    Attributes
    ----------
    cell, node : int
        The first cell in the first such step, and its soma's node.
    time : float, ms
        At the end of that step.
    result : clhines.simulator.result.Result
        What was recorded and found before.
    """

    def __init__(self, message: str, cell: int, node: int, time: float, result: object) -> None:
        super().__init__(message)
        self.cell, self.node, self.time, self.result = cell, node, time, result


class RunInterrupt(KeyboardInterrupt):
    """Ctrl-C has ended a run; no `ClhinesError`, so that ``except Exception`` lets it pass.

    Attributes
    ----------
    result : clhines.simulator.result.Result
        Spikes and records until the end of the last complete chunk, where the simulation stands.
    """

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


def install(extra: str) -> str:
    """Return the command that installs what an extra name of the package stands for."""
    return f"python -m pip install '.[{extra}]' in a checkout of clhines"


def name_in_caller(value: object, otherwise: str) -> str:
    """Return the name of a variable that has a value, outside this package, for a message."""
    frame, _ = _caller()
    variables = {**frame.f_globals, **frame.f_locals}
    names = [name for name, other in variables.items() if other is value and name[0] != "_"]
    return names[-1] if names else otherwise


def warn_caller(message: str | Warning, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here, however many calls away it is."""
    _, level = _caller()
    warnings.warn(message, category, stacklevel=level)


def _caller() -> tuple[FrameType, int]:
    """Return the frame outside this package that led here, and the `stacklevel` of its callee."""
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frame: FrameType | None = inspect.currentframe()
    assert frame is not None
    level = 0
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    return frame, level


def suggest_keywords(home: ModuleType, name: str) -> object:
    """Return a public function or class; wrong keywords of its calls say which were meant."""
    public = getattr(home, name)
    if isinstance(public, FunctionType) and not hasattr(public, "__suggests__"):
        original, public = public, _suggesting(public)
        for key in [key for key, value in vars(home).items() if value is original]:
            setattr(home, key, public)
    elif isinstance(public, type):
        for key, method in list(vars(public).items()):
            is_public = key == "__init__" or not key.startswith("_")
            if isinstance(method, FunctionType) and is_public and key != "enqueue":  # is too fast
                if not hasattr(method, "__suggests__"):
                    setattr(public, key, _suggesting(method))
    return public


def _suggesting(function: FunctionType) -> FunctionType:
    parameter_names = [
        p.name for p in inspect.signature(function).parameters.values() if p.kind in _NAMED
    ]
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
