"""Adapters against the packages that they are for; each test runs where its package is."""

import importlib.util

import numpy as np
import pytest

import clhines
from clhines import InputError


@pytest.fixture(scope="module")
def simulated():
    """A ring of five cells that fires, with voltages and a state recorded; run by the reference."""
    cables = clhines.ring.ring_cables(2)
    net = clhines.ring.ring_network(cables, 5)
    sim = clhines.Simulation(net, dt=0.025, engine="reference")
    v = sim.record("v", net.soma)
    result = sim.run(20.0)
    assert len(result.spike_time) > 2
    return net, v, result, sim


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


def test_neo(simulated):
    neo = pytest.importorskip("neo")
    import clhines.simulator.analysis.neo as adapter

    net, v, result, sim = simulated
    segment = adapter.segment(result, net.num_cells, units={v: "mV"})
    assert isinstance(segment, neo.Segment)
    assert [train.annotations["cell"] for train in segment.spiketrains] == [0, 1, 2, 3, 4]
    for cell, train in enumerate(segment.spiketrains):
        mine = result.spike_time[result.spike_cell == cell]
        np.testing.assert_array_equal(train.rescale("ms").magnitude, mine)
        assert float(train.t_stop.rescale("ms")) == result.t[-1]
    (signal,) = segment.analogsignals
    np.testing.assert_array_equal(signal.rescale("mV").magnitude, result[v])
    np.testing.assert_allclose(signal.times.rescale("ms").magnitude, result.t, rtol=0, atol=1e-11)
    assert len(adapter.segment(result, net.num_cells).analogsignals) == 0
    later = sim.run(5.0)  # its times begin where the first run ended
    again = adapter.segment(later, net.num_cells, units={v: "mV"})
    times = again.analogsignals[0].times.rescale("ms").magnitude
    np.testing.assert_allclose(times, later.t, rtol=0, atol=1e-11)
    for unit in ("mVV", "mV.__class__", "__import__('os')", "mV**9999", 5):
        with pytest.raises(InputError, match="units is"):
            adapter.segment(result, net.num_cells, units={v: unit})
    adapter.segment(result, net.num_cells, units={v: "mA/cm**2"})
    with pytest.raises(InputError, match="num_cells is 1; expected more than"):
        adapter.segment(result, 1)
    with pytest.raises(InputError, match="record is 7"):
        adapter.segment(result, 5, units={7: "mV"})


def test_sonata(simulated, tmp_path):
    pytest.importorskip("h5py")
    libsonata = pytest.importorskip("libsonata")
    import clhines.simulator.analysis.sonata as adapter

    *_, result, _ = simulated
    path = tmp_path / "spikes.h5"
    adapter.write_spikes(result, path, "ring")
    reader = libsonata.SpikeReader(str(path))
    assert reader.get_population_names() == ["ring"]
    population = reader["ring"]
    assert population.sorting == "by_time"
    assert population.time_units == "ms"
    expected = list(zip(result.spike_cell.tolist(), result.spike_time.tolist(), strict=True))
    assert [(int(cell), time) for cell, time in population.get()] == expected
    some = population.get(node_ids=[1], tstart=0.0, tstop=20.0)
    assert [time for _, time in some] == [time for cell, time in expected if cell == 1]
    with pytest.raises(InputError, match="population is 'a/b'; expected a name without"):
        adapter.write_spikes(result, path, "a/b")
    assert list(tmp_path.iterdir()) == [path]


def test_sonata_without_spikes(simulated, tmp_path):
    pytest.importorskip("h5py")
    libsonata = pytest.importorskip("libsonata")
    from types import SimpleNamespace

    import clhines.simulator.analysis.sonata as adapter

    none = SimpleNamespace(spike_time=np.zeros(0), spike_cell=np.zeros(0, np.int64))
    adapter.write_spikes(none, tmp_path / "none.h5")
    assert libsonata.SpikeReader(str(tmp_path / "none.h5"))["cells"].get() == []
    late = SimpleNamespace(spike_time=np.array([2.0, 1.0]), spike_cell=np.zeros(2, np.int64))
    with pytest.raises(InputError, match="spike_time descends"):
        adapter.write_spikes(late, tmp_path / "late.h5")


