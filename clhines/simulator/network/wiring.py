"""Wiring: a network's connections and external events."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import stretch_of
from clhines.core.checks import as_array, as_indices, as_real
from clhines.core.errors import InputError, warn_caller
from clhines.core.quantities import as_numbers
from clhines.core.summary import range_text
from clhines.simulator.common.arrays import each, once
from clhines.simulator.common.checks import broadcast, unchangeable
from clhines.simulator.network.changes import Changes
from clhines.simulator.network.groups import Group
from clhines.simulator.network.pairs import Drawn, Pairs, connected
from clhines.simulator.network.plasticity import Rule

CallColumns = list[tuple[np.ndarray, ...]]


@unchangeable("sim.set(weight=...) for weights; other values in connect()")
class Connections:
    """The connections from one call of `Network.connect`.

    Attributes
    ----------
    target : Group
    """

    def __init__(self, wiring: Wiring, number: int, target: Group) -> None:
        vars(self).update(_wiring=wiring, _number=number, target=target)

    _wiring: Wiring
    _number: int
    target: Group

    @property
    def sources(self) -> np.ndarray:
        """Each connection's source, (m,) int64, by its number in `Result.spike_cell`."""
        return self._column(0).astype(np.int64)

    @property
    def targets(self) -> np.ndarray:
        """Each connection's instance of `target`, (m,) int64; its node is in `target.nodes`."""
        return self._column(2).astype(np.int64)

    @property
    def weights(self) -> np.ndarray:
        """Weights in the mechanism's unit, (m,) float64, or (m, k) if it has k weights."""
        rows = self._column(3)
        return (rows[:, 0] if rows.shape[1] == 1 else rows).copy()

    @property
    def delays(self) -> np.ndarray:
        """Each connection's delay, (m,) float64, ms."""
        return self._column(4).copy()

    @property
    def where(self) -> slice:
        """Slice of `Simulation.weights`, the current values, that belongs to these connections."""
        sizes = [rows.size for _, _, _, rows, *_ in self._wiring.calls[: self._number + 1]]
        return slice(sum(sizes[:-1]), sum(sizes))

    def _column(self, k: int) -> np.ndarray:
        return self._wiring.calls[self._number][k]

    def __len__(self) -> int:
        return len(self._column(0))

    def __repr__(self) -> str:
        weights, delays = range_text(self._column(3)), range_text(self._column(4))
        return (
            f"Connections({len(self)} to {self.target.mechanism.name} × {len(self.target)}; "
            f"weight {weights}, delay {delays} ms)"
        )


