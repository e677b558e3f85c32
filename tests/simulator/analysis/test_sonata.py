"""Spikes and reports in SONATA files, as libsonata reads them."""

import numpy as np
import pytest

import clhines
from clhines import InputError


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
