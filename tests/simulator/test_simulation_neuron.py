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


@pytest.mark.parametrize("engine", ["steps", "epochs"])
def test_ring(double_queue, engine):
    cables, duration, delay, weight = branching_cells(16), 200.0, 5.0, 0.05
    net = our_network(cables)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    cells = np.arange(16)
    net.connect(cells, syn, (cells + 1) % 16, weight, delay)
    net.add_event(syn, 0, 1.0, weight)
    net.threshold = 10.0
    result = Simulation(net, DT, queue=double_queue, engine=engine).run(duration)

    theirs, kept = [], []
    times = h.Vector()
    ids = h.Vector()
    built = [neuron_cell(cable) for cable in cables]
    synapses = [h.ExpSyn(soma) for _, soma, _ in built]
    for cell, (_, soma, _) in enumerate(built):
        synapses[cell].tau, synapses[cell].e = 2.0, 0.0
        con = h.NetCon(soma._ref_v, synapses[(cell + 1) % 16], sec=soma.sec)
        con.threshold, con.delay, con.weight[0] = 10.0, delay, weight
        con.record(times, ids, cell)
        kept.append(con)
    stim = h.NetStim()
    stim.number, stim.start, stim.noise = 1, 0.0, 0
    first = h.NetCon(stim, synapses[0])
    first.delay, first.weight[0] = 1.0, weight
    initialise(0)
    for _ in range(round(duration / DT)):
        h.fadvance()
    theirs = sorted(zip(times, map(int, ids), strict=True))
    assert len(theirs) >= 16
    assert result.spike_cell.tolist() == [cell for _, cell in theirs]
    assert np.abs(result.spike_time - [t for t, _ in theirs]).max() <= DT * (1 + 1e-6)
