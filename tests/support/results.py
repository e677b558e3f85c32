"""Results made by hand."""

import numpy as np

from clhines.simulator.records.columns import RecordColumns
from clhines.simulator.records.records import VOLTAGE, Record
from clhines.simulator.result import Result


def drawn(num_cells, spikes, v):
    """A result of `num_cells` cells with times and cells of spikes, and voltages of some somas."""
    v = np.asarray(v, float)
    first = np.arange(v.shape[1])
    columns = RecordColumns("node", first, first if num_cells > 1 else None, first >= 0)
    when, cell = (np.asarray(a, kind) for a, kind in zip(spikes, (float, int), strict=True))
    record = Record("v", VOLTAGE, first, label="v", unit="mV", columns=columns)
    return Result([v], when, cell, {}, {}, num_cells, [record], (0, len(v) - 1), 1.0)


def recorded(spikes, records):
    """A result of one cell and five steps, with records of its soma.

    A record is a name, a variable, a unit and the number of steps between rows; 0: no rows.
    """
    soma = RecordColumns("node", np.zeros(1, int), None, np.ones(1, bool))
    kept, values = [], []
    for name, variable, unit, every in records:
        rows = {"every": every} if every else {"reduce": "max"}
        record = Record(variable, VOLTAGE, soma.number, label=name, unit=unit, columns=soma, **rows)
        kept.append(record)
        values.append(np.ones((len(record.steps(0, 4)), 1)) if every else np.ones(1))
    when, cell = (np.asarray(a, kind) for a, kind in zip(spikes, (float, int), strict=True))
    return Result(values, when, cell, {}, {}, 1, kept, (0, 4), 1.0)