def test_sonata_reports(simulated, tmp_path):
    """What libsonata reads is what was recorded: all steps, and some of several places."""
    pytest.importorskip("h5py")
    libsonata = pytest.importorskip("libsonata")
    import clhines.simulator.analysis.sonata as adapter

    net, v, result, _ = simulated
    path = tmp_path / "soma.h5"
    adapter.write_report(result, v, path, cells=[4, 0, 2, 1, 3], population="ring")
    reader = libsonata.ElementReportReader(str(path))
    assert reader.get_population_names() == ["ring"]
    report = reader["ring"]
    assert report.sorted and report.data_units == "mV" and report.time_units == "ms"
    # the reader computes in float64 and returns float32
    first, stop, step = report.times
    assert (first, stop) == pytest.approx((0.0, 20.025)) and step == pytest.approx(0.025)
    read = report.get(node_ids=libsonata.Selection([0, 4]))
    assert read.ids.tolist() == [[0, 0], [4, 0]]
    np.testing.assert_array_equal(read.data, result[v][:, [1, 0]].astype(np.float32))
    np.testing.assert_allclose(read.times, result.t, rtol=1e-6)

    sim = clhines.Simulation(net, dt=0.025, engine="reference")
    nodes = net.forest.cell_offsets[:2, None] + [5, 0, 3]
    some = sim.record("v", nodes.reshape(-1), every=0.5)
    largest = sim.record("v", nodes.reshape(-1), reduce="max")
    later = sim.run(5.0)
    given = np.repeat([0, 1], 3), np.tile([5, 0, 3], 2)
    adapter.write_report(later, some, path, *given)
    report = libsonata.ElementReportReader(str(path))["cells"]
    read = report.get(node_ids=libsonata.Selection([1]), tstart=1.0, tstop=2.0)
    assert read.ids.tolist() == [[1, 5], [1, 0], [1, 3]]
    np.testing.assert_allclose(read.times, [1.0, 1.5, 2.0])
    np.testing.assert_array_equal(read.data, later[some][2:5, 3:].astype(np.float32))

    wrong = [
        ((some, path, [0, 1]), r"cells is int64 of shape \(2,\); expected \(6,\) whole numbers"),
        ((some, path, [0.5] * 6), "cells is float64"),
        ((some, path, [-1, 0, 0, 0, 0, 0]), "cells is -1 to 0; expected 0 to"),
        ((largest, path, given[0]), "expected one without reduce"),
        ((7, path, given[0]), "record is 7"),
    ]
    for arguments, text in wrong:
        with pytest.raises(InputError, match=text):
            adapter.write_report(later, *arguments)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore")  # eFEL's own, of features that a trace does not have
def test_efel(simulated):
    """What eFEL says of simulated voltages is what `clhines.simulator.analysis` says."""
    efel = pytest.importorskip("efel")
    import clhines.simulator.analysis.efel as adapter

    _, v, result, _ = simulated
    efel.reset()
    efel.set_setting("interp_step", 0.025)
    names = ["spike_count", "peak_voltage", "minimum_voltage", "AP_amplitude"]
    given = {"stim_start": 1.0, "stim_end": 20.0}
    found = adapter.features(result[v].T, result.t, names, **given)
    ours = clhines.analysis.extract(result[v].T, result.t, names[:3], **given)
    assert [int(one["spike_count"][0]) for one in found] == ours["spike_count"].tolist()
    for k, one in enumerate(found):
        if one["spike_count"][0]:
            np.testing.assert_allclose(ours["peak_voltage"][k], one["peak_voltage"], rtol=1e-9)
            assert 20 < one["AP_amplitude"][0] < 150  # mV; one that only eFEL has
        lowest = one["minimum_voltage"][0]
        np.testing.assert_allclose(ours["minimum_voltage"][k], lowest, rtol=1e-9)
    efel.reset()


def test_rows_of_every(simulated, tmp_path):
    """Tables and signals have the times of their record."""
    net = simulated[0]
    sim = clhines.Simulation(net, dt=0.025, engine="reference")
    v, some = sim.record("v", net.soma), sim.record("v", net.soma, every=0.5)
    gone = sim.record("v", net.soma, to=tmp_path / "rows.npz")
    result = sim.run(2.0)
    if importlib.util.find_spec("pandas") is not None:
        import clhines.simulator.analysis.pandas as tables

        table = tables.record(result, some)
        assert table.index.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
        np.testing.assert_array_equal(table.to_numpy(), result[v][::20])
        with pytest.raises(InputError, match="without reduce and to"):
            tables.record(result, gone)
    if importlib.util.find_spec("neo") is not None:
        import clhines.simulator.analysis.neo as signals

        made = signals.segment(result, net.num_cells, units={some: "mV"})
        (signal,) = made.analogsignals
        np.testing.assert_array_equal(signal.magnitude, result[v][::20])
        times = signal.times.rescale("ms").magnitude
        np.testing.assert_allclose(times, [0.0, 0.5, 1.0, 1.5, 2.0], rtol=0, atol=1e-11)


def test_sonata_replaces_no_file(simulated, tmp_path):
    pytest.importorskip("h5py")
    import clhines.simulator.analysis.sonata as adapter

    *_, result, _ = simulated
    path = tmp_path / "kept.h5"
    path.write_bytes(b"another's")
    for write in (
        lambda: adapter.write_spikes(result, path),
        lambda: adapter.write_report(result, 0, path, cells=np.arange(result[0].shape[1])),
    ):
        with pytest.raises(InputError, match="kept.h5 is there already; expected another name"):
            write()
    assert path.read_bytes() == b"another's"
