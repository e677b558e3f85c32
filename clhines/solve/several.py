"""Share: one batch over several devices, each with a queue and a solver of its own cells."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines import reference
from clhines.checks import shown, to_numpy
from clhines.device import devices
from clhines.device.arrays import check_finite, events_of, is_list, target_of, unshared
from clhines.device.guard import exclusive
from clhines.errors import BuildError, DeviceError, DeviceMemoryError, InputError, ShareError
from clhines.forest import Forest
from clhines.solve import rates

if TYPE_CHECKING:
    from clhines.solve.factors import Factors
    from clhines.solve.solver import Solver


SHARES = ("numpy", "device")  # what a share can be measured with
_AT_ONCE = 64  # values a node that samples may take, two of them at the same time


class Share:
    """A batch shared out over several devices; what a `Solver` with ``devices=`` works with.

    Parameters
    ----------
    forest : Forest
    given : sequence of pyopencl.Device, str or pyopencl.CommandQueue
    dtype : float64 or float32
    shares : "numpy", "device" or sequence of float
        See `Solver`.
    make : callable
        ``make(part, queue)`` is the solver of some cells on one device.
    time : callable
        As `make`, of a solver that is timed only.

    Attributes
    ----------
    solvers : list of Solver
        One a device that has cells.
    cells : (len(solvers) + 1,) int64
        First cell of each of them, and the end.
    shares : list of float
        Of the nodes, one a device that was given; 0 where it was left out.
    rates : list of Rate or None
        One a device that was given, where they were measured.
    seconds : list of float
        Wall time of each solver in the last solve from NumPy to NumPy.
    """

    def __init__(
        self,
        forest: Forest,
        given: Any,
        dtype: np.dtype,
        shares: Any,
        make: Callable[[Forest, cl.CommandQueue], Solver],
        time: Callable[[Forest, cl.CommandQueue], Solver],
    ) -> None:
        self.forest, self.dtype, self._lock = forest, dtype, threading.RLock()
        self._queues = _queues(given, dtype)
        self._make = make
        self._threads: ThreadPoolExecutor | None = None
        self.rates: list[rates.Rate] | None = None
        self.seconds: list[float] = []
        edges = self._edges(shares, time)
        nodes = np.diff(forest.cell_offsets[edges])
        self.shares = (nodes / forest.num_nodes).tolist()
        used = np.flatnonzero(nodes)
        self._place = used.tolist()  # of each solver among the devices given
        self.cells = np.append(edges[:-1][used], forest.num_cells)
        self.nodes = forest.cell_offsets[self.cells]
        self.solvers = [self._solver(k) for k in range(len(used))]

    # -- shares --------------------------------------------------------------------------------

    def _edges(self, shares: Any, time: Callable[[Forest, cl.CommandQueue], Solver]) -> np.ndarray:
        """First cell of each device given, and the end."""
        count = len(self._queues)
        if isinstance(shares, str):
            if shares not in SHARES:
                raise InputError(
                    f"shares={shown(shares)} is not valid; expected "
                    f"{' or '.join(map(repr, SHARES))}, or a number for each device"
                )
            kinds = [_kind(queue.device) for queue in self._queues]
            if len(set(kinds)) > 1:
                memory = min(queue.device.global_mem_size for queue in self._queues)
                most = memory // (_AT_ONCE * self.dtype.itemsize)
                given = self.forest, self._queues, self.dtype, shares, time, most
                self.rates = rates.measure(*given)
            return rates.cut(self.forest, self.rates or [rates.Rate(0.0, 1.0)] * count)
        try:
            numbers = np.array(shares, np.float64)
        except (TypeError, ValueError):
            numbers = np.array(np.nan)
        good = numbers.shape == (count,) and np.isfinite(numbers).all() and (numbers >= 0).all()
        if not good or not numbers.any():
            raise InputError(
                f"shares={shown(shares)}; expected {count} finite numbers, 0 or more and not all 0"
            )
        numbers /= numbers.max()  # so that no sum of them overflows
        slow = rates.Rate(np.inf, 1.0)
        return rates.cut(
            self.forest, [rates.Rate(0.0, 1 / s) if s else slow for s in numbers.tolist()]
        )

    def _solver(self, k: int) -> Solver:
        first, end = (int(c) for c in self.cells[k : k + 2])
        whole = end - first == self.forest.num_cells
        part = self.forest if whole else self.forest.take(np.arange(first, end))
        try:
            return self._make(part, self._queues[self._place[k]])
        except BuildError as error:  # its source has numbers of its own
            raise BuildError(f"{self._name(k)}: {error}") from error
        except DeviceError as error:
            text = self._of_the_batch(str(error), first)
            raise type(error)(f"{self._name(k)}: {text}") from error
        except InputError as error:
            raise InputError(self._of_the_batch(str(error), first)) from error

    def _of_the_batch(self, text: str, first: int) -> str:
        """Replace numbers of cells and nodes of a part by those of the batch."""
        offsets = {"cell": first, "node": int(self.forest.cell_offsets[first])}
        return re.sub(
            r"\b(cell|node) (\d+)\b", lambda m: f"{m[1]} {int(m[2]) + offsets[m[1]]}", text
        )

    def _name(self, k: int) -> str:
        """Say which device this is, and of which cells."""
        first, end = self.cells[k : k + 2]
        device = self._queues[self._place[k]].device
        return f"devices[{self._place[k]}], {devices.label(device)}, cells {first} to {end - 1}"

    def describe(self) -> str:
        """Return a line for each device, for reading: share, cells, nodes, method, slices."""
        lines = []
        for k, (queue, share) in enumerate(zip(self._queues, self.shares, strict=True)):
            what = "left out: its share is less than a cell"
            if k in self._place:
                s = self._place.index(k)
                solver = self.solvers[s]
                what = (
                    f"{solver.forest.num_cells} cells, {solver.forest.num_nodes} nodes, "
                    f"{solver.plan.method}"
                )
                what += f", {solver.num_slices} slices" if solver.num_slices > 1 else ""
            lines.append(f"{share:6.1%}  {what}, {devices.label(queue.device)}")
        return "\n".join(lines)

    # -- all devices at once -------------------------------------------------------------------

    def _each(
        self, work: Callable[[int], Any], threads: bool = False, solves: bool = False
    ) -> list[Any]:
        """Do ``work(k)`` for every solver, whatever the others meet; `ShareError` at the end.

        Parameters
        ----------
        threads : bool
            All at the same time, for work that waits.
        solves : bool
            What is done is a solve.
        """

        def caught(k: int) -> Any:
            try:
                return work(k)
            except Exception as error:
                return _Failed(error)

        if threads and len(self.solvers) > 1:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(len(self.solvers), "clhines-share")
            done = list(self._threads.map(caught, range(len(self.solvers))))
        else:
            done = [caught(k) for k in range(len(self.solvers))]
        failed = {k: one.error for k, one in enumerate(done) if isinstance(one, _Failed)}
        if failed:
            self._raise(failed, done, solves)
        return done

    def _raise(self, failed: dict[int, Exception], done: list[Any], solves: bool) -> None:
        if all(isinstance(error, InputError) for error in failed.values()):
            k, error = next(iter(failed.items()))
            raise InputError(f"{self._name(k)}: {error}") from error
        if len(failed) == len(done):
            k, error = next(iter(failed.items()))
            if all(isinstance(error, DeviceMemoryError) for error in failed.values()):
                raise DeviceMemoryError(f"{self._name(k)}: {error}") from error
        solved = np.ones(self.forest.num_cells, bool)
        for k in failed:
            solved[slice(*self.cells[k : k + 2])] = False
        text = "; ".join(f"{self._name(k)}: {_one_line(error)}" for k, error in failed.items())
        left = int(solved.sum())
        if solves and left:
            text += f"; the other {left} cells of {len(solved)} are solved: see .result and .solved"
            text += " of this error"
        raise ShareError(
            text,
            {self._place[k]: error for k, error in failed.items()},
            [None if k in failed else one for k, one in enumerate(done)],
            solved & solves,
        ) from next(iter(failed.values()))

    def _of(self, k: int, a: np.ndarray) -> np.ndarray:
        """Values of the cells of one device."""
        return a[..., self.nodes[k] : self.nodes[k + 1]]

    # -- natural order -------------------------------------------------------------------------

    def solve_numpy(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
        """Solve from NumPy to NumPy."""
        arrays = {name: unshared(a, target) for name, a in arrays.items()}

        def work(k: int) -> None:
            given = {name: self._of(k, a) for name, a in arrays.items()}
            out = given["b"] if target is arrays["b"] else self._of(k, target)
            self.solvers[k].solve(**given, out=out, check=False)

        self.seconds = self._all_numpy(lambda k: rates.wall_seconds(partial(work, k)), target)

    def _all_numpy(self, work: Callable[[int], Any], target: np.ndarray) -> list[Any]:
        """Do all that ends in a NumPy array, which gets NaN where it is not solved."""
        try:
            return self._each(work, threads=True, solves=True)
        except ShareError as error:
            target[..., np.repeat(~error.solved, self.forest.sizes)] = np.nan
            error.result = target
            raise

    def bad_pivots(self) -> tuple[np.ndarray, np.ndarray]:
        """Wait; cells with a bad pivot in the last solve, and the natural index of that node."""
        found = self._each(lambda k: self.solvers[k]._bad_pivots(), threads=True)
        cells = [part[0] + self.cells[k] for k, part in enumerate(found)]
        return np.concatenate(cells), np.concatenate(
            [part[1] + self.nodes[k] for k, part in enumerate(found)]
        )

    def solve(
        self,
        d: Any,
        u: Any,
        b: Any,
        *,
        l: Any = None,  # noqa: E741
        out: Any = None,
        overwrite: bool = False,
    ) -> list[cla.Array]:
        """As `Solver.solve`, of lists of arrays in natural order; returns at once."""
        given = {"d": d, "u": u, "b": b, "l": l, "out": out}
        lists = {name: self._list(name, a) for name, a in given.items() if a is not None}

        def work(k: int) -> cla.Array:
            solver = self.solvers[k]
            one = {name: a[k] for name, a in lists.items()}
            x = solver.solve(**one, overwrite=overwrite, check=False)
            solver.queue.flush()
            return x

        return self._each(work, solves=True)

    # -- device order --------------------------------------------------------------------------

    def pack(self, a: Any, of: str | None = None, other: Any = None) -> list[cla.Array]:
        """As `Solver.pack`, of a NumPy array or a list of arrays; returns a list."""
        parts, others = self._split("a", a), None if other is None else self._split("other", other)
        return self._each(
            lambda k: self.solvers[k].pack(parts[k], of, None if others is None else others[k])
        )

    def unpack(self, a: Any, out: Any = None) -> list[cla.Array]:
        """As `Solver.unpack`, of a list; returns a list."""
        parts = self._list("a", a)
        outs = [None] * len(parts) if out is None else self._list("out", out)
        return self._each(lambda k: self.solvers[k].unpack(parts[k], outs[k]))

    def enqueue(
        self,
        d: Any,
        u: Any,
        b: Any,
        *,
        l: Any = None,  # noqa: E741
        out: Any,
        wait_for: Any = None,
        overwrite: bool = False,
    ) -> list[cl.Event]:
        """As `Solver.enqueue`, of lists; `wait_for` one item a device, see `waits`."""
        lists = [self._list(*pair) for pair in (("d", d), ("u", u), ("b", b), ("out", out))]
        lower = [None] * len(self.solvers) if l is None else self._list("l", l)
        waits = self.waits(wait_for)

        def work(k: int) -> cl.Event:
            solver = self.solvers[k]
            *given, target = (a[k] for a in lists)
            options = {"wait_for": waits[k], "overwrite": overwrite}
            event = solver.enqueue(*given, l=lower[k], out=target, **options)
            solver.queue.flush()  # this device begins while the next is told
            return event

        return self._each(work, solves=True)

    def factor(self, d: Any, u: Any, *, l: Any = None, check: bool = True) -> SharedFactors:  # noqa: E741
        """As `Solver.factor`, of NumPy arrays or lists of arrays."""
        given = {"d": d, "u": u, "l": l}
        parts = {name: self._split(name, a) for name, a in given.items() if a is not None}
        factors = self._each(
            lambda k: self.solvers[k].factor(**{n: a[k] for n, a in parts.items()}, check=False),
            threads=True,
        )
        shared = SharedFactors(self, factors)
        if check:
            status = shared.status()
            bad = np.flatnonzero(status >= 0)
            if len(bad):
                raise reference.pivot_error(self.forest, int(bad[0]), int(status[bad[0]]))
        return shared

    # -- arguments -----------------------------------------------------------------------------

    def _list(self, name: str, a: Any) -> list[Any]:
        """Check a list of device arrays, one a device that has cells."""
        if not is_list(a) or len(a) != len(self.solvers):
            got = f"{len(a)} arrays" if is_list(a) else type(a).__name__
            raise InputError(
                f"{name} is {got}; expected a list of {len(self.solvers)} pyopencl arrays, one on "
                "each of solver.queues"
            )
        return list(a)

    def waits(self, wait_for: Any) -> list[list[cl.Event]]:
        """Events for each device: of a list with an event, a list of them or None for each."""
        count = len(self.solvers)
        if wait_for is None:
            return [[]] * count
        if not isinstance(wait_for, (list, tuple)) or len(wait_for) != count:
            some = isinstance(wait_for, (list, tuple))
            got = f"{len(wait_for)} items" if some else type(wait_for).__name__
            raise InputError(
                f"wait_for is {got}; expected a list of {count}: for each of solver.queues an "
                "event, or a list of them"
            )
        each = zip(wait_for, self.solvers, strict=True)
        return [
            events_of(f"wait_for[{k}]", one, solver.queue) for k, (one, solver) in enumerate(each)
        ]

    def _split(self, name: str, a: Any) -> list[Any]:
        """Give each device its part of a NumPy array, or check a list."""
        if is_list(a) or isinstance(a, cla.Array):
            return self._list(name, a)
        array = to_numpy(name, a, self.dtype)
        n = self.forest.num_nodes
        if array.ndim not in (1, 2) or array.shape[-1] != n or 0 in array.shape:
            raise InputError(f"{name} has shape {array.shape}; expected ({n},) or (k, {n})")
        return [self._of(k, array) for k in range(len(self.solvers))]


@dataclass(frozen=True, eq=False)
class SharedFactors:
    """A matrix that was eliminated on several devices; see `clhines.Factors`.

    Attributes
    ----------
    share : Share
    factors : list of Factors
        One a device that has cells.
    """

    share: Share
    factors: list[Factors]

    @property
    def _lock(self) -> threading.RLock:
        return self.share._lock

    @exclusive
    def solve(self, b: Any, *, out: Any = None, overwrite: bool = False, check: bool = True) -> Any:
        """As `Factors.solve`, of a NumPy array, or of a list of arrays in natural order."""
        share = self.share
        if is_list(b) or isinstance(b, cla.Array):
            parts = share._list("b", b)
            outs = [None] * len(parts) if out is None else share._list("out", out)
            return share._each(
                lambda k: self.factors[k].solve(
                    parts[k], out=outs[k], overwrite=overwrite, check=check
                ),
                solves=True,
            )
        share._split("b", b)  # refuses what is no right-hand side
        rows = to_numpy("b", b, share.dtype)
        target = target_of(b, rows, out, overwrite, share.dtype)
        if check:
            check_finite(share.forest, "b", rows)
        rows = unshared(rows, target)

        def work(k: int) -> None:
            part = share._of(k, target)
            here = part if target is rows else share._of(k, rows)
            self.factors[k].solve(here, out=part, check=False)

        share._all_numpy(work, target)
        if check:
            check_finite(share.forest, "x", target)
        return target

    @exclusive
    def enqueue(
        self, b: Any, *, out: Any, wait_for: Any = None, overwrite: bool = False
    ) -> list[cl.Event]:
        """As `Factors.enqueue`, of lists; `wait_for` as in `Solver.enqueue`."""
        share = self.share
        parts, outs = share._list("b", b), share._list("out", out)
        waits = share.waits(wait_for)

        def work(k: int) -> cl.Event:
            event = self.factors[k].enqueue(
                parts[k], out=outs[k], wait_for=waits[k], overwrite=overwrite
            )
            share.solvers[k].queue.flush()
            return event

        return share._each(work, solves=True)

    @exclusive
    def status(self) -> np.ndarray:
        """(num_cells,) int64: as `Factors.status`, of all cells."""
        share = self.share
        found = share._each(lambda k: self.factors[k].status(), threads=True)
        return np.concatenate(
            [np.where(s < 0, -1, s + share.nodes[k]) for k, s in enumerate(found)]
        )


class _Failed:
    def __init__(self, error: Exception) -> None:
        self.error = error


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def _queues(given: Any, dtype: np.dtype) -> list[cl.CommandQueue]:
    """Return a queue for each device named."""
    if not isinstance(given, (list, tuple)) or not given:
        raise InputError(
            f"devices={shown(given)}; expected a list of one or more pyopencl devices, index pairs "
            "like '0:1', parts of names, or queues"
        )
    queues: list[cl.CommandQueue] = []
    places: dict[cl.Device, int] = {}
    for k, one in enumerate(given):
        if isinstance(one, cl.CommandQueue):
            if one in queues:
                raise InputError(f"devices[{queues.index(one)}] and devices[{k}] are one queue")
            queues.append(devices.given_queue(one, None, dtype))
            continue
        found = devices.choose(one, dtype)
        if found in places:
            name = devices.label(found)
            raise InputError(f"devices[{places[found]}] and devices[{k}] are both {name}")
        places[found] = k
        queues.append(devices.make_queue(found))
    return queues


def _kind(device: cl.Device) -> tuple[Any, ...]:
    """Devices of one kind are taken to be equally fast."""
    units, clock = device.max_compute_units, device.max_clock_frequency
    return device.name, device.platform.name, device.driver_version, units, clock
