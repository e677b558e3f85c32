"""Cells advanced in time: networks, and passive cells with nothing between them."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

from clhines import device as devices
from clhines import program, reference
from clhines import saved as saved_states
from clhines.cable import Cable
from clhines.cell_epochs import CellEpochs
from clhines.checks import (
    as_array,
    as_choice,
    as_indices,
    as_number,
    as_switch,
    as_whole_number,
    shown,
)
from clhines.device import is_cpu
from clhines.epochs import BlockEpochs
from clhines.errors import DeviceMemoryError, InputError, SimulationError
from clhines.forest import Forest, repeat, repeated_nodes
from clhines.guard import exclusive
from clhines.hostmemory import check_room
from clhines.network import LAST_STEP, Group, Network, check_cables
from clhines.parts import real_name
from clhines.plasticity import Plasticity
from clhines.ranks import Received, Share, SplitRun, cell_costs, own_queue, ranks_of, split
from clhines.reference_run import ReferenceRun
from clhines.render import PassiveSpec
from clhines.solver import Solver
from clhines.spikes import Delivery
from clhines.state import (
    MAX_EPOCH,
    Chunk,
    Record,
    State,
    epoch_steps,
    external_sums,
    largest_weights,
    values_now,
)
from clhines.steps import Steps

_NODE_BYTES = 8 + 5 * 4  # of the forest, the matrix and the voltages of `PassiveCells` in float32
_NO_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
)
# Whether spikes are exchanged during the next epoch, or between epochs; None: see `_share`.
OVERLAP: bool | None = None
PATHS = ("auto", "epochs", "steps", "reference")
_BAR = "{percentage:3.0f}% |{bar}| {n:.5g}/{total:.5g} ms [{elapsed}<{remaining}, {postfix}]"


# ------------------------------------------------------------------------------ passive cells


class PassiveCells:
    """Passive cells with a constant current into each soma's middle, advanced by backward Euler.

    Parameters
    ----------
    cables : sequence of Cable
        Repeated in turn to `num_cells` cells.
    num_cells : int, optional
        Default: one of each.
    dt : float, ms
    current : float, nA
        Into the middle of the soma of every cell (`Cable.soma`), from t = 0 on.
    v_init : float, mV
        Voltage everywhere at t = 0.
    **options
        Of `Solver`: method, dtype, device, queue, devices and so on.

    Attributes
    ----------
    forest : Forest
    solver : Solver
    steps : int
        Steps taken so far.
    """

    def __init__(
        self,
        cables: Sequence[Cable],
        num_cells: int | None = None,
        dt: float = 0.025,
        current: float = 0.1,
        v_init: float = -65.0,
        **options: Any,
    ) -> None:
        cables = check_cables(cables)
        count = len(cables) if num_cells is None else as_whole_number("num_cells", num_cells, 1)
        nodes = repeated_nodes([c.num_nodes for c in cables], count)
        check_room(_NODE_BYTES * nodes, f"{count} cells")
        self.cables, self.steps = list(cables), 0
        self.forest = Forest.repeated([c.parent for c in cables], count)
        systems = [c.system(dt) for c in cables]
        current, v_init = as_number("current", current), as_number("v_init", v_init)
        for cell, system in zip(cables, systems, strict=True):
            system.constant[cell.soma] += current
        self._once = {
            "d": [s.d for s in systems],
            "u": [s.u for s in systems],
            "capacitance_over_dt": [s.capacitance_over_dt for s in systems],
            "constant": [s.constant for s in systems],
        }
        self.solver = Solver(self.forest, **options)
        dtype = self.solver.dtype
        values = {k: repeat([a.astype(dtype) for a in v], count) for k, v in self._once.items()}
        v = np.full(self.forest.num_nodes, v_init, dtype)
        self._on_device = self.solver.takes_device_order
        if self._on_device:
            self._values: dict[str, Any] = {
                k: self.solver.pack(a, of="u" if k == "u" else "b") for k, a in values.items()
            }
            self._v: Any = self.solver.pack(v, of="x")
            self._before, self._b = (self._like(self._v) for _ in range(2))
            spec = PassiveSpec(real_name(dtype))
            self._rhs = [
                program.typed_kernel(program.build(q.context, spec), "right_hand_side", "i")
                for q in self.solver.queues
            ]
        else:
            self._values, self._v, self._before = values, v, np.empty_like(v)
            self._b = np.empty_like(v)

    def _like(self, a: Any) -> Any:
        """Zeros, where `a` has values: an array, or a list of them of several devices."""
        if isinstance(a, list):
            return [self._like(one) for one in a]
        return cla.zeros(a.queue, a.shape, a.dtype)

    def finish(self) -> None:
        """Wait until all devices have done what they were told."""
        for queue in self.solver.queues:
            queue.finish()

    def advance(self, steps: Iterable[int]) -> float:
        """Take one step for each item of `steps` (a range, or a progress bar over one).

        At most 32 steps are in flight, so that a progress bar tells the truth.

        Returns
        -------
        float, s
            Wall time from the first step to the end of the last.
        """
        begin = time.perf_counter()
        for step in steps:
            self._step()
            self.steps += 1
            if self._on_device and step % 32 == 31:
                self.finish()
        self.finish()
        return time.perf_counter() - begin

    def _step(self) -> None:
        v = self._values
        self._v, self._before = self._before, self._v
        if not self._on_device:
            self._b[:] = v["capacitance_over_dt"] * self._before + v["constant"]
            self.solver.solve(v["d"], v["u"], self._b, out=self._v, check=False)
            return
        operands = v["capacitance_over_dt"], v["constant"], self._before, self._b
        each = zip(*(a if isinstance(a, list) else [a] for a in operands), strict=True)
        for kernel, queue, arrays in zip(self._rhs, self.solver.queues, each, strict=True):
            n = arrays[0].size
            kernel(queue, *devices.small_groups(queue.device, n), n, *(a.data for a in arrays))
        self.solver.enqueue(v["d"], v["u"], self._b, out=self._v)

    def solve_again(self) -> list[cl.Event]:
        """Enqueue the last step's solve once more, for timing; the voltages stay the same."""
        v = self._values
        self.solver.enqueue(v["d"], v["u"], self._b, out=self._v)
        return self.solver.kernel_events

    def voltages(self) -> np.ndarray:
        """(num_nodes,) of the solver's dtype, mV: in natural order, after the last step."""
        return self._natural(self._v)

    def _natural(self, a: Any) -> np.ndarray:
        if not self._on_device:
            return a.copy()
        found = self.solver.unpack(a)
        return np.concatenate([one.get() for one in found]) if isinstance(a, list) else found.get()

    def check(self) -> dict[str, float]:
        """Check the last step, on the host, from the voltages before it.

        Returns
        -------
        dict
            `residual`: largest componentwise backward error over all cells. `difference`: largest
            difference from the reference's solution, over its largest magnitude. `condition`: by
            how much such a difference may exceed the backward error, see `reference.condition`.
            The reference solves each different cell once; all its copies are compared with it.

        Raises
        ------
        PivotError
            A pivot of the last step was not positive and finite.
        InputError
            No step has been taken.
        """
        if not self.steps:
            raise InputError("there is no step to check; advance() first")
        count, dtype = self.forest.num_cells, self.solver.dtype
        status = self.solver.status()
        if (status >= 0).any():
            cell = int(np.argmax(status >= 0))
            raise reference.pivot_error(self.forest, cell, int(status[cell]))
        d, u, c, constant = (
            repeat([a.astype(dtype) for a in self._once[k]], count)
            for k in ("d", "u", "capacitance_over_dt", "constant")
        )
        before, v = self._natural(self._before), self._natural(self._v)
        different = min(len(self.cables), count)
        once = Forest.repeated([cell.parent for cell in self.cables], different)
        m = once.num_nodes
        with np.errstate(all="ignore"):  # what is not finite shows in the result
            b = c * before + constant
            truth = reference.solve_serial(once, d[:m], u[:m], b[:m])
            expected = repeat(np.split(truth, once.cell_offsets[1:-1]), count)
            largest = np.abs(truth).max()
            reach = reference.condition(once, d[:m], u[:m], b[:m], truth)
            return {
                "residual": reference.residual(self.forest, d, u, b, v),
                "difference": float(np.abs(v - expected).max() / largest),
                "condition": float(reach.max() / largest),
            }


