"""Results made by hand."""

import numpy as np

from clhines.simulator.records.columns import RecordColumns
from clhines.simulator.records.records import VOLTAGE, Record
from clhines.simulator.result import Result


def drawn(num_cells, spikes, v):
    """A result of `num_cells` cells with times and cells of spikes, and voltages of some somas."""
    v = np.asarray(v, float)
    t, first = np.arange(len(v), dtype=float), np.arange(v.shape[1])
    columns = RecordColumns("node", first, first if num_cells > 1 else None, first >= 0)
    when, cell = (np.asarray(a, kind) for a, kind in zip(spikes, (float, int), strict=True))
    record = Record("v", VOLTAGE, first, label="v", unit="mV", columns=columns)
    return Result(t, [v], when, cell, {}, [t], num_cells=num_cells, _records=(record,))


def recorded(spikes, records):
    """A result of one cell and five steps, with records of its soma.

    A record is a name, a variable, a unit and the number of steps between rows; 0: no rows.
    """
    t = np.arange(5.0)
    soma = RecordColumns("node", np.zeros(1, int), None, np.ones(1, bool))
    kept = tuple(
        Record(variable, VOLTAGE, soma.number, label=name, unit=unit, columns=soma)
        for name, variable, unit, _ in records
    )
    times = [t[::every] if every else t[:0] for *_, every in records]
    values = [np.ones((len(steps), 1)) if len(steps) else np.ones(1) for steps in times]
    when, cell = (np.asarray(a, kind) for a, kind in zip(spikes, (float, int), strict=True))
    return Result(t, values, when, cell, {}, times, num_cells=1, _records=kept)
