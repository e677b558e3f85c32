"""Events in whole steps on the host, in NumPy: sums for each target, and plastic weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from clhines.core.arrays import ranges
from clhines.simulator.mechanisms.text.rules import REWARD
from clhines.simulator.model.model import Model
from clhines.simulator.model.schema import Field, plastic_fields
from clhines.simulator.network.plasticity import Course, Rule
from clhines.simulator.state.decisions import Decisions


def check_finite(rule: Rule, values: Iterable[np.ndarray]) -> None:
    if not all(np.isfinite(array).all() for array in values):
        raise rule.not_finite()


def settled(model: Model, saved: dict[str, np.ndarray], step: int) -> dict[str, np.ndarray]:
    """Return a saved state whose plastic weights and traces are advanced to `step`, without events.

    In `saved` they have the values at each connection's last event, and ``dw/dt`` is not applied.
    """
    rule = model.connections.rule
    if rule is None or "plastic_step_synapse" not in saved:
        return saved
    course, plastic = Course(rule, model.dt), model.connections.plastic
    keys = {"w_": "plastic_weight"}
    keys |= {f"{n}_": f"plastic_trace_synapse{k or ''}" for k, n in enumerate(rule.kept["synapse"])}
    changed = {key: saved[key].copy() for key in (*keys.values(), "plastic_step_synapse")}
    values = course.constants | {name: changed[key][plastic] for name, key in keys.items()}
    course.settle(values, step - changed["plastic_step_synapse"][plastic])
    check_finite(rule, [values["w_"]])
    for name, key in keys.items():
        changed[key][plastic] = values[name]
    changed["plastic_step_synapse"][plastic] = step
    return saved | changed


class HostGrid:
    """Deliver events in whole steps, in NumPy, as `Grid` does on a device.

    `incoming`, (slots, num_targets) int64, has sums of integer weights; step s uses slot s % slots.
    """

    def __init__(self, model: Model, decisions: Decisions) -> None:
        self.model, self.slots, self.scale = model, decisions.slots, decisions.scale
        self.split = decisions.split  # all ranks' spikes arrive together
        self.weight = model.connections.weight.copy()
        self._post = model.cell_of_target()[model.connections.target]
        # in a part, too, the whole network's spikes may arrive and change traces
        sources = decisions.network.connections.num_sources
        size = {"plastic": model.connections.count, "sent": sources}
        self._trace, self._last = dict[str, np.ndarray](), dict[str, np.ndarray]()
        rule = model.connections.rule
        if rule is not None:
            self._course = Course(rule, model.dt)
            for one in plastic_fields(rule):
                if one.name != "weight":
                    self.owner(one)[one.name] = np.zeros(size[one.per], one.dtype)
        self.incoming = np.zeros((self.slots, model.num_targets), np.int64)

    def take(self, step: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield mechanism, instances, and the weight sums that the instances receive in a step."""
        events, slot = self.model.events, self.incoming[step % self.slots]
        now = slice(*np.searchsorted(events.step, [step, step + 1]))
        weight = np.rint(events.weight[now] / self.scale).astype(np.int64)
        np.add.at(slot, events.target[now], weight)
        for k, kind in enumerate(self.model.kinds):
            if kind.first_target >= 0:
                sums = slot[kind.first_target : kind.first_target + kind.count]
                hit = np.flatnonzero(sums)
                if len(hit):
                    yield k, hit, sums[hit] * self.scale
        slot[:] = 0

    def send(self, step: int, sources: np.ndarray) -> None:
        """Deliver a step's spikes, from `sources`, and change plastic weights."""
        connections = self.model.connections
        sent = self.connections_of(sources)
        rule = connections.rule
        if rule is not None:
            # pre first: the rule sees the traces before this step's spikes
            self._change("pre", sent, step)
            self._count("pre", sources, step)
        slot = (step + 1 + connections.delay[sent]) % self.slots
        weight = np.rint(self.weight[sent] / self.scale).astype(np.int64)
        np.add.at(self.incoming, (slot, connections.target[sent]), weight)
        if rule is not None:
            self._change("post", np.flatnonzero(np.isin(self._post, sources)), step)
            self._count("post", sources, step)

    def connections_of(self, sources: np.ndarray) -> np.ndarray:
        connections = self.model.connections
        begin = connections.row[sources]
        return connections.order[ranges(begin, connections.row[sources + 1] - begin)]

    def reward(self, reward: float, step: int) -> None:
        if self.model.connections.rule is not None:
            self._change(REWARD, np.arange(self.model.connections.count), step, reward)

    def _change(self, event: str, connections: np.ndarray, step: int, reward: float = 0.0) -> None:
        """Apply the rule's actions for an event, such as ``pre``, to plastic `connections`."""
        grid, course, rule = self.model.connections, self._course, self._course.rule
        plastic = connections[grid.plastic[connections]]
        values = {**course.constants, REWARD: reward, "w_": self.weight[plastic]}
        for side, ends in (("pre", grid.source), ("post", self._post)):
            values |= self._traces(side, ends[plastic], step)
        kept = rule.kept["synapse"]
        if kept:
            last = self._last["synapse"]
            traces = (self._trace[f"synapse{k or ''}"][plastic] for k in range(len(kept)))
            values |= dict(zip((f"{n}_" for n in kept), traces, strict=True))
            course.settle(values, step - last[plastic])
            check_finite(rule, [values["w_"]])
            last[plastic] = step
        rule.about.act(event, "synapse", values)
        self.weight[plastic] = values["w_"]
        for k, name in enumerate(kept):
            self._trace[f"synapse{k or ''}"][plastic] = values[f"{name}_"]
        check_finite(rule, [values["w_"], *(values[f"{name}_"] for name in kept)])

    def _traces(self, side: str, at: np.ndarray, step: int) -> dict[str, Any]:
        names = self._course.rule.kept[side]
        elapsed = step - self._last[side][at] if names else at
        return {
            f"{name}_": self._course.left(name, self._trace[f"{side}{k or ''}"][at], elapsed)
            for k, name in enumerate(names)
        }

    def _count(self, side: str, cells: np.ndarray, step: int) -> None:
        rule = self._course.rule
        names = rule.kept[side]
        if not names:
            return
        values = self._course.constants | self._traces(side, cells, step)
        rule.about.act(side, side, values)
        for k, name in enumerate(names):
            self._trace[f"{side}{k or ''}"][cells] = values[f"{name}_"]
        check_finite(rule, [values[f"{name}_"] for name in names])
        self._last[side][cells] = step

    def save(self) -> dict[str, np.ndarray]:
        fields = [
            f for f in self.model.schema if f.key == "incoming" or f.family.startswith("plastic")
        ]
        return {f.key: self.owner(f)[f.name] for f in fields}

    def owner(self, field: Field) -> dict[str, np.ndarray]:
        """Return the dict that holds the array of a field, under the field's name."""
        if field.family == "plastic_trace":
            return self._trace
        return self._last if field.family == "plastic_step" else vars(self)
