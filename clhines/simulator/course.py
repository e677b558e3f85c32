"""The course of a run: chunk after chunk until its end, a failure or Ctrl-C."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from clhines.core.errors import RunInterrupt, SimulationError, say_to_caller
from clhines.core.progress import bar, showing
from clhines.core.summary import counted
from clhines.simulator.engines.run import refuse_memory
from clhines.simulator.interrupt import InterruptDelay
from clhines.simulator.recordings import Recordings
from clhines.simulator.records.records import Record
from clhines.simulator.result import Result, joined_result
from clhines.simulator.runner import Progress, Runner
from clhines.simulator.state.chunk import RUNAWAY, Chunk

if TYPE_CHECKING:
    from tqdm import tqdm

_COMPILES = "kernels compile before the first steps of a new model"


class RunCourse:
    """One call of `Simulation.run`: its chunks, costs and failure."""

    _failed = 0  # 1 + the first step with a voltage that is not finite, or 0
    _failure: SimulationError | None = None
    _timed_from: tuple[int, float] | None = None  # step and time, for the bar's speed

    def __init__(
        self,
        runner: Runner,
        progress: Progress,
        recordings: Recordings,
        records: list[Record],
        steps: int,
        warns: bool,
    ) -> None:
        self._runner, self._progress = runner, progress
        self._records, self._warns = records, warns
        self._begin, self._end = progress.step, progress.step + steps
        self._chunks = recordings.first_values(self._records, self._begin)
        if progress.lists_early:
            first, source = self._chunks[0], runner.sources_above()
            step, dt = np.full(len(source), -1), runner.model.compiled.dt
            self._chunks[0] = Chunk.of_steps(step, source, dt, first.failed, first.values)
            progress.lists_early = False
        self._exchanged = runner.ranks.seconds  # s, earlier exchanges
        self._cost = {"steps": 0.0, "spikes": 0.0, "collect": 0.0}
        self._clock = time.perf_counter()

    def run(self, chunk: int, show: bool) -> Result:
        """Advance to the end of the run, `chunk` steps at a time; `show` a progress bar."""
        progress, is_first = self._progress, self._runner.is_first
        progress.at_start = False
        with InterruptDelay(is_first) as interrupt:
            try:
                if show and is_first:
                    dt = self._runner.model.compiled.dt
                    shown_bar = bar(self._end - self._begin, "ms", show, dt, _COMPILES)
                    with showing(show), shown_bar or nullcontext() as shown:
                        interrupted = self._to_end(chunk, interrupt, shown)
                else:
                    interrupted = self._to_end(chunk, interrupt, None)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) or interrupt.pending:
                    raise RunInterrupt(progress.broken, self._result()) from error
                vars(error)["result"] = self._result()
                raise
        result = self._result()
        if self._failure is not None:
            self._failure.result = result
            raise self._failure
        if interrupted:
            dt = self._runner.model.compiled.dt
            raise RunInterrupt(
                f"interrupted at t = {progress.step * dt:g} ms of {self._end * dt:g}: run() and "
                "save() go on from there, .result has spikes and records until then",
                result,
            )
        return result

    def _to_end(self, chunk: int, interrupt: InterruptDelay, shown: tqdm | None) -> bool:
        progress, ranks = self._progress, self._runner.ranks
        while progress.step < self._end:
            count = min(chunk, self._end - progress.step)
            self._advance(count)
            if shown is not None:
                self._show(shown, count)
            if self._failure is not None:
                return False
            if ranks.any(interrupt.pending):
                return True
        return False

    def _advance(self, count: int) -> None:
        """Advance by `count` steps and store results; after an error the state is invalid."""
        runner, progress = self._runner, self._progress
        try:
            try:
                chunk = runner.advance(progress.step, count, self._records, self._cost)
            except cl.Error as error:
                refuse_memory(error, runner.model.network, count)
                raise
            model = runner.model.compiled
            if model.has_sums:
                progress.under_way.note(chunk, model, progress.step + count)
        except BaseException as error:
            why = f"{type(error).__name__}: {error}".rstrip(": ")
            progress.broken = f"a run ended within a chunk, by {why}"
            raise
        progress.step += count
        self._chunks.append(chunk)
        if not len(chunk.failed.nonzero()[0]):
            return
        self._failed = int(min(chunk.failed[chunk.failed > 0], default=0))
        if self._failed:
            self._failure = self._simulation_error(chunk.failed)
        if self._warns and (chunk.failed < 0).any():
            self._warns = False
            self._warn_of_runaways(chunk.failed)

    def _show(self, shown: tqdm, count: int) -> None:
        """Advance the bar; show the speed since the first chunk, during which kernels compile."""
        step, begin = self._timed_from or (self._begin, self._clock)
        simulated = (self._progress.step - step) * self._runner.model.compiled.dt  # ms
        speed = (time.perf_counter() - begin) / (simulated * 1e-3)
        if self._timed_from is None:
            self._timed_from = self._progress.step, time.perf_counter()
        shown.set_postfix_str(f"{speed:.3g} s per simulated s", refresh=False)
        shown.update(count)

    def _result(self) -> Result:
        runner = self._runner
        self._cost["all"] = time.perf_counter() - self._clock
        if runner.ranks.size > 1:
            self._cost["exchange"] = runner.ranks.seconds - self._exchanged
        on_host = runner.engine_run.engine == "reference"
        last = self._failed - 1 if self._failed else self._progress.step  # without a failed step
        return joined_result(
            self._chunks,
            self._records,
            runner.model.compiled.dt,
            (self._begin, last, self._end),
            self._failed > 0,
            self._cost,
            runner.model.network.num_cells,
            np.dtype("f8") if on_host else runner.request.dtype,
        )

    def _warn_of_runaways(self, failed: np.ndarray) -> None:
        """Warn of the first cell whose voltage exceeded `RUNAWAY`; see `Chunk.failed`."""
        if not self._runner.is_first:
            return
        step = -1 - int(failed[failed < 0].max())
        cell, more = int(np.argmax(failed == -1 - step)), int((failed < 0).sum()) - 1
        others = f" (and of {counted(more, 'other cell')} soon after)" if more else ""
        say_to_caller(
            f"the voltage of cell {cell} is beyond {RUNAWAY:.0e} mV at "
            f"t = {(step + 1) * self._runner.model.compiled.dt:g} ms{others}; check the units of "
            "currents, and for conductances below 0"
        )

    def _simulation_error(self, failed: np.ndarray) -> SimulationError:
        model, cell = self._runner.model.compiled, int(np.flatnonzero(failed == self._failed)[0])
        node, t = int(model.soma[cell]), self._failed * model.dt
        message = (
            f"the voltage of cell {cell}, at its soma, node {node}, is not finite at "
            f"t = {t:g} ms (step {self._failed - 1})"
        )
        for kind in model.kinds:
            if kind.mechanism.program.spike is not None and node in kind.node:
                message += (
                    f"; {kind.mechanism.name} spiked in the step after a reset, or its equations "
                    "diverge: expected a line 'refractory:', or a shorter dt"
                )
        self._progress.broken = message
        return SimulationError(message, cell, node, t, None)
