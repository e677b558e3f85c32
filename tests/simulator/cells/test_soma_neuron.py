"""Somas with several segments against NEURON's import of real cells, HH in the whole soma."""

import numpy as np
import pytest
from import3d import deleted, h, imported
from real_cells import FOLDER, needs_folder

from bench.ring import G_PAS, ring_network
from clhines import Network, Simulation
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.swc import read_swc

pytestmark = pytest.mark.neuron

DT, V_INIT, E_PAS, DURATION, MAX_LENGTH = 0.025, -65.0, -65.0, 100.0, 20.0
PULSES = (5.0, 30.0, 55.0, 80.0), 2.0  # ms: when clamps begin, and how long they last
STEP = (1.0,), 50.0


def neuron_run(path, current, pulses):
    """Return spike times and v in the middle of a cell's first soma, which has the clamps."""
    cell = imported(path)
    middles = {s.parentseg().sec for s in cell.all if s.parentseg() and s.parentseg().x == 0.5}
    for section in cell.all:
        section.Ra, section.cm = 100.0, 1.0
        section.nseg = int(np.ceil(section.L / MAX_LENGTH))
        if section in middles or section is cell.soma[0]:
            section.nseg |= 1
        soma = section in cell.soma
        section.insert("hh" if soma else "pas")
        for segment in section if not soma else ():
            segment.pas.g, segment.pas.e = G_PAS, E_PAS
    at = cell.soma[0](0.5)
    clamps = [h.IClamp(at) for _ in pulses[0]]
    for clamp, begin in zip(clamps, pulses[0], strict=True):
        clamp.delay, clamp.dur, clamp.amp = begin, pulses[1], current
    counter, times, v = h.NetCon(at._ref_v, None, sec=at.sec), h.Vector(), h.Vector()
    counter.threshold = 10.0
    counter.record(times)
    v.record(at._ref_v)
    h.cvode.active(0)
    h.usetable_hh, h.celsius, h.secondorder, h.dt = 0, 6.3, 0, DT
    h.finitialize(V_INIT)
    for _ in range(round(DURATION / DT)):
        h.fadvance()
    try:
        return np.array(times), np.array(v)
    finally:
        deleted(cell)


def our_run(cable, queue, current, pulses, active="soma"):
    net = Network(cable)
    hh = net.insert("hh", at=active)
    rest = net.area > 0
    rest[hh.nodes] = False
    net.insert("pas", at=rest, g=G_PAS, e=E_PAS)
    net.add(
        "iclamp",
        at=np.repeat(net.soma, len(pulses[0])),
        delay=pulses[0],
        dur=pulses[1],
        amp=current,
    )
    simulation = Simulation(net, DT, queue=queue, v_init=V_INIT)
    simulation.record("v", net.soma)
    return simulation.run(DURATION), len(hh)


@needs_folder
@pytest.mark.parametrize(
    ("name", "current", "pulses", "segments", "spikes"),
    [
        ("mp_ma_40984_gc2.CNG.swc", 1.0, PULSES, 3, 4),  # one sample
        ("mp_ma_40984_gc2.CNG.swc", 0.5, STEP, 3, 5),
        ("BS0284.swc", 8.0, PULSES, 3, 4),  # 19 stacked samples
        ("P75-PFC-PL-V-CT.swc", 2.0, PULSES, 2, 4),  # a star: two sections with one segment
        ("dCH-cobalt.CNG.swc", 20.0, PULSES, 32, 4),  # branched, four sections
    ],
)
def test_spikes_of_a_real_cell(double_queue, name, current, pulses, segments, spikes):
    """Compare spikes and voltages with NEURON: they agree to about 1e-10 of 100 mV."""
    cable = discretise(read_swc(FOLDER / "good" / name), max_length=MAX_LENGTH)
    result, active = our_run(cable, double_queue, current, pulses)
    assert active == segments
    times, v = neuron_run(FOLDER / "good" / name, current, pulses)
    assert len(result.spike_time) == len(times) == spikes
    assert np.abs(result.spike_time - times).max() <= DT * (1 + 1e-6)
    assert np.abs(result[0][:, 0] - v).max() < 1e-6


@needs_folder
def test_the_middle_alone_is_seen(double_queue):
    """HH in one of three segments gives another number of spikes: the comparison detects it."""
    cable = discretise(read_swc(FOLDER / "good" / "mp_ma_40984_gc2.CNG.swc"), max_length=MAX_LENGTH)
    result, active = our_run(cable, double_queue, 0.5, STEP, "soma.middle")
    assert active == 1
    assert len(result.spike_time) == 1


@needs_folder
def test_ring_of_real_cells_is_active_in_all_of_the_soma():
    names = ["mp_ma_40984_gc2.CNG.swc", "P75-PFC-PL-V-CT.swc"]
    cables = [discretise(read_swc(FOLDER / "good" / name), max_length=MAX_LENGTH) for name in names]
    hh, pas, synapses = ring_network(cables).groups
    assert len(hh) == sum(cable.nseg[cable.sections.soma].sum() for cable in cables) == 5
    assert len(pas) == sum(cable.nseg[~cable.sections.soma].sum() for cable in cables)
    assert synapses.nodes.tolist() == [cables[0].soma, cables[0].num_nodes + cables[1].soma]
