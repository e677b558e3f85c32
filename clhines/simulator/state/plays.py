"""Played values: the order of Vector.play and events within a step.

For each playing Vector, NEURON's queue holds the next entry only; delivering it queues the one
after. An event therefore sees the entries delivered before it. Of items due at the same time, the
first queued comes first; a played entry precedes an event that was queued at the same time.
Random.play is not queued: it sets its variable in the middle of a step, after the events due by
then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clhines.simulator.model.model import Model, Played


def shares_after(played: Played, number: int, t: float) -> tuple[tuple[int, float], ...]:
    """Return a played value at `t`, ms, as pairs (k, share): the sum of ``share * played.y[k]``.

    `number` entries have been delivered; before the first one there are no pairs. As in NEURON, an
    interpolated value is on the line through the last delivered entry and the next one.
    """
    times = played.t
    if not played.continuous:
        return ((number - 1, 1.0),) if number else ()
    k = min(number, len(times) - 1)
    if not k or times[0] >= t < times[k]:
        return ((0, 1.0),)
    t0, t1 = times[k - 1], times[k]
    share = 0.5 if t0 == t1 else float((t - t0) / (t1 - t0))
    return (k - 1, 1 - share), (k, share)


def value_after(played: Played, number: int, t: float) -> float:
    parts = [float(share * played.y[k]) for k, share in shares_after(played, number, t)]
    return sum(parts[1:], parts[0]) if parts else float("nan")


def entries_until(played: Played, t: float) -> int:
    return int(np.searchsorted(played.t, t, side="right"))


class PlayedValues:
    """Play Vectors on the host: set parameters between events and in the middle of steps.

    `note` is called with ``"play"``, the played Vector and `shares_after` when a value is set.
    """

    def __init__(
        self,
        model: Model,
        parameters: Sequence[dict[str, np.ndarray]],
        note: Callable[..., None],
    ) -> None:
        self._played, self._parameters, self._note = model.played, parameters, note
        self._came = [0] * len(model.played)  # delivered entries
        self._of_kind: dict[int, list[int]] = {}
        for number, played in enumerate(model.played):
            if not played.after_events:
                self._of_kind.setdefault(played.kind, []).append(number)

    def start(self) -> None:
        self.begin(0.0)
        for played, number in zip(self._played, self._came, strict=True):
            if number and not played.after_events:
                self._set(played, number, played.t[number - 1])

    def begin(self, t: float) -> None:
        self._came = [entries_until(played, t) for played in self._played]

    def at(self, t: float, middle: float) -> None:
        """Set values at the `middle` of a step, ms, and interpolated values at its end, `t`."""
        self.begin(middle)
        for played, number in zip(self._played, self._came, strict=True):
            if played.continuous or t <= middle:  # others are queued, and follow the states
                self._set(played, number, t)

    def has(self, k: int) -> bool:
        """Whether values are played into mechanism `k` in order with its events, not after them."""
        return k in self._of_kind

    def before(
        self, k: int, here: np.ndarray, until: float, due: np.ndarray, sent: np.ndarray
    ) -> None:
        """Set the parameters of mechanism `k` that are played until `until`, ms, or the next event.

        `due` and `sent`, (count,), ms, are the times at which each instance's next event is due and
        was sent. If an entry is due at the same time, what was sent first comes first; an entry is
        sent when the one before it is due. Only instances in `here`, (count,) bool, change.
        """
        for number in self._of_kind.get(k, ()):
            played = self._played[number]
            j = played.instance
            came = self._came[number]
            while here[j] and came < len(played.t):
                t = played.t[came]
                since = played.t[came - 1] if came else -np.inf
                if t > until or (t, since) > (due[j], sent[j]):
                    break
                came += 1
                self._set(played, came, t)
            self._came[number] = came

    def _set(self, played: Played, number: int, t: float) -> None:
        value = value_after(played, number, t)
        if not np.isnan(value):
            self._note("play", played, shares_after(played, number, t))
            self._parameters[played.kind][played.parameter][played.instance] = value
