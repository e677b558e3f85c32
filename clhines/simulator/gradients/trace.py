"""The reference's trace: all calls and operations in some steps, with their inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from clhines.simulator.engines.reference import Reference, Wanted, start_model
from clhines.simulator.events.exact import HostEvents
from clhines.simulator.model.deliveries import sums_weights
from clhines.simulator.model.model import IonNodes, Kind, Model, Played
from clhines.simulator.ranks.partition import Share
from clhines.simulator.state.decisions import Decisions
from clhines.simulator.state.host_grid import HostGrid
from clhines.simulator.state.plays import PlayedValues
from clhines.simulator.state.sources import Wires, wires_of
from clhines.simulator.state.variables import BlockCall, Variables

_OF_STEPS = {"receive", "current", "advance"}  # blocks that steps call


@dataclass(frozen=True, eq=False)
class TracedCall:
    """A call of a mechanism's block for `instances`, with the values that the call read."""

    kind: int
    block: str
    instances: np.ndarray
    arguments: BlockCall
    values: list[Any]


# the `Adjoint` method that takes an entry back, and its arguments
Entry: TypeAlias = tuple[str, tuple[Any, ...]]


class StepTrace:
    """A reference run's operations in order, recorded while the trace is `on`.

    Each entry has the name of an `Adjoint` method, which applies the operation's reverse, and the
    method's arguments.
    """

    def __init__(self) -> None:
        self.on, self.entries = False, list[Entry]()

    def add(self, back: str, *values: Any) -> None:
        if self.on:
            self.entries.append((back, values))


class TracedPlays(PlayedValues):
    """Played values whose computation from the played arrays is recorded in a trace."""

    def __init__(self, model: Model, variables: TracedVariables) -> None:
        super().__init__(model, variables.parameters)
        self._trace = variables.trace

    def note(self, played: Played, shares: tuple[tuple[int, float], ...]) -> None:
        self._trace.add("play", played, shares)


class TracedGrid(HostGrid):
    """Add up event weights for each target and step, and record deliveries in a trace.

    In each step every target that sums its events gets an event, with weight 0 if none is due. Such
    an event changes no state, but the loss has a derivative with respect to its weight.
    """

    def __init__(self, model: Model, decisions: Decisions, trace: StepTrace) -> None:
        super().__init__(model, decisions)
        self._notes = trace

    def take(self, step: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        slot = step % self.slots
        now = slice(*np.searchsorted(self.model.events.step, [step, step + 1]))
        self._notes.add("add_events", slot, now)
        sums = np.zeros(self.model.num_targets)
        for k, instances, weight in super().take(step):
            sums[self.model.kinds[k].first_target + instances] = weight
        for k, kind in enumerate(self.model.kinds):
            if sums_weights(kind.mechanism):
                instances = np.arange(kind.count)
                yield k, instances, sums[kind.first_target + instances]
        self._notes.add("take_sums", slot)

    def send(self, step: int, sources: np.ndarray) -> None:
        super().send(step, sources)
        if self._notes.on:
            connection = self.connections_of(sources)
            slot = (step + 1 + self.model.connections.delay[connection]) % self.slots
            self._notes.add("send", slot, connection)


class TracedVariables(Variables):
    def __init__(
        self,
        model: Model,
        wires: Wires,
        decisions: Decisions | None,
        trace: StepTrace,
        without_currents: bool,
    ) -> None:
        self.trace, self.starts_currents = trace, not without_currents
        super().__init__(model, wires, decisions)
        if self.grid is not None:
            self.grid = TracedGrid(model, decisions or Decisions.of(model), trace)

    def played_values(self) -> PlayedValues:
        return TracedPlays(self.model, self)

    def note_call(
        self, k: int, block: str, some: np.ndarray, given: BlockCall, values: list[object]
    ) -> None:
        self.trace.add("call", TracedCall(k, block, some, given, values))

    def clear_currents(self) -> None:
        super().clear_currents()
        self.trace.add("clear_currents")

    def to_nernst(self, ion: IonNodes, node: np.ndarray) -> None:
        _, inside, outside, _ = ion.variables
        values = self.ions[inside][node], self.ions[outside][node]
        self.trace.add("to_nernst", ion, node, *values)
        super().to_nernst(ion, node)


def _sets_states(kind: Kind) -> bool:
    blocks = kind.mechanism.program.blocks
    current = blocks.get("current", ())
    return "before_breakpoint" in blocks or any(
        a.role in ("state", "drawn") and a.direction != "in" for a in current
    )


def first_if_alike(model: Model, copies: int) -> Model:
    """Return the first copy's model if all copies start alike, else the whole model.

    They start alike if they differ only in parameters that nothing reads before the first step.
    """
    if model.ions or model.netcons.count or model.on_grid or any(map(_sets_states, model.kinds)):
        return model
    arrays = [model.v_init]
    for kind in model.kinds:
        blocks = {*kind.mechanism.program.blocks} - _OF_STEPS
        used = {name for block in blocks for name in kind.mechanism.compiled.free(block)}
        unused = {*kind.mechanism.parameters} - used
        read = (np.asarray(v) for name, v in kind.parameters.items() if name not in unused)
        arrays += [values for values in read if values.ndim]
    by_copy = (a.reshape(copies, -1) for a in arrays)
    return Share(model, 0, 1).model() if all((a == a[0]).all() for a in by_copy) else model


class TracedRun(Reference):
    """A reference run that can trace its start (`start_entries`) and single steps.

    With `plain`, the start computes no currents unless they set states; runs on devices use this.
    """

    def __init__(self, model: Model, wanted: Wanted, plain: bool = False) -> None:
        self.trace = StepTrace()
        self._plain = plain and not any(map(_sets_states, model.kinds))
        self.trace.on = True
        super().__init__(model, wires_of(model), wanted)
        self.trace.on = False
        self.start_entries: Sequence[Entry] = self.trace.entries

    def start(self, wanted: Wanted) -> tuple[Variables, HostEvents]:
        def make(model: Model, wires: Wires, decisions: Decisions | None) -> Variables:
            return TracedVariables(model, wires, decisions, self.trace, self._plain)

        return start_model(self.model, wires_of(self.model), wanted, make=make)

    @property
    def starts_steps(self) -> bool:
        """Whether the start calls blocks that steps have: it computes currents, or has events."""
        calls = (values[0] for name, values in self.start_entries if name == "call")
        return self.variables.starts_currents or any(call.block in _OF_STEPS for call in calls)

    def step_traced(self, step: int) -> Sequence[Entry]:
        self.trace.entries, self.trace.on = [], True
        held = self.variables.exact.held.copy()
        self.step(step)
        v = self.variables.v[self.model.sources.detector_node]
        self.trace.add("end_step", step, v, held == 0)
        self.trace.on = False
        return self.trace.entries

    def note_change(self, d: np.ndarray, v: np.ndarray, dv: np.ndarray) -> None:
        self.trace.add("change_voltages", d, v, dv)
