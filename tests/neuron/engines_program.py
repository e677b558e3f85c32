"""Compare two cells with synapses, in NEURON and by an engine; print the differences.

``engines_program.py memory|texts ENGINE DTYPE LIBRARY``: read from NEURON's memory, with channels
of the .mod files of LIBRARY, or built here from texts.
"""

import json
import sys

import numpy as np
from neuron import h
from support.neuron_scripts import with_values

import clhines

STOP, NSEG, DELAY, WEIGHT, TAU = 20.0, 5, 1.0, 0.02, 1.0
AMP = 1.0  # nA
FILES = {"na": 2e-4, "ext_ca": 1e-4, "ext_kca": 1e-3}  # densities, S/cm2


def build(files):
    cells = [h.Section(name=f"cell{k}") for k in range(2)]
    for cell in cells:
        cell.nseg, cell.L, cell.diam, cell.Ra = NSEG, 300, 4, 100
        cell.insert("hh")
        if files:
            cell.insert("ext_cad")
            for name, density in FILES.items():
                cell.insert(name)
                for segment in cell:
                    setattr(segment, f"gbar_{name}", density)
    clamp = with_values(h.IClamp(cells[0](0.1)), delay=1, dur=12, amp=AMP)
    synapses = [h.ExpSyn(cell(0.5)) for cell in cells]
    for synapse in synapses:
        synapse.tau = TAU
    if files:
        synapses.append(h.ext_nmda(cells[1](0.9)))
    kept, times, ids = [cells, clamp, synapses], h.Vector(), h.Vector()
    for k, synapse in enumerate(synapses):
        source = cells[1 - k % 2]
        connection = h.NetCon(source(0.1)._ref_v, synapse, -10, DELAY, WEIGHT, sec=source)
        if k == 2:
            connection.weight[1] = 0.5
        if k < 2:
            connection.record(times, ids, k)
        kept.append(connection)
    return cells, kept, times


def by_texts(cells, engine, dtype):
    segments = [segment for cell in cells for segment in cell]
    n = len(segments)
    parent = np.where(np.arange(n) % NSEG, np.arange(n) - 1, -1)
    axial = [1 / s.ri() if p >= 0 else 0.0 for s, p in zip(segments, parent)]
    area = np.array([s.area() for s in segments])
    offsets = NSEG * np.arange(3)
    net = clhines.Network.from_arrays(parent, offsets, area, axial, 1e-5 * area)
    net.insert("hh", np.arange(n))
    middle = offsets[:2] + NSEG // 2
    net.add("iclamp", at=[0], delay=1.0, dur=12.0, amp=AMP)
    synapses = net.add("expsyn", at=middle, tau=TAU, e=0.0)
    net.threshold = -10.0
    net.connect([1, 0], synapses, [0, 1], weight=WEIGHT, delay=DELAY)
    return clhines.Simulation(net, h.dt, dtype, engine=engine), middle


def main(model, engine, dtype, library):
    h.load_file("stdrun.hoc")
    files = model == "memory"
    if files:
        h.nrn_load_dll(library)
    cells, _kept, times = build(files)
    h.usetable_hh = int(files)
    voltages = [h.Vector().record(cell(0.5)._ref_v) for cell in cells]
    h.finitialize(-65)
    h.continuerun(STOP)
    theirs, truth = sorted(times), np.array([np.array(v) for v in voltages])
    if files:
        h.finitialize(-65)
        clhines.neuron.run(STOP, engine=engine, dtype=dtype)
        ours, traces = sorted(times), np.array([np.array(v) for v in voltages])
        used = clhines.from_neuron(engine=engine, dtype=dtype).simulation.engine
    else:
        sim, middle = by_texts(cells, engine, dtype)
        number = sim.record("v", middle)
        result = sim.run(STOP)
        ours, traces, used = result.spike_time.tolist(), result[number].T, sim.engine
    print(json.dumps({
        "engine": used, "dt": h.dt, "theirs": theirs, "ours": sorted(ours),
        "apart": float(np.abs(traces - truth).max()),
    }))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
