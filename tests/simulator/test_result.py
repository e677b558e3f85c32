"""Results by name and as pictures."""

import numpy as np
import pytest
from networks import run, spiking

import clhines
from clhines import InputError, Simulation, discretise
from clhines.simulator.result import joined_result
from clhines.simulator.state.chunk import Chunk


@pytest.fixture
def cable():
    return discretise(clhines.sample_cells()[0])


def test_results_by_name(cable):
    net = spiking(cable)
    result = run(
        net, ("v", net.soma, {"name": "soma v"}), ("v", [0], {}), ("hh.m", net.soma, {"every": 0.5})
    )
    assert result.names == ("soma v", "v", "hh.m")
    assert result["soma v"] is result[0]
    assert result["hh.m"] is result[2]
    with pytest.raises(InputError, match=r"has no such record; expected soma v, v, hh\.m"):
        result["soma"]
    twice = run(net, ("v", net.soma, {}), ("v", [0], {}))
    with pytest.raises(InputError, match="has 2 records of this name; expected names"):
        twice["v"]
    sim = Simulation(net, engine="reference")
    sim.record("v", net.soma, name="a")
    for name, words in (
        ("a", "which another record has"),
        ("", "expected a text"),
        (1, "expected a text"),
    ):
        with pytest.raises(InputError, match=words):
            sim.record("v", net.soma, name=name)


def test_pictures_of_results_and_cables(cable, tmp_path):
    pytest.importorskip("matplotlib")
    net = spiking(cable, 12)
    result = run(net, ("v", net.soma, {}), ("hh.m", net.soma[:2], {}), duration=5.0)
    assert len(result.spike_time)
    raster, below = result.plot(path=tmp_path / "a.png").axes
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    assert result.plot("hh.m", ax=axes).axes == [axes] and axes.lines and axes.get_legend()
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert len(below.lines) == 10
    assert np.array_equal(below.lines[3].get_ydata(), result["v"][:, 3])
    assert below.get_ylabel() == "voltage [mV]"
    count = len(result.spike_time)
    title = f"{count} spike{'s' * (count != 1)} of 12 cells; 10 of 12 traces"
    assert raster.get_title(loc="left") == title
    below = result.plot("hh.m").axes[1]
    assert below.get_ylabel() == "hh.m"
    assert [line.get_label() for line in below.lines] == ["cell 0", "cell 1"]
    assert len(run(net).plot().axes[1].lines) == 0
    with pytest.raises(InputError, match="has no such record"):
        result.plot("w")
    figure = cable.plot()
    assert figure.axes[-1].get_ylabel() == "distance from the soma [µm]"
    drawn = figure.axes[0].collections[0].get_array()
    assert set(drawn) <= set(cable.distance)
    assert cable.plot(np.zeros(cable.num_nodes), "x").axes[-1].get_ylabel() == "x"


def test_order_of_equal_spike_times_does_not_depend_on_chunks():
    def spikes(*chunks):
        made = [Chunk.of(*map(np.array, chunk), 0.1, np.zeros(3, int), []) for chunk in chunks]
        result = joined_result(made, [], 0.1, (0, 30, 30), False, {}, 3, np.dtype("f8"))
        return result.spike_time.tolist(), result.spike_cell.tolist()

    expected = spikes(([0.5, 2.1, 2.1, 2.5], [1, 2, 0, 1]))
    assert expected == ([0.5, 2.1, 2.1, 2.5], [1, 0, 2, 1])
    assert spikes(([0.5, 2.1], [1, 2]), ([2.1, 2.5], [0, 1])) == expected
    assert spikes(([2.1, 2.5], [2, 1]), ([0.5, 2.1], [1, 0])) == expected
