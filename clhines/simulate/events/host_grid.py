"""Events in whole steps on the host: sums of each target, delivery of spikes, plasticity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clhines.arrays import ranges
from clhines.model.model import Model
from clhines.model.schema import Field
from clhines.simulate.state.decisions import Decisions


class HostGrid:
    """What `grid_run.Grid` is on a device, in NumPy.

    `incoming` is (slots, num_targets) int64; `weight` is that of `Model.connections`, as it is now.
    """

    def __init__(self, model: Model, decisions: Decisions) -> None:
        self.model, self.slots, self.scale = model, decisions.slots, decisions.scale
        self.split = decisions.split  # spikes of all ranks are sent together
        self.weight = model.connections.weight.copy()
        self._post = model.cell_of_target()[model.connections.target]
        # spikes of the whole network may come, and change traces, where this is a part
        sources = decisions.network.connections.num_sources
        self._trace = {which: np.zeros(sources) for which in ("pre", "post")}
        self._last = {which: np.zeros(sources, np.int32) for which in ("pre", "post")}
        self.incoming = np.zeros((self.slots, model.num_targets), np.int64)

    def take(self, step: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield each kind, its instances that events come to in a step, and their weights."""
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
        """Deliver the spikes of a step, of all sources at once."""
        known = self.model.connections
        begin = known.row[sources]
        sent = known.order[ranges(begin, known.row[sources + 1] - begin)]
        self._change("minus", sent, sources, step)
        slot = (step + 1 + known.delay[sent]) % self.slots
        weight = np.rint(self.weight[sent] / self.scale).astype(np.int64)
        np.add.at(self.incoming, (slot, known.target[sent]), weight)
        self._change("plus", np.flatnonzero(np.isin(self._post, sources)), sources, step)

    def _change(self, which: str, connections: np.ndarray, sources: np.ndarray, step: int) -> None:
        """Change plastic weights of connections from (minus) or to (plus) cells that spike."""
        rule, given = self.model.connections.rule, self.model.connections
        if rule is None:
            return
        minus = which == "minus"
        tau, ends = (rule.tau_minus, self._post) if minus else (rule.tau_plus, given.source)
        some = connections[given.plastic[connections]]
        if not minus:  # spikes of this step count at once
            self._count("pre", sources, step, rule.tau_plus)
        other = "post" if minus else "pre"
        trace, last = self._trace[other], self._last[other]
        sums = trace[ends[some]] * np.exp((last[ends[some]] - step) * (self.model.dt / tau))
        change = -rule.a_minus * sums if minus else rule.a_plus * sums
        self.weight[some] = np.clip(self.weight[some] + change, rule.w_min, rule.w_max)
        if not minus:
            self._count("post", sources, step, rule.tau_minus)

    def _count(self, which: str, sources: np.ndarray, step: int, tau: float) -> None:
        """Add 1 to the traces of sources that spike."""
        trace, last = self._trace[which], self._last[which]
        trace[sources] = trace[sources] * np.exp((last[sources] - step) * (self.model.dt / tau)) + 1
        last[sources] = step

    def save(self) -> dict[str, np.ndarray]:
        """Return its arrays, by the keys of the schema."""
        own = [f for f in self.model.schema if f.key == "incoming" or f.what.startswith("plastic")]
        return {f.key: self.owner(f)[f.name] for f in own}

    def owner(self, field: Field) -> dict[str, np.ndarray]:
        """Return the dict that has the array of a field of a state, by the field's name."""
        if field.what == "plastic_trace":
            return self._trace
        return self._last if field.what == "plastic_step" else vars(self)
