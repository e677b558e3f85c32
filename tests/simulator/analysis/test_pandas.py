"""Results as tables of pandas."""

import numpy as np
import pytest

from clhines import InputError


def test_pandas(simulated):
    pandas = pytest.importorskip("pandas")
    import clhines.simulator.analysis.pandas as adapter

    net, v, result, _ = simulated
    table = adapter.spikes(result)
    assert isinstance(table, pandas.DataFrame)
    assert table.dtypes.astype(str).to_dict() == {"time": "float64", "cell": "int64"}
    np.testing.assert_array_equal(table["time"], result.spike_time)
    np.testing.assert_array_equal(table["cell"], result.spike_cell)
    first = table.groupby("cell")["time"].min()
    for cell in first.index:
        assert first[cell] == result.spike_time[result.spike_cell == cell][0]
    names = [f"soma {c}" for c in range(net.num_cells)]
    record = adapter.record(result, v, names)
    assert record.index.name == "time" and list(record.columns) == names
    np.testing.assert_array_equal(record.to_numpy(), result[v])
    np.testing.assert_array_equal(record.index, result.t)
    with pytest.raises(InputError, match="columns has 1 names; expected 5"):
        adapter.record(result, v, ["one"])
    with pytest.raises(InputError, match="record is 3; expected a whole number, at most 0"):
        adapter.record(result, 3)
