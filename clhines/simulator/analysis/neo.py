"""Results as a segment of Neo."""

from __future__ import annotations

import re
from collections.abc import Mapping

import neo
import numpy as np
import quantities as pq

from clhines.core.errors import InputError, shown
from clhines.simulator.analysis.results import ResultLike, cells_of, timed_record_of

_NAME = re.compile(r"[A-Za-z_]+")
_UNITS = re.compile(r"[A-Za-z_]+(\*\*-?\d)?([*/][A-Za-z_]+(\*\*-?\d)?)*")


def segment(
    result: ResultLike, num_cells: int, units: Mapping[int, str] | None = None
) -> neo.Segment:
    """Return a `neo.Segment` with a spike train for each cell, and records as analog signals.

    Parameters
    ----------
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
    begin, end = float(result.t[0]), float(result.t[-1])
    made = neo.Segment(name="clhines")
    order = np.argsort(result.spike_cell, kind="stable")
    edges = np.searchsorted(result.spike_cell[order], np.arange(count + 1))
    for cell in range(count):
        times = result.spike_time[order[edges[cell] : edges[cell + 1]]]
        train = neo.SpikeTrain(times, units="ms", t_start=min(begin, 0.0), t_stop=end, cell=cell)
        made.spiketrains.append(train)
    for record, unit in (units or {}).items():
        t, values = timed_record_of(result, record, 2)
        timing = {"t_start": float(t[0]) * pq.ms, "sampling_period": _step(t) * pq.ms}
        signal = neo.AnalogSignal(values, units=_checked(unit), **timing, record=int(record))
        made.analogsignals.append(signal)
    return made


def _checked(unit: object) -> str:
    """Return units that are names and powers; of anything else quantities makes code."""
    names = _NAME.findall(unit) if isinstance(unit, str) and _UNITS.fullmatch(unit) else ["?"]
    if not all(isinstance(getattr(pq, name, None), pq.UnitQuantity) for name in names):
        raise InputError(f"units is {shown(unit)}; expected units of quantities, as mA/cm**2")
    return str(unit)


def _step(t: np.ndarray) -> float:
    return float(t[-1] - t[0]) / (len(t) - 1)
