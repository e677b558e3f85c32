"""Compare code that a run calls with NEURON: ``statements_program.py ENGINE [PART]``.

The code belongs to CVode.event, or with the part "called" to NetCon.record and Vector.play.
"""

import json
import sys
import warnings
from functools import partial

import numpy as np
from kept_program import Net, assign, h, worst
from support.neuron_scripts import listed, refusal

import clhines
from clhines.neuron import kept

STOP = 12.0
cvode = h.CVode()
h("hoc_count = 0")


class Model(Net):
    """The ring, with a list of call times."""

    def __init__(self):
        super().__init__()
        self.stim.ranvar.set_ids(1, 2, 3)
        self.called = []

    def note(self):
        self.called.append(h.t)

    def again(self):
        self.called.append(h.t)
        cvode.event(h.t + 0.7, self.again)

    def stop(self):
        self.called.append(h.t)
        h.stoprun = 1

    def at(self, *times, call=None):
        """Schedule a call at some times, and note each of them."""
        for t in times:
            if call is not None:
                cvode.event(t, call)
            cvode.event(t, self.note)


CODE = {
    "note": lambda net: net.at(0, 0.01, 0.025, 3, 3.0125, 3.02, 7.77, 11.9999, 12, 12.4),
    "hoc": lambda net: (cvode.event(3.3, "hoc_count += t"), cvode.event(6, "hoc_count += 1")),
    "order": lambda net: net.at(3, 3, 7.01, 11, call=lambda: net.called.append(-h.t)),
    "again": lambda net: cvode.event(0.5, net.again),
    "clamp": lambda net: net.at(4, 8.01, call=lambda: assign(net.clamp, "amp", h.t / 20)),
    "voltage": lambda net: net.at(5.02, call=lambda: assign(net.dends[0](0.5), "v", -20)),
    "state": lambda net: net.at(6, call=lambda: assign(net.somas[2](0.5).hh, "m", 0.5)),
    "weight": lambda net: net.at(1, call=lambda: net.netcons[0].weight.__setitem__(0, 0.01)),
    "event": lambda net: net.at(6.01, call=lambda: net.netcons[2].event(h.t + 0.7)),
    "stop": lambda net: cvode.event(7.3, net.stop),
}  # fmt: skip


class Calling(Model):
    """A ring whose sources call code: two voltages, an artificial cell, and a Vector."""

    def __init__(self):
        super().__init__()
        somas = self.somas[:2]
        self.heard = [h.NetCon(s(0.5)._ref_v, None, -10, 1, 0, sec=s) for s in somas]
        self.heard.append(h.NetCon(self.stim, None))
        self.player, self.at_times = h.Vector([2, 3, 5]), h.Vector([2, 2.0125, 7.49])

    def seen(self):
        """Values in code: times, one that an event has just set, one that NEURON's step sets."""
        soma = self.somas[1](0.5)
        self.called += [h.t, soma.v, soma.hh.m, soma.ina, soma.i_cap, self.synapses[0].g]

    def each(self, call):
        for netcon in self.heard:
            netcon.record(call)

    def hush(self):
        for netcon in self.heard:
            netcon.record("")
        self.player.play_remove()

    def takes(self):
        self.seen()
        self.clamp.amp += 0.01
        self.netcons[2].weight[0] += 0.01

    def stops(self):
        self.seen()
        h.stoprun = h.t > 6


CALLED = {
    "sees": lambda net: net.each(net.seen),
    "hoc": lambda net: net.each("hoc_count += t"),
    "takes": lambda net: net.each(net.takes),
    "stops": lambda net: net.each(net.stops),
    "plays": lambda net: net.player.play("hoc_count += $1*t", net.at_times),
    "plays in steps": lambda net: net.player.play("hoc_count = $1*t", net.at_times, 1),
}  # fmt: skip


def ran(net, name, way):
    """Return the records of a model with such code, and its call times."""
    h.hoc_count, net.clamp.amp, net.netcons[0].weight[0] = 0, 0.2, 0.05
    net.netcons[2].weight[0] = 0.05
    net.called.clear()
    if isinstance(net, Calling):
        net.hush()
        handler = CALLED[name](net)
    else:
        handler = h.FInitializeHandler(partial(CODE[name], net))
    net.spikes.resize(0)
    h.finitialize(-65)
    net.stim.ranvar.set_seq(0)
    way()
    records = [*net.taken(), np.array([h.t, h.hoc_count]), np.array(net.called)]
    del handler
    return records


