"""The reference's trace: all calls and operations in some steps, with their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from clhines.simulator.engines.reference import Reference, Wanted, start_model
from clhines.simulator.events.exact import HostEvents
from clhines.simulator.model.deliveries import sums_weights
from clhines.simulator.model.model import Kind, Model
from clhines.simulator.ranks.partition import Share
from clhines.simulator.state.decisions import Decisions
from clhines.simulator.state.host_grid import HostGrid
from clhines.simulator.state.sources import Wires, wires_of
from clhines.simulator.state.variables import BlockCall, Variables

_OF_STEPS = {"receive", "current", "advance"}  # blocks that steps call


class TracedCall(NamedTuple):
    """A call of mechanism `kind`'s block for `instances`, with the values that the call read."""

    kind: int
    block: str
    instances: np.ndarray
    arguments: BlockCall
    values: list[Any]


# the `Adjoint` method that takes an operation back, and the method's arguments
Entry: TypeAlias = tuple[str, tuple[Any, ...]]


class StepTrace:
    """A reference run's operations in order; they are recorded unless `entries` is None."""

    def __init__(self) -> None:
        self.entries: list[Entry] | None = []

    def note(self, operation: str, *values: Any) -> None:
        if self.entries is not None:
            self.entries.append((operation, values))


class TracedGrid(HostGrid):
    """Add up event weights for each target and step, and record deliveries in a trace.

    In each step every target that sums its events gets an event, with weight 0 if none is due. Such
    an event changes no state, but the loss has a derivative with respect to its weight.
    """

    def __init__(self, model: Model, decisions: Decisions, note: Callable[..., None]) -> None:
        super().__init__(model, decisions)
        self._note = note

    def take(self, step: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        slot = step % self.slots
        now = slice(*np.searchsorted(self.model.events.step, [step, step + 1]))
        self._note("add_events", slot, now)
        sums = np.zeros(self.model.num_targets)
        for k, instances, weight in super().take(step):
            sums[self.model.kinds[k].first_target + instances] = weight
        for k, kind in enumerate(self.model.kinds):
            if sums_weights(kind.mechanism):
                instances = np.arange(kind.count)
                yield k, instances, sums[kind.first_target + instances]
        self._note("take_sums", slot)

    def send(self, step: int, sources: np.ndarray) -> None:
        super().send(step, sources)
        connection = self.connections_of(sources)
        slot = (step + 1 + self.model.connections.delay[connection]) % self.slots
        self._note("send", slot, connection)


class TracedVariables(Variables):
    def __init__(
        self, model: Model, wires: Wires, decisions: Decisions | None,
        trace: StepTrace, starts_currents: bool,
    ) -> None:  # fmt: skip
        self._trace, self.starts_currents = trace, starts_currents
        super().__init__(model, wires, decisions)
        if self.grid is not None:
            self.grid = TracedGrid(model, decisions or Decisions.of(model), trace.note)

    def note(self, operation: str, *values: Any) -> None:
        self._trace.note(operation, *values)


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
        self._trace, self._plain = StepTrace(), plain and not any(map(_sets_states, model.kinds))
        super().__init__(model, wires_of(model), wanted)
        self.start_entries, self._trace.entries = self._trace.entries or [], None

    def start(self, wanted: Wanted) -> tuple[Variables, HostEvents]:
        make = partial(TracedVariables, trace=self._trace, starts_currents=not self._plain)
        return start_model(self.model, wires_of(self.model), wanted, make=make)

    @property
    def starts_steps(self) -> bool:
        """Whether the start calls blocks that steps have: it computes currents, or has events."""
        blocks = {values[1] for name, values in self.start_entries if name == "call"}
        return not self._plain or not blocks.isdisjoint(_OF_STEPS)

    def step_traced(self, step: int) -> list[Entry]:
        entries = self._trace.entries = list[Entry]()
        held = self.variables.exact.held.copy()
        self.step(step)
        v = self.variables.v[self.model.sources.detector_node]
        entries.append(("end_step", (step, v, held == 0)))
        self._trace.entries = None
        return entries
