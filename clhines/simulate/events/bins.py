"""Events in bins of a step, as NEURON delivers them with ``CVode.queue_mode(1, 0)``.

An event of a connection that is due in ``[t - dt/2, t + dt/2)`` is in the bin of the step that
begins at t. At the begin of the step conditions of WATCH are checked, then the whole bin is
delivered, all events at the time t: what was sent last comes first, as NEURON's bin is a stack.
Self events keep their own times, and those up to the middle of the step follow. What these send
with a delay shorter than half a step comes at the end.
"""

from __future__ import annotations

import numpy as np

from clhines.model.model import Model
from clhines.plan.kernel_spec import Word

# Of a connection: its target sees events of the step that sends them; its source is the crossing of
# a threshold; it comes from another block of cells, see `cpu.blocks`.
SENDING = Word(short=1, crossed=1, apart=1)
TOLERANCE = 1e-10  # steps by which NEURON moves what is due at the end of a bin into the next one
_SAME_DELAY = 3  # connections of one delay that NEURON puts into the queue together


def detected(model: Model) -> np.ndarray:
    """(m,) bool: connections whose source is the crossing of a threshold."""
    found = np.zeros(model.sources.count, bool)
    found[model.sources.detector_source] = True
    return found[model.netcons.source]


def has_second_round(model: Model) -> bool:
    """Whether events sent within a step may come to others in its bin."""
    return bool((~detected(model) & (model.netcons.delay < 0.5 * model.dt)).any())


def connection_ranks(model: Model) -> np.ndarray:
    """(m,) int64: of events sent at the same time, that of the highest rank is delivered first.

    Trains send first, then crossings of thresholds, then instances, each in the order of their
    numbers. A source sends along its connections in their order; three or more of one delay are one
    event of NEURON's, which delivers them in that order.
    """
    netcons = model.netcons
    source, m = netcons.source, netcons.count
    place = np.full(model.sources.count, 2)
    place[model.sources.train_source], place[model.sources.detector_source] = 0, 1
    least, most = np.full(len(place), np.inf), np.zeros(len(place))
    np.minimum.at(least, source, netcons.delay)
    np.maximum.at(most, source, netcons.delay)
    together = (np.bincount(source, minlength=len(place)) >= _SAME_DELAY) & (least == most)
    number = np.where(together[source], -np.arange(m), np.arange(m))
    rank = np.empty(m, np.int64)
    rank[np.lexsort((number, source, place[source]))] = np.arange(m)
    return rank


def bin_end(then: np.ndarray, begin: float, dt: float) -> np.ndarray:
    """Return when the bin of a step ends, ms, for events sent at some times.

    NEURON counts bins from the step of the sending; its clock has been rounded in each step since.
    """
    middle = begin + 0.5 * dt
    drift = ((middle + 0.5 * dt) - begin) - dt
    return (middle - TOLERANCE * dt) - drift * np.rint((middle - then) / dt)
