"""Results made by hand."""

import numpy as np

from clhines.simulate.records.records import RecordColumns
from clhines.simulate.result import Result


def drawn(num_cells, spikes, v):
    """A result of `num_cells` cells with times and cells of spikes, and voltages of some somas."""
    v = np.asarray(v, float)
    t, first = np.arange(len(v), dtype=float), np.arange(v.shape[1])
    columns = RecordColumns("node", first, first if num_cells > 1 else None, first >= 0)
    when, cell = (np.asarray(a, kind) for a, kind in zip(spikes, (float, int), strict=True))
    return Result(
        t, [v], when, cell, {}, [t], {}, ("v",), ("v",), ("mV",), num_cells, _columns=(columns,)
    )
