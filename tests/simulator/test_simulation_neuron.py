"""Whole simulations against NEURON, with the same sections, mechanisms, dt and order of a step."""

import numpy as np
import pytest
from neuron_cells import h, neuron_sections, set_segments

from bench.cells import ring_cell
from clhines import Network, Simulation
from clhines.simulator.cells.cable import discretise

pytestmark = pytest.mark.neuron

DT, V_INIT, G_PAS, E_PAS = 0.025, -65.0, 1e-4, -65.0


def branching_cells(count):
    cells = [ring_cell(4, 0.6, 4, seed=k, stems=2 + k % 2) for k in range(count)]
    return [discretise(cell, max_length=40.0) for cell in cells]


def neuron_cell(cable):
    """Return sections with HH in the soma, passive elsewhere; the soma's segment, all by node."""
    sections = neuron_sections(cable)
    set_segments(sections, cable.nseg, g=G_PAS, e=E_PAS)
    segments = {
        int(cable.first_node[s]) + k: segment
        for s, section in enumerate(sections)
        for k, segment in enumerate(section)
    }
    soma = segments[cable.soma]
    soma.pas.g = 0
    sections[0].insert("hh")
    assert sections[0].nseg == 1  # hh is at one node only
    return sections, soma, segments


def our_network(cables, num_cells=None):
    net = Network(cables, num_cells)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=G_PAS, e=E_PAS)
    return net


def initialise(secondorder):
    h.cvode.active(0)
    h.usetable_hh = 0
    h.celsius = 6.3
    h.secondorder = secondorder
    h.dt = DT
    h.finitialize(V_INIT)


@pytest.mark.parametrize(
    ("engine", "secondorder"),
    [("reference", False), ("reference", True), ("steps", False), ("epochs", False)],
)
def test_voltages_of_one_cell(double_queue, engine, secondorder):
    (cable,) = branching_cells(1)
    duration, every, pulses = 100.0, 8, [5.0, 30.0, 55.0, 80.0]
    net = our_network(cable)
    net.add("iclamp", at=np.repeat(net.soma, 4), delay=pulses, dur=2.0, amp=0.6)
    sim = Simulation(
        net, DT, queue=double_queue, engine=engine, secondorder=secondorder, v_init=V_INIT
    )
    sim.record("v", np.arange(cable.num_nodes))
    result = sim.run(duration)

    sections, soma, segments = neuron_cell(cable)
    clamps = [h.IClamp(soma) for _ in pulses]
    for clamp, begin in zip(clamps, pulses, strict=True):
        clamp.delay, clamp.dur, clamp.amp = begin, 2.0, 0.6
    initialise(2 if secondorder else 0)
    theirs = []
    for step in range(round(duration / DT)):
        h.fadvance()
        if step % every == every - 1:
            theirs.append([segments[node].v for node in segments])
    ours = result[0][every::every][:, list(segments)]
    assert len(result.spike_time) == len(pulses)
    assert np.abs(ours - theirs).max() < 1e-6
    assert len(sections) > 10
