"""Played values among events: what an event finds in a parameter that takes values in time.

NEURON's queue has an entry for each value of a Vector that plays, of which the next one is put
there when one comes. So an event finds what has come before it; at one time the one that was put
there first comes first, and what is played if both were put there at one time. Random.play has no
entry: it sets its variables in the middle of a step, after the events until then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clhines.simulator.model.model import Model, Played


def shares_after(played: Played, number: int, t: float) -> tuple[tuple[int, float], ...]:
    """Return entries whose sum, each times its share, is the value at a time, ms.

    `number` entries have come by then; there are no shares where none is set. As NEURON, it
    extrapolates by the last two of them, and the next one, that it knows of.
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
    """Return the value at a time, ms, when `number` entries have come; NaN: none is set."""
    parts = [float(share * played.y[k]) for k, share in shares_after(played, number, t)]
    return sum(parts[1:], parts[0]) if parts else float("nan")


def entries_until(played: Played, t: float) -> int:
    """Return how many entries come until a time, ms."""
    return int(np.searchsorted(played.t, t, side="right"))


class PlayedValues:
    """Plays values of a model into its parameters, on the host, with events and in steps."""

    def __init__(self, model: Model, parameters: Sequence[dict[str, np.ndarray]]) -> None:
        self._played, self._parameters = model.played, parameters
        self._came = [0] * len(model.played)  # entries that have come
        self._of_kind: dict[int, list[int]] = {}
        for number, played in enumerate(model.played):
            if not played.after_events:
                self._of_kind.setdefault(played.kind, []).append(number)

    def start(self) -> None:
        """Set what comes until t = 0, before INITIAL."""
        self.begin(0.0)
        for played, number in zip(self._played, self._came, strict=True):
            if number and not played.after_events:
                self._set(played, number, played.t[number - 1])

    def begin(self, t: float) -> None:
        """Take the entries until a time, ms, for those that have come; nothing is set."""
        self._came = [entries_until(played, t) for played in self._played]

    def at(self, t: float, middle: float) -> None:
        """Play in the middle of a step, ms, and at its end `t` where values are interpolated."""
        self.begin(middle)
        for played, number in zip(self._played, self._came, strict=True):
            if played.continuous or t <= middle:  # the queue has the others, behind the states
                self._set(played, number, t)

    def has(self, k: int) -> bool:
        """Whether values with entries in the queue are played into a kind."""
        return k in self._of_kind

    def before(
        self, k: int, here: np.ndarray, until: float, due: np.ndarray, sent: np.ndarray
    ) -> None:
        """Let what comes until a time, ms, and before events of a kind, come.

        `here`, (count,) bool, are the instances; `due` and `sent`, (count,), times of their
        next events.
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
            self.note(played, shares_after(played, number, t))
            self._parameters[played.kind][played.parameter][played.instance] = value

    def note(self, played: Played, shares: tuple[tuple[int, float], ...]) -> None:
        """Note that a value is set, by `shares_after`; for gradients."""
