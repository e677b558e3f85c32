"""The ring network: its cells, mechanisms, connections and spikes."""

import re

import numpy as np
import pytest
import results

from bench.cells import ring_cell
from bench.ring import DELAY, START, ring_cables, ring_network
from clhines import InputError, Simulation
from clhines.simulator.analysis import draw
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.sections import sections_of
from clhines.simulator.model import compile

SMALL = {"levels": 3, "branching_probability": 0.5, "compartments": 3}


def test_compartments_of_a_branch():
    for k, cable in enumerate(ring_cables(5, levels=4, compartments=7, seed=3)):
        cell = ring_cell(4, 0.5, 7, np.random.default_rng([3, k]), stems=2)
        assert cable.nseg[0] == 1 and (cable.nseg[1:] % 7 == 0).all()
        branches = (len(cell.parent) - 1 - 2) // 7  # each stem has a sample more, the soma one
        assert cable.nseg.sum() == 1 + 7 * branches
        assert np.count_nonzero(cable.area) == cable.nseg.sum()


def test_cells_differ_and_their_number_changes_none():
    few, many = ring_cables(2, **SMALL, seed=1), ring_cables(6, **SMALL, seed=1)
    for a, b in zip(few, many):
        np.testing.assert_array_equal(a.parent, b.parent)
        np.testing.assert_array_equal(a.g_axial, b.g_axial)
    assert len({cable.parent.tobytes() for cable in many}) > 2
    other = ring_cables(1, **SMALL, seed=2)[0]
    assert not np.array_equal(other.g_axial, few[0].g_axial)


def test_usual_size():
    sizes = [cable.nseg.sum() for cable in ring_cables(64)]
    assert 250 < np.mean(sizes) < 350


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_shapes": 0}, "num_shapes is 0"),
        ({"num_shapes": 1.5}, "num_shapes is 1.5"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_cells(given, said):
    with pytest.raises(InputError, match=re.escape(said)):
        ring_cables(**{"num_shapes": 1, **given})


def test_discretise_by_number():
    sections = sections_of(ring_cell(3, 0.5, 4, 0))
    by_length = discretise(sections, max_length=20.0)
    same = discretise(sections, nseg=by_length.nseg)
    np.testing.assert_array_equal(same.parent, by_length.parent)
    np.testing.assert_array_equal(same.g_axial, by_length.g_axial)
    np.testing.assert_array_equal(same.area, by_length.area)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda n: n[:-1], "nseg has shape"),
        (lambda n: n * 1.0, "dtype float64"),
        (lambda n: np.where(np.arange(len(n)) == 2, 0, n), "nseg of section 2 is 0"),
        (lambda n: n + 1, "nseg of section 0, a soma, is 2; expected an odd number"),
    ],
)
def test_bad_numbers_of_segments(change, said):
    sections = sections_of(ring_cell(3, 1.0, 4, 0))
    nseg = np.ones(sections.num_sections, int)
    with pytest.raises(InputError, match=re.escape(said)):
        discretise(sections, nseg=change(nseg))


@pytest.mark.parametrize("hh", ["soma", "all"])
def test_what_it_is_made_of(hh):
    cables = ring_cables(3, **SMALL)
    network = ring_network(cables, 7, hh=hh, weight=0.02, delay=2.0)
    membrane = int(np.count_nonzero(network.area))
    result = {group.mechanism.name: len(group) for group in network.groups}
    passive = {"pas": membrane - 7} if hh == "soma" else {}
    assert result == {"hh": 7 if hh == "soma" else membrane, **passive, "expsyn": 7}
    connections = compile(network).connections
    order = np.argsort(connections.source)
    np.testing.assert_array_equal(connections.source[order], np.arange(7))
    np.testing.assert_array_equal(connections.target[order], (np.arange(7) + 1) % 7)
    np.testing.assert_array_equal(connections.weight, 0.02)
    np.testing.assert_array_equal(connections.delay, 80)


def test_bad_network():
    with pytest.raises(InputError, match="hh='none'; expected 'soma' or 'all'"):
        ring_network(ring_cables(1, **SMALL), hh="none")


@pytest.mark.parametrize("hh", ["soma", "all"])
def test_the_event_goes_round(hh):
    network = ring_network(ring_cables(2, **SMALL), 3, hh=hh)
    result = Simulation(network, engine="reference").run(30.0)
    count = len(result.spike_time)
    assert count >= 3
    np.testing.assert_array_equal(result.spike_cell, np.arange(count) % 3)
    assert START < result.spike_time[0] < START + 5.0
    gap = np.diff(result.spike_time)
    assert (gap > DELAY).all() and (gap < DELAY + 5.0).all()


@pytest.mark.parametrize("spikes", [0, 3])
def test_picture(tmp_path, spikes):
    pytest.importorskip("matplotlib")
    when, cell = np.linspace(1.0, 9.0, spikes), np.arange(spikes)
    path, result = tmp_path / "ring.svg", results.drawn(4, (when, cell), np.zeros((5, 2)))
    raster, below = draw.plot_result(result, title="a ring", path=path).axes
    points = raster.collections[0].get_offsets()
    np.testing.assert_allclose(points, np.stack((when, cell), 1))
    assert [text.get_text() for text in raster.texts] == ([] if spikes else ["no spikes"])
    assert [line.get_label() for line in below.lines] == ["cell 0", "cell 1"]
    assert "</svg>" in path.read_text("utf-8")
    for plot in (draw.plot_result, draw.plot_raster, draw.plot_traces):
        with pytest.raises(InputError, match=r"ring\.txt cannot be drawn"):
            plot(result, path=tmp_path / "ring.txt")
