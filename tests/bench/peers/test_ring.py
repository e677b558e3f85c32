"""The ring network in each simulator: the same cells, and reasons for missing rows."""

import sys

import numpy as np
import pytest

from bench.peers import arbor as arbor_peer
from bench.peers import neuron as neuron_peer
from bench.peers import ring as peer

TINY = peer.Case(3, 2, levels=2, compartments=2, duration=12.0, seconds=5.0, engine="reference")


@pytest.mark.neuron
def test_neuron_has_the_same_cells():
    """The peer's areas and resistances, and so its nodes, equal our cable's."""
    neuron = pytest.importorskip("neuron")
    for cable in TINY.cables():
        sections = neuron_peer.neuron_cell(neuron.h, cable, False)
        segments = [segment for section in sections for segment in section]
        membrane = np.flatnonzero(cable.area)
        np.testing.assert_allclose([s.area() for s in segments], cable.area[membrane], rtol=1e-12)
        ours = 1 / cable.g_axial[membrane[1:]]
        np.testing.assert_allclose([s.ri() for s in segments[1:]], ours, rtol=1e-12)


def test_arbor_has_as_many_compartments():
    arbor = pytest.importorskip("arbor")
    for cable in TINY.cables():
        volumes = arbor.cv_data(arbor_peer.arbor_cell(arbor, cable, False)).num_cv
        forks = np.bincount(cable.sections.parent[1:]) > 1
        assert volumes == cable.nseg.sum() + forks.sum()


def test_peers_that_fail_have_a_reason(monkeypatch):
    def fails(case):
        raise RuntimeError("a broken library\nwith a long story")

    monkeypatch.setattr(neuron_peer, "neuron", fails)
    result = peer.run("NEURON", TINY)
    assert result["reason"] == "RuntimeError: a broken library"
    assert (result["name"], result["cells"]) == ("NEURON", 3)


def test_a_simulator_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "arbor", None)
    assert peer.run("Arbor", TINY)["reason"].startswith("not installed: ")
