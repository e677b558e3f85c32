"""Features by eFEL itself, for features that `simulator.analysis` lacks."""

from __future__ import annotations

from collections.abc import Iterable

import efel
import numpy as np
from numpy.typing import ArrayLike

from clhines.simulator.analysis.spikes import checked_traces


def features(
    v: ArrayLike,
    t: ArrayLike,
    names: Iterable[str],
    *,
    stim_start: ArrayLike,
    stim_end: ArrayLike,
    stimulus_current: ArrayLike | None = None,
) -> list[dict[str, np.ndarray | None]]:
    """Have eFEL compute features of traces, with its current settings.

    Parameters
    ----------
    v : (k,) or (m, k) float, mV
        Traces in rows: ``result[voltage].T``.
    t : (k,) float, ms
    names : iterable of str
        Of eFEL's features.
    stim_start, stim_end : float or (m,), ms
    stimulus_current : float or (m,), nA, optional

    Returns
    -------
    list of dict of str to array or None
        One for each trace, as `efel.get_feature_values` returns them.
    """
    traces = checked_traces(v, t, stim_start, stim_end, stimulus_current, 0.0, None)
    efel_traces = [
        {"T": traces.t, "V": row, "stim_start": [begin], "stim_end": [end]}
        for row, begin, end in zip(traces.v, traces.stim_start, traces.stim_end, strict=True)
    ]
    if traces.current is not None:
        for one, amplitude in zip(efel_traces, traces.current, strict=True):
            one["stimulus_current"] = [amplitude]
    return efel.get_feature_values(efel_traces, list(names))