def by_psolve():
    pc = h.ParallelContext()
    pc.set_maxstep(10)
    pc.psolve(STOP)


def on(way, engine):
    with clhines.neuron.enable(engine=engine, strict=True) as enabled:
        way()
    assert enabled.steps, "by NEURON"


def plain():
    h.continuerun(STOP)


def compared(engine, net, codes, ways):
    """Compare the records of each code with NEURON's; also count its calls."""
    results, made = {}, []
    start = kept.KeptModel.start
    kept.KeptModel.start = lambda *words: (made.append(1), start(*words))[1]
    unchanged = ran(net, "hoc", plain)
    for name in codes:
        for way in ways:
            truth = ran(net, name, way)
            made.clear()
            got = ran(net, name, partial(on, way, engine))
            results[f"{name} {way.__name__}"] = {
                "worst": max(worst(a, b) for a, b in zip(truth, got, strict=True)),
                "effect": max(worst(a, b) for a, b in zip(truth[:4], unchanged[:4], strict=True)),
                "calls": len(truth[-1]) + int(truth[-2][1] > 0),
                "counts": [len(truth[-1]), len(got[-1])],
                "end": truth[-2][0],
                "sims": len(made),
            }
    return results


def refused():
    """Return the refusals for code with a point process, and from `from_neuron`."""
    net, lines = Model(), []
    handler = h.FInitializeHandler(lambda: cvode.event(3, "hoc_count = 1", net.clamp, 0))
    h.finitialize(-65)
    lines += map(str, clhines.neuron.check())
    handler = h.FInitializeHandler(lambda: cvode.event(3, "hoc_count = 1"))
    h.finitialize(-65)
    lines.append(listed())
    try:
        clhines.from_neuron()
    except clhines.InputError as error:
        lines.append(str(error).splitlines()[-1].strip())
    handler = h.FInitializeHandler(lambda: cvode.event(3, lambda: h.continuerun(20)))
    h.finitialize(-65)
    with clhines.neuron.enable(engine="reference", strict=True):
        try:
            h.continuerun(5)
        except RuntimeError as error:
            lines.append(type(error).__name__)
    del handler
    return lines


def left_to_neuron(engine, net):
    """Return NEURON's reasons to take a run with each code, whether all is equal, and the calls."""
    results = {}
    for name in CALLED:
        truth = ran(net, name, plain)
        with clhines.neuron.enable(engine=engine, when="always") as enabled:
            got = ran(net, name, plain)
        same = all(np.array_equal(a, b) for a, b in zip(truth, got, strict=True))
        results[name] = enabled.reasons, bool(same), len(truth[-1]) + int(truth[-2][1] > 0)
    return results


def finer(engine):
    """Compare runs in which code shortens the steps with NEURON; also return psolve's message."""
    net = Model()

    def halve():
        h.dt, h.steps_per_ms = 0.0125, 80

    def run(way):
        h.dt, h.steps_per_ms = 0.025, 40
        net.spikes.resize(0)
        h.finitialize(-65)
        net.stim.ranvar.set_seq(0)
        way()
        return [*net.taken(), np.array([h.t])]

    handler, said = h.FInitializeHandler(lambda: cvode.event(4.99, halve)), ""
    truth, got = run(plain), run(partial(on, plain, engine))
    said = refusal(run, partial(on, by_psolve, engine))
    del handler
    apart = max(worst(a, b) for a, b in zip(truth, got, strict=True))
    return {"worst": apart, "rows": len(truth[0]), "psolve": said}


WAYS = plain, by_psolve

if __name__ == "__main__":
    warnings.simplefilter("error")
    engine = sys.argv[1]
    if sys.argv[2:] == ["called"]:
        found = left_to_neuron(engine, Calling())
    elif sys.argv[2:] == ["finer"]:
        found = finer(engine)
    else:
        found = refused() if engine == "refused" else compared(engine, Model(), CODE, WAYS)
    print(json.dumps(found))
