"""A model and its simulation, which stay valid from one call of `run` to the next.

The device takes all steps of a call but the last, which NEURON takes. If NEURON's memory is
unchanged at the next call, the simulation continues from its own state. If only values differ, they
are read again. Otherwise the whole model is read again. No NEURON object is held between calls.

    |--- device: steps 1 to n - 1 ---|- NEURON: step n -|--- device ---|- NEURON -| ...
    read, or compare        write back         compare         write back
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import starmap

import numpy as np

from clhines.core.errors import ClhinesError, InputError
from clhines.neuron.back.counters import Counters
from clhines.neuron.back.events import check_values, last_delivery, put_events
from clhines.neuron.back.records import Records
from clhines.neuron.back.runaways import Runaways
from clhines.neuron.back.states import Arrays, put_values, take_values
from clhines.neuron.calls import RunOptions, clock
from clhines.neuron.fingerprint import Fingerprint
from clhines.neuron.importer import NeuronNetwork, values_of
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.patterns import OF_GID
from clhines.neuron.stepping.gathered import Gathering
from clhines.neuron.stepping.step_values import StepValues
from clhines.simulator.importing import SPIKE_LATE, state_follows
from clhines.simulator.ranks import ONE_PROCESS, Joints
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation, leave_warnings

_LOOKED_AHEAD = 1 << 20  # steps at once if statements are pending, at most
_MOST_START = 1 << 26  # bytes; a larger initial state is not kept


class ModelRun:
    """The simulation of a model, whose results are written to NEURON's memory."""

    def __init__(
        self, model: NeuronModel, sim: Simulation, imported: NeuronNetwork, joints: Joints
    ) -> None:
        leave_warnings(sim)  # `Runaways` warns, as it sees more voltages
        self.sim, self._model, self._imported, self._joints = sim, model, imported, joints
        self._records = Records(sim, imported)
        self._runaways = Runaways(sim, imported, self._records)
        self._counters = Counters(sim, imported)
        code = model.step_code
        self._step_values = None if code is None else StepValues(sim, imported, code.reads)
        self._start: dict[str, np.ndarray] | None = None  # the simulation's arrays at its start
        self.lag = 0  # steps that NEURON has taken since the simulation's last step
        self.delivered = -np.inf  # time (ms) up to which NEURON has delivered events

    def begin(self) -> None:
        """Prepare for steps, after NEURON's values have been read into the simulation."""
        if (exchange := self._joints.exchange) is not None:
            crossed = np.array(self._imported.crossed, np.int64)
            times = np.full(len(crossed), float(self._model.h.t) + SPIKE_LATE)
            exchange.send(crossed, times)
        self.lag, self.delivered = 0, -np.inf

    def restart(self, changed: list[str]) -> bool:
        """Return to 0 ms, with new parameters of the mechanisms `changed`; False if impossible."""
        if not self._can_restart(bool(changed)) or not all(map(self._set_parameters, changed)):
            return False
        start = self._start
        if start is None:
            with state_follows():
                self.sim.reset()
                start = self.sim.arrays()
            if sum(a.nbytes for a in start.values()) <= _MOST_START:
                self._start = start  # valid as long as the parameters stay
        take_values(self.sim, self._imported, {name: a.copy() for name, a in start.items()})
        self.begin()
        return True

    def _can_restart(self, has_changed: bool) -> bool:
        """Whether the simulation can return to 0 ms, with other parameters if `has_changed`."""
        model, imported = self._model, self._imported
        if any((float(imported.network.settings["t"]), float(model.h.t))):
            return False
        trains = {*model.trains.names} - {OF_GID}  # other ranks' times are not known here
        if model.pending.netcons or trains or (imported.connections < 0).any():
            return False
        if any(not p.continuous for p in model.plays.players) or not self._runaways.are_seen():
            return False
        exchange = self._joints.exchange  # other ranks would have to create a new run, too
        return exchange is None or (exchange.can_restart and not has_changed)

    def _set_parameters(self, name: str) -> bool:
        model = self._model
        if any(p.variable.owner == name for p in model.plays.players):
            return False  # some parameters are played
        if name in model.outside.drivers:
            return False  # the mechanism's copies have them, too
        parameters = list(model.mechanisms[name].program.parameters)
        self._start = None
        try:
            self.sim.set(self._imported.groups[name], **values_of(model, name, parameters))
        except InputError:
            return False
        return True

    def advance(
        self, steps: int, progress: bool, calls: bool, gathering: Gathering | None
    ) -> float:
        """Take steps and write the results to NEURON; return the seconds that the simulation took.

        If `calls`, run the model's own code of each step. `gathering` calls the functions of
        `CVode.extra_scatter_gather`.
        """
        sim, h = self.sim, self._model.h
        begin, dt = float(h.t), sim.model.dt
        first = self.lag + (1 if sim.step == 0 else 0)  # rows that NEURON already has
        now = time.perf_counter()
        result = sim.run((steps + self.lag) * dt, progress)
        seconds = time.perf_counter() - now
        if calls and self._model.step_code is not None and self._step_values is not None:
            self._model.step_code.take(self._step_values.rows(result, first))
        if gathering is not None:
            gathering.play(result, first, begin, dt)
        exchange, queue = self._joints.exchange, self._model.queue
        if exchange is not None:
            exchange.exchange()
        arrays = sim.runner.save()
        for instances in (*self._model.every.values(), *self._model.contents.others):
            instances.columns.refresh()
        with self._joints.agreed():
            check_values(sim, self._imported, arrays)  # before any rank writes
        if exchange is not None:
            queue.exchange(begin)  # in NEURON's last step, which `sim` has taken as well
        h.t = float(clock(begin, dt, steps)[-1])
        if exchange is not None:
            queue.exchange(float(h.t))  # empty, but NEURON counts steps from it
        with self._joints.agreed(), _writing():
            self._write(result, first, begin, last_delivery(begin, dt, steps), arrays)
        self._imported.crossed.clear()
        self.lag = 0
        return seconds

    def _write(self, result: Result, first: int, begin: float, last: float, arrays: Arrays) -> None:
        self._counters.fill(result, first)  # before the final values are in NEURON's memory
        self._records.fill(result, begin, first)
        for vector, _, values in self._records.spikes(result, begin, self.delivered, last):
            self._model.plays.vectors[vector].append(self._model.h.Vector(values))
        put_values(self.sim.model, self._imported, arrays)
        put_events(self.sim, self._imported, arrays, last)
        self._runaways.tell(result, first, arrays["v"])


