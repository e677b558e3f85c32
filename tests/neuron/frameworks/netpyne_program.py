"""NetPyNE's LFP and membrane currents, by its own events in NEURON and by the switch.

NetPyNE 1.1 calls `ptr_update_callback` of PtrVector, which NEURON 9 lacks: the line of
`docs/howto/switch.md` adds it.
"""

import json

import numpy as np
from netpyne import sim, specs
from neuron import h

import clhines

h.PtrVector.ptr_update_callback = lambda self, function: None


def potentials(interval, details, electrodes=(0, 40, 90)):
    """Return spike times, LFP, and with `details` the LFP of parts and currents."""
    net, cfg = specs.NetParams(), specs.SimConfig()
    soma = {"geom": {"diam": 18, "L": 18, "Ra": 123}, "mechs": {"hh": {}}}
    dend = {"geom": {"diam": 2, "L": 150, "Ra": 150, "cm": 1, "nseg": 3},
            "topol": {"parentSec": "soma", "parentX": 1.0, "childX": 0},
            "mechs": {"pas": {"g": 1e-4, "e": -65}}}  # fmt: skip
    net.cellParams["E"] = {"secs": {"soma": soma, "dend": dend}}
    net.popParams["A"] = net.popParams["B"] = {"cellType": "E", "numCells": 2}
    net.synMechParams["exc"] = {"mod": "Exp2Syn", "tau1": 0.5, "tau2": 3, "e": 0}
    net.stimSourceParams["s"] = {"type": "NetStim", "rate": 200, "noise": 0.5}
    target = {"source": "s", "conds": {"cellType": "E"}, "weight": 0.02, "delay": 2}
    net.stimTargetParams["s"] = {**target, "synMech": "exc", "sec": "dend", "loc": 0.5}
    cfg.duration, cfg.dt, cfg.recordStep, cfg.recordTraces = 20, 0.025, interval, {}
    cfg.recordLFP = [[x, 60, 50] for x in electrodes]
    cfg.saveLFPPops = ["A"] if details else False
    cfg.saveLFPCells = cfg.saveIMembrane = details
    sim.initialize(net, cfg)
    for step in (sim.net.createPops, sim.net.createCells, sim.net.addStims, sim.setupRecording):
        step()
    sim.runSim()
    data = sim.simData
    values = [np.array(list(data["spkt"]))]
    if electrodes:
        values.append(data["LFP"])
    if details:
        values += [data["LFPPops"]["A"], data["LFPCells"][1], data["iMembrane"][2]]
    return [np.array(value) for value in values]


rows, steps = [], []
for case in ((0.1, False), (0.025, True), (0.04, False), (0.1, False, ())):
    truth = potentials(*case)
    with clhines.neuron.enable(when="always") as on:
        ours = potentials(*case)
    steps.append(on.steps)
    rows += [
        [a.shape == b.shape, float(np.abs(a - b).max() / np.abs(a).max())]
        for a, b in zip(truth, ours, strict=True)
    ]
print(json.dumps({"rows": rows, "steps": steps}))
