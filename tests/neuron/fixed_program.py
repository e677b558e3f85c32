"""Compare fixed steps of a model that turns on CVode's variable steps with NEURON's fixed steps."""

import json
import sys
import warnings

import numpy as np
from kept_program import Net, h, worst
from support.neuron_scripts import refusal

import clhines

STEP, STOP = 0.05, 12.0
cvode, pc = h.CVode(), h.ParallelContext()


def taken(net, more, way):
    net.stim.ranvar.set_ids(1, 2, 3)
    net.stim.ranvar.set_seq(0)
    way()
    return [*net.taken(), *(np.array(v) for v in more), np.array([h.t])]


def compared(engine):
    """Compare fixed steps here, and NEURON's variable steps, with NEURON's fixed steps."""
    net = Net()
    soma, dend = net.somas[1](0.5), net.dends[1](0.5)
    amp, times = h.Vector([0, 0.3, 0.1, 0.1]), h.Vector([0, 4, 8, 1e9])
    amp.play(net.clamp._ref_amp, times, True)
    steps = h.Vector([0, 3.3, 6.6])
    level = h.Vector([-60, -70, -55])
    level.play(dend.pas._ref_e, steps)
    given = h.Vector([1, 3.33, 9])
    more = [h.Vector().record(h._ref_t), h.Vector().record(soma.hh._ref_m)]
    more += [h.Vector().record(dend._ref_v, 0.1), h.Vector().record(soma._ref_v, given)]
    handler = h.FInitializeHandler(lambda: setattr(net.dends[2](0.5), "v", -50))

    def own():
        h.dt, h.steps_per_ms, h.tstop = STEP, 1 / STEP, STOP
        h.run()

    def variable():
        h.cvode_active(1)
        h.run()

    def by_run():
        h.stdinit()
        clhines.neuron.run(STOP, engine=engine, fixed_step=STEP)

    def by_switch():
        h.cvode_active(1)
        with clhines.neuron.enable(engine=engine, fixed_step=STEP, strict=True):
            h.run()

    def again():
        with clhines.neuron.enable(engine=engine, strict=True):
            h.run()

    truth, differences = taken(net, more, own), {}
    for way in (variable, by_run, by_switch, again):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = taken(net, more, way)
        differences[way.__name__] = {
            "worst": max(worst(a, b) for a, b in zip(truth, got, strict=True)),
            "active": int(cvode.active()),
            "warnings": [str(w.message) for w in caught],
        }
    differences["spikes"] = len(truth[4])
    differences["refused"] = []
    h.cvode_active(1)
    h.stdinit()
    for step in (None, 0, -1, "x", STEP):
        if step == STEP:
            h.fadvance()
        differences["refused"].append(refusal(clhines.neuron.run, STOP, fixed_step=step))
    h.stdinit()
    h.dt = 3 * STOP
    differences["in_no_step"] = [refusal(switched, way) for way in (h.continuerun, pc.psolve)]
    del handler
    return differences


def switched(way):
    with clhines.neuron.enable(strict=True):
        way(STOP)


if __name__ == "__main__":
    print(json.dumps(compared(sys.argv[1])))