# ----------------------------------------------------------------------------------- networks


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gave.

    Attributes
    ----------
    t : (rows,) float64, ms
        Times of the recorded rows: the ends of the steps, and 0 where the run began there.
    values : list of (rows, r) arrays
        One a call of `record`, in their order; ``result[k]`` is ``result.values[k]``.
    spike_time : (k,) float64, ms
    spike_cell : (k,) int64
        By time, then cell.
    cost : dict of str to float, s
        ``all``, the wall time. What the device spent of it: ``steps``, with events from outside
        and recording, and ``spikes``, their delivery; where the queue has no timestamps, and for
        ``reference``, what the host did. ``collect``: reading results after each chunk. Of several
        ranks: of this one, and ``exchange``, what it spent on that, waiting for others included.
    """

    t: np.ndarray
    values: list[np.ndarray]
    spike_time: np.ndarray
    spike_cell: np.ndarray
    cost: dict[str, float]

    def __getitem__(self, k: int) -> np.ndarray:
        return self.values[k]


class Simulation:
    """A network advanced in time.

    The network is frozen when the simulation has been made: changes would not be seen. All that
    is set here is set once; attributes are for reading.

    Parameters
    ----------
    network : Network
    dt : float, ms
    dtype : float64 or float32
        Of all values on the device, the time that mechanisms see too: float32 tells steps of 0.025
        ms apart up to 10^5 ms. ``reference`` computes in float64.
    device : pyopencl.Device or str, optional
        See `clhines.device.choose`; ignored when `queue` is given.
    queue : pyopencl.CommandQueue, optional
        An in-order queue to work on.
    method : str
        Of the `Solver`, where one is used.
    path : str
        ``steps``: a few kernels a step, for cells of any size. ``epochs``: whole cells advanced by
        as many steps at once as the smallest delay allows. ``reference``: NumPy on the host.
        ``auto``: ``epochs`` where it can be used, else ``steps``.
    v_init : float or (n,) float64, mV
    secondorder : bool
        NEURON's ``secondorder = 2``: half a step implicitly, then extrapolated.
    seed : int
        Of noise.
    chunk : int
        Steps between two looks at the device, made a whole number of epochs.
    max_spikes : int, optional
        Spikes that one chunk may have; default: as many as there can be, up to 2**24. Of several
        ranks, on each.
    comm : mpi4py.MPI.Comm, optional
        Simulate on its ranks together, see `clhines.ranks`: each has the same network and simulates
        some of the cells. All ranks call the same methods, except for properties, and get the same
        results, those of one process; rank 0 alone reads and writes files.
    **options
        Of the `Solver`.

    Attributes
    ----------
    model : Model
    step : int
        Steps taken so far.
    path : str
        The one chosen.
    ranks : Ranks or None
        How spikes were exchanged, where several ranks do.

    Raises
    ------
    InputError
        The network cannot be simulated so; or no such path.
    DeviceMemoryError
        It does not fit into the device's memory.
    RankError
        Here and in all methods: another rank has failed.
    """

    def __init__(
        self,
        network: Network,
        dt: float = 0.025,
        dtype: Any = "float64",
        device: Any = None,
        queue: cl.CommandQueue | None = None,
        method: str = "auto",
        path: str = "auto",
        v_init: Any = -65.0,
        secondorder: bool = False,
        seed: int = 0,
        chunk: int = 1024,
        max_spikes: int | None = None,
        comm: Any = None,
        **options: Any,
    ) -> None:
        self._lock, self._on_host = threading.RLock(), path == "reference"
        self.ranks = ranks_of(comm)
        with self._agreed():
            if not isinstance(network, Network):
                raise InputError(f"network is {type(network).__name__}; expected a Network")
            as_choice("path", path, PATHS)
            self.network, self._step, self._broken = network, 0, ""
            self._records: list[Record] = []
            self.model = network.compile(dt, v_init, secondorder, seed)
            chunk = as_whole_number("chunk", chunk, 1, LAST_STEP)
            if max_spikes is not None:
                max_spikes = as_whole_number("max_spikes", max_spikes, 1, 2**31 - 1)
            real_name(dtype)
            on_host = path == "reference"
            if not on_host:
                queue = self._queue(queue, device, dtype)
                on_host = is_cpu(queue.device)
        self._same(dtype=dtype, path=path, chunk=chunk, max_spikes=max_spikes, method=method)
        overlap = self._overlap(on_host)
        share: Share | None = None
        with self._agreed():
            own = self.model
            if self.ranks is not None:
                share = Share(self.model, split(cell_costs(self.model), self.ranks.size))
                first, end = share.bounds[[self.ranks.rank, self.ranks.rank + 1]].tolist()
                own = self.model.part(first, end, overlap)
            epoch = epoch_steps(own)
            self.chunk = max(epoch, chunk // epoch * epoch)  # no epoch is cut short
            self._dtype = np.dtype("float64" if path == "reference" else dtype)
            if path == "reference":
                self.path = path
                self._run: Any = ReferenceRun(own)
            else:
                with self._memory_told():
                    state = State(own, queue, np.dtype(dtype), self.chunk, max_spikes)
                    self.path, executor = _executor(state, path, method, options)
                    self._run = _DeviceRun(state, executor)
        if share is not None and self.ranks is not None:
            steps = self.ranks.gather_numbers([self.path == "steps"])[:, 0]
            with self._agreed():
                # on other ranks a cell may be too large for epochs
                if steps.any() and self.path == "epochs":
                    self.path, self._run = "steps", _DeviceRun(state, Steps(state, method))
                self._run = SplitRun(self.ranks, share, self._run)
        network.freeze()
        self._made = True

    def __setattr__(self, name: str, value: object) -> None:
        if getattr(self, "_made", False) and not name.startswith("_"):
            raise InputError(f"{name} cannot be set; expected it as an argument of Simulation()")
        super().__setattr__(name, value)

    @property
    def step(self) -> int:
        """Steps taken so far."""
        return self._step

    def _same(self, **given: Any) -> None:
        """Refuse ranks of which one simulates something else than the others."""
        if self.ranks is None:
            return
        v = hashlib.sha256(self.model.v_init.tobytes()).hexdigest()
        given = {name: str(value) for name, value in given.items()}
        sizes = {"number of cells": self.model.forest.num_cells, "dt": self.model.dt}
        digests = {"digest of the network": self._signature[:8], "digest of v_init": v[:8]}
        self.ranks.same(sizes | digests | given)

    def _overlap(self, on_host: bool) -> bool:
        """Whether ranks exchange the spikes of an epoch during the next one.

        Epochs half as long, exchanged during the next one, are for devices that go on meanwhile;
        where the cores that advance cells also do the exchange, they would only cost.
        """
        ranks = self.ranks
        if ranks is None:
            return False
        if on_host:
            ranks.spin = 0.0  # a rank that waits leaves the core to others
        if OVERLAP is not None:
            return OVERLAP
        half = (self.model.connections.min_delay + 1) // 2
        return half >= MAX_EPOCH or not ranks.gather_numbers([on_host]).any()

    def _queue(self, queue: Any, device: Any, dtype: Any) -> cl.CommandQueue:
        if queue is None and self.ranks is not None:
            return own_queue(self.ranks, device, dtype)
        return devices.given_queue(queue, device, dtype)

    def _agreed(self) -> Any:
        """Wait for the other ranks at the end of a block; an error is one of all."""
        return nullcontext() if self.ranks is None else self.ranks.agreed()

    def __repr__(self) -> str:
        return f"Simulation({self.network!r}, t = {self.t:g} ms, {self.path})"

    @property
    def device_label(self) -> str:
        """Name of this process's device; of the host where the path is ``reference``."""
        run = self._run.run if isinstance(self._run, SplitRun) else self._run
        if isinstance(run, ReferenceRun):
            return "the host, NumPy"
        return devices.label(run.state.queue.device)

    @property
    def t(self) -> float:
        """Time, ms."""
        return self.step * self.model.dt

    @exclusive
    def record(self, what: str, where: Any, index: Any = None) -> int:
        """Record voltages of nodes or a state of instances in the runs that follow.

        Parameters
        ----------
        what : str
            ``v``, or the name of a state.
        where : (r,) integer, or Group
            Natural nodes for ``v``; the group that has the state.
        index : (r,) integer, optional
            Which of the group's instances; default: all.

        Returns
        -------
        int
            Number of the record: ``result[number]``.
        """
        self._records.append(self._record(what, where, index))
        return len(self._records) - 1

    def _record(self, what: str, where: Any, index: Any) -> Record:
        if not isinstance(where, Group):
            if not isinstance(what, str) or what != "v":
                raise InputError(
                    f"{shown(what)} of nodes; expected 'v', or for a state the Group that insert() "
                    "or add() gave"
                )
            nodes = np.atleast_1d(as_array("where", where))
            return Record("v", -1, as_indices("where", nodes, self.model.forest.num_nodes, "node"))
        if where.network is not self.network:
            raise InputError(f"group {where.mechanism.name} belongs to another network")
        place = np.arange(len(where))
        if index is not None:
            index = np.atleast_1d(as_array("index", index))
            place = as_indices("index", index, len(where), where.mechanism.name)
        if what == "v":
            return Record("v", -1, where.nodes[place])
        if what not in where.mechanism.states:
            known = ", ".join(("v", *where.mechanism.states))
            raise InputError(f"{where.mechanism.name} has no state {shown(what)}; expected {known}")
        kind, instance = self.model.instances[where.number]
        return Record(what, kind, instance[place])

    @exclusive
    def run(self, duration: float, progress: bool = False) -> Result:
        """Advance by a time.

        Parameters
        ----------
        duration : float, ms
            A whole number of steps.
        progress : bool
            Show a bar, and how many seconds a second of the simulated time takes.

        Returns
        -------
        Result

        Raises
        ------
        SimulationError
            A voltage was not finite after a step; its `result` has what came before.
        SpikeOverflowError
            More spikes in a chunk than `max_spikes`.
        DeviceMemoryError
            There is no room on the device for what is recorded in a chunk.
        """
        with self._agreed():
            progress = as_switch("progress", progress)
            steps = self._whole_steps(duration)
            if self._broken:
                raise InputError(f"{self._broken}; restore() an earlier state to go on")
            width = sum(len(r.index) for r in self._records)
            size = width * steps * self._dtype.itemsize
            check_room(size, f"{width} values recorded in {steps} steps")
        if self.ranks is not None:
            records = [(r.name, r.kind, r.index.tobytes()) for r in self._records]
            known = hashlib.sha256(repr(records).encode()).hexdigest()[:8]
            self.ranks.same({"duration": duration, "digest of what is recorded": known})
        begin, end = self.step, self.step + steps
        cost = {"steps": 0.0, "spikes": 0.0, "collect": 0.0}
        chunks = [self._start()] if begin == 0 else []
        failed, progress = 0, progress and self._first
        waited = self.ranks.seconds if self.ranks is not None else 0.0
        with _bar(steps * self.model.dt, progress) as bar:
            clock = time.perf_counter()
            while self.step < end and not failed:
                count = min(self.chunk, end - self.step)
                chunk = self._advance_whole(count, cost)
                failed = int(min(chunk.failed[chunk.failed > 0], default=0))
                chunks.append(chunk)
                self._step += count
                bar.update(count * self.model.dt)
                done = (self.step - begin) * self.model.dt * 1e-3
                bar.set_postfix_str(f"{(time.perf_counter() - clock) / done:.3g} s a second")
        cost["all"] = time.perf_counter() - clock
        if self.ranks is not None:
            cost["exchange"] = self.ranks.seconds - waited
        last = failed - 1 if failed else end
        result = self._joined(chunks, begin, last, cost)
        if failed:
            self._fail(chunks[-1].failed, failed, result)
        return result

    def _whole_steps(self, duration: float) -> int:
        most = LAST_STEP - self.step
        steps = whole_steps(duration, self.model.dt)
        if steps is None or steps > most:
            raise InputError(
                f"duration is {shown(duration)} ms; expected a whole number of steps of "
                f"{self.model.dt:g} ms, at most {most}"
            )
        return steps

    def _start(self) -> Chunk:
        """Record at t = 0."""
        values = self._run.now(self._records)
        none = np.zeros(0, np.int64)
        return Chunk(none, none, np.zeros(0, np.int32), values)

    def _advance_whole(self, count: int, cost: dict[str, float]) -> Chunk:
        """Advance; where that is cut short, what there is now belongs to no step."""
        try:
            with self._memory_told():
                return self._advance(count, cost)
        except BaseException as error:
            self._broken = f"a run ended within a chunk, by {type(error).__name__}: {error}"
            raise

    def _advance(self, count: int, cost: dict[str, float]) -> Chunk:
        run = self._run
        run.begin(count, self._records)
        marks = [run.mark()]
        for row in range(0, count, run.max_steps):
            some = min(run.max_steps, count - row)
            run.advance(self.step + row, some, row)
            marks.append(run.mark())
            run.deliver(self.step + row, some)
            marks.append(run.mark())
        spent = np.diff(run.seconds(marks))  # waits
        cost["steps"] += float(spent[0::2].sum())
        cost["spikes"] += float(spent[1::2].sum())
        clock = time.perf_counter()
        chunk = run.end()
        cost["collect"] += time.perf_counter() - clock
        return chunk

    @contextmanager
    def _memory_told(self) -> Iterator[None]:
        """Turn OpenCL's errors of memory into one that says what it was for."""
        try:
            yield
        except (cl.MemoryError, cl.LogicError) as error:
            if error.code not in _NO_MEMORY:
                raise
            raise DeviceMemoryError(
                f"the device has no memory for {self.network!r} and what is recorded in "
                f"{self.chunk} steps; expected fewer cells or records, or a smaller chunk or "
                f"max_spikes ({error})"
            ) from error

    def _joined(self, chunks: list[Chunk], begin: int, last: int, cost: dict[str, float]) -> Result:
        """Join the chunks of a run, up to the end of step `last` - 1."""
        first = begin + 1 if begin else 0
        t = np.arange(first, last + 1) * self.model.dt
        values = [
            np.concatenate([c.values[k] for c in chunks])[: len(t)]
            if chunks
            else np.zeros((0, len(record.index)))
            for k, record in enumerate(self._records)
        ]
        none = [np.zeros(0, np.int64)]
        step = np.concatenate(none + [c.spike_step for c in chunks])
        cell = np.concatenate(none + [c.spike_cell for c in chunks])
        kept = step < last
        return Result(t, values, (step[kept] + 1) * self.model.dt, cell[kept], cost)

    def _fail(self, failed: np.ndarray, first: int, result: Result) -> None:
        cell = int(np.flatnonzero(failed == first)[0])
        node, at = int(self.model.soma[cell]), first * self.model.dt
        self._broken = (
            f"the voltage of cell {cell}, at its soma, node {node}, is not finite at "
            f"t = {at:g} ms (step {first - 1})"
        )
        raise SimulationError(self._broken, cell, node, at, result)

    @exclusive
    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV: in natural order, as they are now."""
        return self._run.voltages()

    @exclusive
    def weights(self) -> np.ndarray:
        """(m,) float64: of all connections as they are now, in the order of `connect`."""
        return self._run.weights()

    @exclusive
    def save(self, path: Any) -> None:
        """Write all that is needed to go on to an ``.npz`` file, whole or not at all.

        Parameters
        ----------
        path : str or path-like
            Taken as it is; it need not end in ``.npz``. A symbolic link stays, and its target is
            replaced; what is no regular file (a FIFO, say) is written to; see `clhines.files`.

        Raises
        ------
        InputError
            The file cannot be written; or a run has failed, and there is nothing to go on from.
        """
        if self._broken:
            raise InputError(f"{self._broken}; there is nothing to save")
        arrays = self._run.save()
        with self._agreed():
            if self._first:
                saved_states.write(path, arrays, self.step, self._signature)

    @exclusive
    def restore(self, path: Any) -> None:
        """Go on from a file that `save` has written; the bits are those of not having stopped.

        Parameters
        ----------
        path : str or path-like
            Of a simulation of the same network, with the same events from outside, `dt`,
            `secondorder`, `seed` and `dtype` (``reference`` computes in float64); another path may
            have saved it.

        Raises
        ------
        InputError
            The file cannot be read, is of another network or another precision, or is damaged; the
            simulation then stays as it was.
        """
        step, saved = 0, dict[str, np.ndarray]()
        with self._agreed():
            if self._first:
                step, saved = saved_states.read(path, self.model, self._dtype, self._signature)
        self._broken = f"{path} was not restored"
        self._run.load(saved)
        if self.ranks is not None:
            step = int(self.ranks.gather_numbers([step])[0, 0])
        self._step, self._broken = step, ""

    @property
    def _first(self) -> bool:
        """Whether this process is the one that reads, writes and prints."""
        return self.ranks is None or self.ranks.rank == 0

    @cached_property
    def _signature(self) -> str:
        """A digest of what the arrays of a saved state depend on."""
        return saved_states.signature(self.model)


def whole_steps(duration: Any, dt: float) -> int | None:
    """Count the steps of `dt` ms in `duration` ms; None where they are not a number of any run."""
    try:
        ratio = as_number("duration", duration) / dt
    except InputError:
        return None
    if not 0 <= ratio <= LAST_STEP:
        return None
    steps = round(ratio)
    return None if abs(ratio - steps) > min(1e-6 * max(ratio, 1), 1e-3) else steps


def _executor(state: State, path: str, method: str, options: dict[str, Any]) -> tuple[str, Any]:
    """Choose what advances the cells; its path and itself."""
    device, plain = state.queue.device, method == "auto" and not options
    if path == "epochs" and not plain:
        raise InputError("path='epochs' uses no solver; method and its options are for 'steps'")
    if path == "steps" or not plain:
        return "steps", Steps(state, method, **options)
    if is_cpu(device):
        return "epochs", CellEpochs(state)
    try:
        return "epochs", BlockEpochs(state.model, state, devices.limits(device))
    except InputError:  # a cell is too large for a work-group
        if path == "epochs":
            raise
    return "steps", Steps(state, method)


class _DeviceRun:
    """An executor on a device, the state it works on, and the delivery of spikes."""

    def __init__(self, state: State, executor: Any) -> None:
        self.state, self.executor, self.model = state, executor, state.model
        self.max_steps = executor.max_steps
        self.delivery: Delivery | None = None
        self.plasticity: Plasticity | None = None
        self._told = False
        timed = cl.command_queue_properties.PROFILING_ENABLE
        self._timed = bool(state.queue.properties & timed)
        part = state.model.whole is not None
        self._received = Received(state) if part else None
        largest = largest_weights(state.model, state.connections)
        if not largest.any():
            return
        self.delivery = Delivery(
            state.queue,
            state.connections,
            state.model.num_targets,
            state.slots,
            state.max_spikes if self._received is None else self._received.capacity,
            steps=self.max_steps,
            external=external_sums(state.model),
            largest=largest,
            scale=state.incoming_scale,
        )
        given = state.model.connections
        if given.rule is not None:
            cells = state.model.cell_of_target()
            dt = state.model.dt
            self.plasticity = Plasticity(self.delivery, given.rule, dt, cells, given.plastic)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        state = self.state
        before = state.record_node
        state.begin(rows, records)
        if state.record_node is not before or not self._told:
            nodes = state.record_node.get(state.queue)[: state.num_recorded_nodes]
            self.executor.set_records(nodes.astype(np.int64))
            self._told = True
        if self._received is not None:
            self._received.begin()
        elif self.delivery is None:
            self.state.spike_count.fill(0)
        else:
            self.delivery.reset(self.state.spike_count)

    def advance(self, first: int, count: int, row: int) -> None:
        self.state.add_events(first, count)
        each = 1 if self.state.record_states else count  # states are recorded between launches
        for k in range(0, count, each):
            self.executor.advance(first + k, each, row + k)
            self.state.enqueue_states(row + k)

    def deliver(self, first: int, count: int) -> None:
        state = self.state
        change = self.plasticity or self.delivery
        if change is not None:
            found = state.spike_source, state.spike_step, state.spike_count
            change.enqueue(*found, state.incoming, first, count)

    def note_spikes(self) -> Any:
        """Return what `noted_spikes` takes as this place in the queue."""
        assert self._received is not None
        return self._received.note()

    def noted_spikes(self, ticket: Any) -> tuple[np.ndarray, np.ndarray]:
        """Wait for a place, and return cells and steps of spikes since the last such call."""
        assert self._received is not None
        return self._received.noted(ticket)

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Enqueue the delivery of spikes of the whole network, of which this is a part."""
        change = self.plasticity or self.delivery
        if change is None or self.delivery is None or self._received is None:
            return
        found = self._received.put(source, step, self.delivery)
        change.enqueue(*found, self.state.incoming, first, count)

    def now(self, records: Sequence[Record]) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        return values_now(self, records)

    def mark(self) -> Any:
        """Return what `seconds` takes as this place in the queue."""
        return cl.enqueue_marker(self.state.queue) if self._timed else time.perf_counter()

    def seconds(self, marks: list[Any]) -> list[float]:
        """Wait, and return when the queue came to the marks."""
        self.state.queue.finish()
        return [mark.profile.end * 1e-9 for mark in marks] if self._timed else marks

    def end(self) -> Chunk:
        return self.state.end()

    def voltages(self) -> np.ndarray:
        return self.executor.voltages()

    def save(self) -> dict[str, np.ndarray]:
        saved = {"v": self.voltages(), **self.state.save()}
        if self.plasticity is not None:
            saved |= {f"plastic_{k}": a for k, a in self.plasticity.state().items()}
        return saved

    def weights(self) -> np.ndarray:
        if self.plasticity is not None:
            return self.plasticity.weight
        return self.state.connections.weight.copy()

    def load(self, saved: dict[str, np.ndarray]) -> None:
        if self.plasticity is not None:
            names = self.plasticity.state()
            self.plasticity.restore({k: saved[f"plastic_{k}"] for k in names})
        self.executor.set_voltages(saved["v"])
        self.state.load(saved)


def _bar(duration: float, show: bool) -> Any:
    return tqdm(total=duration, unit="ms", disable=not show, bar_format=_BAR)
