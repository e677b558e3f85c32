"""Results as a segment of Neo."""

from __future__ import annotations

from collections.abc import Mapping

import neo
import numpy as np
import quantities as pq

from clhines.analysis.results import Results, cells_of, record_of
from clhines.errors import InputError


def segment(result: Results, num_cells: int, units: Mapping[int, str] | None = None) -> neo.Segment:
    """Return a `neo.Segment` with a spike train for each cell, and records as analog signals.

    Parameters
    ----------
    result : Result
    num_cells : int
        Of the network; cells without spikes have empty trains.
    units : dict of int to str, optional
        Records to include, by the numbers that `Simulation.record` returned, and their units:
        ``{v: "mV"}``. Other records are left out.

    Returns
    -------
    neo.Segment
        Trains in the order of the cells, annotated with `cell`; signals annotated with `record`.
    """
    count = cells_of(result, num_cells)
    if len(result.t) < 2:
        raise InputError(f"t has {len(result.t)} times; expected a run of two steps or more")
    begin, end, step = float(result.t[0]), float(result.t[-1]), _step(result.t)
    made = neo.Segment(name="clhines")
    order = np.argsort(result.spike_cell, kind="stable")
    edges = np.searchsorted(result.spike_cell[order], np.arange(count + 1))
    for cell in range(count):
        times = result.spike_time[order[edges[cell] : edges[cell + 1]]]
        train = neo.SpikeTrain(times, units="ms", t_start=min(begin, 0.0), t_stop=end, cell=cell)
        made.spiketrains.append(train)
    for record, unit in (units or {}).items():
        values = record_of(result, record)
        timing = {"t_start": begin * pq.ms, "sampling_period": step * pq.ms}
        signal = neo.AnalogSignal(values, units=unit, **timing, record=int(record))
        made.analogsignals.append(signal)
    return made


def _step(t: np.ndarray) -> float:
    return float(t[-1] - t[0]) / (len(t) - 1)