class KeptModel:
    def __init__(self, model: NeuronModel, request: RunOptions) -> None:
        self.model, self.request = model, request
        self._run: ModelRun | None = None
        self.joints = Joints(ONE_PROCESS)
        self.gathering = Gathering(model) if model.gathers else None
        self._calls = not request.solves  # run the model's own code in each step
        self.fingerprint: Fingerprint | None = None
        self.run_seconds = 0.0  # that the simulation took

    def is_of(self, request: RunOptions) -> bool:
        """Whether the request and the model's structure are unchanged; if so, read new values."""
        if self.fingerprint is None or request[:3] != self.request[:3]:
            return False
        self.fingerprint.follow_recordings()
        if not self.fingerprint.structure_is_same():
            return False
        changed = self.fingerprint.take_parameters()
        same = not changed and self.fingerprint.values_are_same()
        trains = self.model.trains
        self.model.refresh(not same or self._run is None)  # or after steps by NEURON alone
        if not self.model.trains.follow(trains):
            self._run = None
        if not same and self._run is not None and not self._run.restart(changed):
            self._run = None
        return True

    @property
    def sim(self) -> Simulation | None:
        return None if self._run is None else self._run.sim

    @property
    def lag(self) -> int:
        """Number of steps by which the simulation is behind NEURON; -1 without a simulation."""
        return -1 if self._run is None else self._run.lag

    def start(self, sim: Simulation, imported: NeuronNetwork, joints: Joints) -> None:
        self.joints = joints
        self._run = ModelRun(self.model, sim, imported, joints)
        if self.gathering is not None:
            self.gathering.start(sim, imported)
        self._run.begin()

    def drop_run(self) -> None:
        """Drop the simulation; the next steps start a new one from NEURON's values."""
        self._run = None

    def advance(self, steps: int, progress: bool) -> None:
        if self._run is None:
            raise RuntimeError("advance() before start()")
        self.run_seconds += self._run.advance(steps, progress, self._calls, self.gathering)

    def begin_call(self, solves: bool) -> None:
        if self.gathering is not None:
            self.gathering.begin(solves)
        self._calls = not solves

    def steps_ahead(self, most: int) -> int:
        """Return how many steps to take next, at most `most`; NEURON takes the last of them.

        If code of `CVode.event` runs in a step, this step is the last, because NEURON must take it.
        """
        if self.model.memory.transfers and self.model.waits_for_transfer():
            self._run = None  # it would start from the present voltages
            return 1
        h, statements = self.model.h, self.model.pending.statements
        if not self.is_tried:
            return 1
        if self.model.draws:
            most = min(most, self.model.draws.most_steps)
        if self.model.step_code is not None and self._calls:
            most = min(most, self.model.step_code.most_steps)
        if self.gathering is not None:
            most = min(most, self.gathering.most_steps)
        if not statements:
            return most
        most = min(most, _LOOKED_AHEAD)
        ends = clock(float(h.t), float(h.dt), most)[1:]
        return min(int(np.searchsorted(ends, min(statements))) + 1, most)

    def step(self) -> None:
        """Let NEURON take one step, then run the model's own code of the step."""
        self.call(self._step)

    def call(self, step: Callable[[], object]) -> None:
        """Call `step`, by which NEURON takes a step; then run the model's own code of the step."""
        if self.gathering is not None:
            with self.gathering.watched():
                step()
        else:
            step()
        if self.model.step_code is not None and self._calls:
            self.model.step_code.call()

    @property
    def is_tried(self) -> bool:
        """Whether NEURON has already called all functions of `extra_scatter_gather` in this run."""
        return self.gathering is None or self.gathering.is_tried

    def _step(self) -> None:
        """Let NEURON take one step, which also sets ASSIGNED variables and runs event code."""
        h, pending = self.model.h, self.model.pending
        begin, end = clock(float(h.t), float(h.dt), 1).tolist()
        due = [t for t in pending.statements if t <= end]
        have_acted = self._watch(due, begin) if due else bool
        if self.joints.ranks.size > 1:  # NEURON's exchange comes later; it would set its time
            self.model.queue.put_exchange_off(end)
        try:
            h.fadvance()
        except BaseException:
            self.fingerprint = None  # event code of `_watch` that is still queued
            raise
        rest, acted = [t for t in pending.statements if t > end], have_acted()
        if due and not acted:  # only pending calls at later times may remain
            rest, of_points = self.model.queue.statements()
            acted = bool(of_points)  # rejected when the model is read again
        if not acted:
            self._take_fingerprint()
        elif min(due) <= begin:  # due before the step: read the model again
            self.fingerprint = None
        pending.statements = rest
        if self._run is not None:
            self._run.delivered = float(h.t)  # events due until its step ends
            self._run.lag += 1

    def _watch(self, due: list[float], begin: float) -> Callable[[], bool]:
        """Return a function that says, after a step from `begin`, whether event code had effects.

        Event code means the statements of `CVode.event`; `due` has their times in the step, ms.
        """
        queue, acted, before = self.model.queue, [True], list[np.ndarray]()
        alone = np.sum(queue.columns().time == min(due)) == 1
        if not alone or min(due) <= begin:  # an earlier event would reorder the others
            return lambda: True

        def begins() -> None:
            self._take_fingerprint()
            before[:] = queue.others()

        def ends() -> None:  # runs last at its time, before an exchange
            same = self.fingerprint is not None and self.fingerprint.state_is_same()
            pairs = zip(before, queue.others(), strict=True)
            times, _ = queue.statements()  # none that is due may be left
            same &= min(times, default=np.inf) > max(due)
            acted[0] = not same or not all(starmap(np.array_equal, pairs))

        cvode = self.model.h.CVode()
        cvode.event(float(np.nextafter(min(due), begin)), begins)
        cvode.event(max(due), ends)
        return lambda: acted[0]

    def _take_fingerprint(self) -> None:
        if self.fingerprint is not None:
            self.fingerprint.take_values()
        elif self._is_free:
            with suppress(OSError):  # something is not found: read the model in each call
                self.fingerprint = Fingerprint(self.model)

    @property
    def _is_free(self) -> bool:
        """Whether the model can be stored without holding references to NEURON's objects."""
        model = self.model
        return not (model.lone is not None or model.trains.patterns or model.draws)

    @property
    def can_stay(self) -> bool:
        """Whether the next call may use this model: the fingerprint detects all its changes."""
        return self._is_free and self.fingerprint is not None and self.fingerprint.covers_all


@contextmanager
def _writing() -> Iterator[None]:
    """Turn errors into a ClhinesError, because NEURON's memory is then only partly written."""
    try:
        yield
    except Exception as error:
        raise ClhinesError(f"results cannot be written to NEURON's memory: {error}") from error


_kept: list[KeptModel] = []


def kept_model(request: RunOptions) -> KeptModel | None:
    """Remove and return the last call's model if NEURON still has it, otherwise None."""
    kept, same = _kept.pop() if _kept else None, False
    try:
        same = kept is not None and kept.is_of(request)
        return kept if same else None
    finally:
        if kept is not None and not same:
            kept.model.forget()


def keep(kept: KeptModel) -> None:
    _kept.clear()
    kept.model.forget()
    if kept.can_stay:
        _kept.append(kept)