class Wiring:
    """A network's connections and external events; times in ms.

    `calls` has each `connect` call's columns, `events` the external events' columns.
    """

    def __init__(
        self,
        network: Any,
        calls: CallColumns | None = None,
        events: CallColumns | None = None,
        rule: Rule | None = None,
    ) -> None:
        self.network, self._num_cells = network, network.num_cells
        self.rule = rule
        # source, group, instance, weight rows, delay and plastic, for each `connect`
        self.calls = calls or []
        # group, instance, time and weight, for each `add_event`
        self.outside = [columns for columns in events or [] if len(columns[0])]

    def check_target(self, target: object) -> None:
        if not isinstance(target, Group):
            raise InputError(f"target is {type(target).__name__}; expected a Group, from add()")
        if target.network is not self.network:
            raise InputError(f"target {target.mechanism.name} belongs to another network")
        if not target.mechanism.takes_events:
            raise InputError(f"target {target.mechanism.name} does not receive events")

    def connect(
        self,
        source: np.ndarray,
        target: Group,
        index: ArrayLike | Pairs | None,
        weight: ArrayLike | Drawn | None,
        delay: ArrayLike | Drawn,
        rule: Rule | None,
    ) -> Connections:
        """Add connections from sources with the numbers `source`; see `Network.connect`."""
        if len(source):
            weight = weight_or_none(weight, target, "connect()")
        weight = 0.0 if weight is None else weight
        if isinstance(index, Pairs):
            self._check_rule(rule)
            return self._connect_pairs(source, target, index, weight, delay, rule)
        if isinstance(weight, Drawn):
            raise InputError("weight is Drawn; expected numbers, as index is not Pairs")
        if isinstance(delay, Drawn):
            raise InputError("delay is Drawn; expected numbers, as index is not Pairs")
        self._check_rule(rule)
        rows = rows_of_weights(weight, target)
        index = np.arange(len(target)) if index is None else index
        columns = {"source": source, "index": index, "weight": np.arange(len(rows)), "delay": delay}
        arrays = broadcast(columns, {"delay": "ms"})
        which = arrays["weight"]
        row = rows[which] if len(rows) > 1 else np.broadcast_to(rows, (len(which), rows.shape[1]))
        instance = as_indices("index", arrays["index"], len(target), target.mechanism.name)
        return self._keep(arrays["source"], target, instance, row, arrays["delay"], rule)

    def _connect_pairs(
        self,
        source: np.ndarray,
        target: Group,
        pairs: Pairs,
        weight: ArrayLike | Drawn,
        delay: ArrayLike | Drawn,
        rule: Rule | None,
    ) -> Connections:
        rows = rows_of_weights(0.0 if isinstance(weight, Drawn) else weight, target)
        delays = as_array("delay", 0.0 if isinstance(delay, Drawn) else delay, unit="ms")
        for name, size in (("weight", len(rows)), ("delay", delays.size)):
            if size != 1:
                raise InputError(
                    f"{name} has {size} values beside Pairs; expected a number or Drawn"
                )
        call = len(self.calls)
        cell = stretch_of(self.network.forest.cell_offsets, target.nodes)
        row, instance = connected(pairs, call, source, np.where(target.nodes < 0, -1, cell))
        rows = np.broadcast_to(rows, (len(row), rows.shape[1]))
        if isinstance(weight, Drawn) and rows.shape[1]:
            drawn = weight.of_pairs((pairs.seed, call, 1), row, instance)
            rows = np.concatenate([drawn[:, None], rows[:, 1:]], axis=1)
        delays = np.broadcast_to(delays, len(row))
        if isinstance(delay, Drawn):
            delays = delay.of_pairs((pairs.seed, call, 2), row, instance)
        if not np.array_equal(source, np.arange(len(source))):
            row = source.astype(np.int32)[row]
        return self._keep(row, target, instance, rows, delays, rule)

    def _keep(
        self,
        source: np.ndarray,
        target: Group,
        instance: np.ndarray,
        rows: np.ndarray,
        delay: np.ndarray,
        rule: Rule | None,
    ) -> Connections:
        """Check delays and store connections; a column with equal values is stored once.

        Each connection goes from a source to an instance of `target`; `rows` has rows of weights.
        """
        count = len(source)
        delays = each(partial(as_real, "delay"), delay)
        shortest = once(delays)
        of_cells = (once(source) < self._num_cells).any()
        if count and (shortest.min() < 0 or (of_cells and not shortest.min())):
            k = int(np.argmin(shortest))
            least = "above 0" if of_cells else "0 or more"
            raise InputError(f"delay of connection {k} is {shortest[k]:g} ms; expected {least}")
        group = np.broadcast_to(np.int64(target.number), count)
        plastic = np.broadcast_to(np.bool_(rule is not None), count)
        self.calls.append((source, group, instance, rows, delays, plastic))
        self.rule = rule or self.rule
        return Connections(self, len(self.calls) - 1, target)

    def add_event(
        self, target: Group, index: ArrayLike, time: ArrayLike, weight: ArrayLike
    ) -> None:
        numbers: Any = as_numbers("weight", weight, weight_unit(target))
        arrays = broadcast({"index": index, "time": time, "weight": numbers}, {"time": "ms"})
        instance = as_indices("index", arrays["index"], len(target), target.mechanism.name)
        times, weights = as_real("time", arrays["time"]), as_real("weight", arrays["weight"])
        if len(times) and times.min() < 0:
            raise InputError(f"time of an event is {times.min():g} ms; expected 0 or more")
        if len(times):  # a train may be empty
            self.outside.append((np.full(len(times), target.number), instance, times, weights))

    @property
    def connections(self) -> tuple[Connections, ...]:
        return tuple(
            Connections(self, number, self.network.groups[int(group[0])])
            for number, (_, group, *_) in enumerate(self.calls)
            if len(group)
        )

    def changed(self, changes: Changes) -> Wiring:
        if changes.weight is None:
            return self
        calls = self._reweighed(changes.weight)
        return Wiring(self.network, calls, self.outside, self.rule)

    def _reweighed(self, weight: np.ndarray) -> CallColumns:
        sizes = [rows.size for _, _, _, rows, *_ in self.calls]
        if weight.shape != (sum(sizes),):
            raise InputError(f"weight has shape {weight.shape}; expected ({sum(sizes)},)")
        parts = np.split(weight, np.cumsum(sizes)[:-1]) if sizes else []
        return [
            (*columns[:3], part.reshape(columns[3].shape), *columns[4:])
            for columns, part in zip(self.calls, parts, strict=True)
        ]

    def _check_rule(self, rule: Rule | None) -> None:
        if rule is None:
            return
        if not isinstance(rule, Rule):
            raise InputError(f"rule is {type(rule).__name__}; expected a Rule, such as STDP")
        if self.rule is not None and self.rule != rule:
            raise InputError(
                f"rule is {rule}; expected the rule of earlier connections, {self.rule}"
            )


def first_weights(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0] if rows.shape[1] else np.broadcast_to(0.0, len(rows))


def weight_unit(target: Group) -> str | None:
    return "uS" if target.mechanism.name in ("expsyn", "exp2syn") else None


_Weight = TypeVar("_Weight")


def weight_or_none(weight: _Weight | None, target: Group, call: str) -> _Weight | float:
    """Return `weight`; if it is None, 0, with a warning if the mechanism has weights."""
    if weight is not None:
        return weight
    net = target.mechanism.program.net
    if net is None or net.weights:
        warn_caller(
            f"{call} without weight: events have weight 0 for {target.mechanism.name}; expected "
            "weight=, 0 if it is meant",
            UserWarning,
        )
    return 0.0


def rows_of_weights(weight: ArrayLike, target: Group) -> np.ndarray:
    """Check weights of m connections; return (m, k) float64 if the mechanism has k weights."""
    net = target.mechanism.program.net
    width = len(net.weights) if net is not None else 1
    numbers: Any = as_numbers("weight", weight, weight_unit(target))
    try:
        array = np.asarray(numbers)
    except ValueError:
        raise InputError("weight has rows of different lengths") from None
    if array.ndim < 2:
        first = as_real("weight", np.atleast_1d(as_array("weight", numbers)))
        if not width and first.any():
            raise InputError(f"got a weight; events of {target.mechanism.name} have none")
        rows = np.zeros((len(first), width))
        rows[:, :1] = first[:, None]
        return rows
    columns = array.shape[1]
    if array.ndim > 2 or columns > width:
        raise InputError(
            f"weight has shape {array.shape}; expected (connections, {width} or less), the weights "
            f"of {target.mechanism.name}"
        )
    rows = np.zeros((len(array), width))
    for k in range(columns):
        rows[:, k] = as_real(f"weight[:, {k}]", as_array("weight", array[:, k]))
    return rows
