"""Compare a model in a field with NEURON's `extracellular`; print the differences.

``field_program.py PATH``: the network is written to this path in between.
"""

import json
import sys

import numpy as np
from neuron import h

import clhines

h.load_file("stdrun.hoc")
T, Y, STEPS = [0, 0.5, 0.5, 1, 1, 9], [0, 0, 1, 1, 0, 0], 200
XG = 1e12  # S/cm²: the potential outside is e_extracellular to 1e-12 mV for each mA/cm²


def main(path):
    sections = [h.Section(name=name) for name in "abc"]
    shapes = (60, 10, 3), (300, 2, 7), (200, 1.5, 5)
    for section, shape in zip(sections, shapes, strict=True):
        section.L, section.diam, section.nseg = shape
        section.insert("hh")
    sections[1].connect(sections[0](1))
    sections[2].connect(sections[1](0.5))
    h.usetable_hh, h.celsius, h.dt = 0, 10, 0.025
    h.finitialize(-65)
    model = clhines.from_neuron()
    segments = [segment for section in sections for segment in section]
    nodes = np.array([int(model[segment]) for segment in segments])
    model.simulation.network.save(path)

    net = clhines.Network.load(path)
    potential = np.zeros(net.forest.num_nodes)  # at section ends any will do
    potential[nodes] = np.random.default_rng(1).uniform(-30, 30, len(nodes))
    net.field(potential, (T, Y))
    sim = clhines.Simulation(net, h.dt, v_init=-65.0)
    number = sim.record("v", nodes)
    ours = sim.run(STEPS * h.dt)[number][1:]

    kept = [h.Vector(T)]
    for section in sections:
        section.insert("extracellular")
    for segment, size in zip(segments, potential[nodes].tolist(), strict=True):
        segment.xg[0] = segment.xg[1] = XG
        kept.append(h.Vector(Y).mul(size))
        kept[-1].play(segment._ref_e_extracellular, kept[0], True)
    h.finitialize(-65)
    rows = []
    for _ in range(STEPS):
        h.fadvance()
        rows.append([segment.v for segment in segments])
    theirs = np.array(rows)
    moved = float(np.ptp(theirs[:30]))
    print(json.dumps({"voltages": float(np.abs(ours - theirs).max()), "moved": moved}))


if __name__ == "__main__":
    main(sys.argv[1])
