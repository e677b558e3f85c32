"""Two engines and more in turn in one process: ``engine_turns.py DEVICE BYTES RUN [RUN ...]``.

DEVICE is an index pair, BYTES the width of vectors (0: the device's own), a RUN the name of a
model and an engine, ``texts:steps``. Print for each run the largest difference between its
voltages and the host's (NEURON or `reference`), and the range of the host's voltages (mV).
"""

import json
import sys

import numpy as np
from exact_cells import network as exact_network
from networks import DT, mixed_network

from clhines import Simulation
from clhines.solver.device import devices

STOP = 10.0  # ms


def neuron_model():
    """Return a soma with channels and a passive dendrite, in NEURON's memory."""
    from neuron import h

    soma, dendrite, *points = two_sections((1, 3, 0.3), 1, 0.002)
    recorded = [h.Vector().record(s._ref_v) for section in (soma, dendrite) for s in section]
    return recorded, [soma, dendrite, *points]


def two_sections(clamped, delay, weight):
    """Return a soma (hh), a passive dendrite, a clamp (delay, dur, amp), a synapse, a wire."""
    from neuron import h

    h.load_file("stdrun.hoc")
    soma, dendrite = h.Section(name="soma"), h.Section(name="dendrite")
    soma.L = soma.diam = 20
    dendrite.L, dendrite.diam, dendrite.nseg = 200, 2, 5
    soma.insert("hh")
    dendrite.insert("pas")
    dendrite.connect(soma(1))
    clamp, synapse = h.IClamp(soma(0.5)), h.ExpSyn(dendrite(0.5))
    clamp.delay, clamp.dur, clamp.amp = clamped
    connection = h.NetCon(soma(0.5)._ref_v, synapse, sec=soma)
    connection.delay, connection.weight[0] = delay, weight
    return soma, dendrite, clamp, synapse, connection


def in_neuron(models=[]):  # noqa: B006
    """Return voltages by the engine that `clhines.neuron.run` selects, or by NEURON itself."""
    from neuron import h

    import clhines.neuron

    models += [] if models else [neuron_model()]

    def run(engine, device):
        h.finitialize(-65)
        if engine == "reference":
            h.continuerun(STOP)
        else:
            clhines.neuron.run(STOP, engine=engine, device=device)
        return np.array(models[0][0])

    return run


def of_network(net, dt):
    def run(engine, device):
        sim = Simulation(net, dt, device=device, engine=engine, seed=7)
        record = sim.record("v", np.arange(net.forest.num_nodes))
        return sim.run(STOP)[record]

    return run


def main(index, width, *runs):
    models = {
        "texts": lambda: of_network(mixed_network()[0], DT),
        "mod": lambda: of_network(exact_network()[0], 0.05),
        "neuron": in_neuron,
    }
    device = dict(devices.all_devices())[index]
    if int(width):
        devices._vector_bytes = lambda device: (int(width), int(width))
    results, made = {}, {}
    for run in runs:
        model, engine = run.split(":")
        if model not in made:
            made[model] = models[model]()
        expected = made[model]("reference", None)
        difference = made[model](engine, device) - expected
        results[run] = float(np.abs(difference).max()), float(np.ptp(expected))
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
