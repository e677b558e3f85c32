"""Code that CVode.event runs in a run, here and in NEURON: ``statements_program.py ENGINE``."""

import json
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.kept_program import Net, assign, h, worst

import clhines
from clhines.neuron import kept

STOP = 12.0
cvode = h.CVode()
h("hoc_count = 0")


class Model(Net):
    """The ring, with a list of times at which code has run."""

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
        """Let code run at some times: the call, and a note of when."""
        for t in times:
            if call is not None:
                cvode.event(t, call)
            cvode.event(t, self.note)


CODE = {
    "note": lambda net: net.at(0, 0.01, 0.025, 3, 3.0125, 3.02, 7.77, 11.9999, 12, 12.4),
    "hoc": lambda net: (cvode.event(3.3, "hoc_count += t"), cvode.event(6, "hoc_count += 1")),
    "again": lambda net: cvode.event(0.5, net.again),
    "clamp": lambda net: net.at(4, 8.01, call=lambda: assign(net.clamp, "amp", h.t / 20)),
    "voltage": lambda net: net.at(5.02, call=lambda: assign(net.dends[0](0.5), "v", -20)),
    "state": lambda net: net.at(6, call=lambda: assign(net.somas[2](0.5).hh, "m", 0.5)),
    "weight": lambda net: net.at(1, call=lambda: net.netcons[0].weight.__setitem__(0, 0.01)),
    "event": lambda net: net.at(6.01, call=lambda: net.netcons[2].event(h.t + 0.7)),
    "stop": lambda net: cvode.event(7.3, net.stop),
}  # fmt: skip


def ran(net, name, way):
    """What is recorded of a model with such code, and when it ran."""
    h.hoc_count, net.clamp.amp, net.netcons[0].weight[0] = 0, 0.2, 0.05
    net.called.clear()
    handler = h.FInitializeHandler(partial(CODE[name], net))
    net.spikes.resize(0)
    h.finitialize(-65)
    net.stim.ranvar.set_seq(0)
    way()
    found = [*net.taken(), np.array([h.t, h.hoc_count]), np.array(net.called)]
    del handler
    return found


def by_psolve():
    pc = h.ParallelContext()
    pc.set_maxstep(10)
    pc.psolve(STOP)


def on(way, engine):
    with clhines.neuron.enable(engine=engine) as enabled:
        way()
    assert enabled.steps, "by NEURON"


def plain():
    h.continuerun(STOP)


def compared(engine):
    """Of each code, how far what is recorded is from NEURON's, and how often it ran."""
    net, found, made = Model(), {}, []
    start = kept.KeptModel.start
    kept.KeptModel.start = lambda *words: (made.append(1), start(*words))[1]
    unchanged = ran(net, "hoc", plain)
    for name in CODE:
        for way in (plain, by_psolve):
            truth = ran(net, name, way)
            made.clear()
            got = ran(net, name, partial(on, way, engine))
            found[f"{name} {way.__name__}"] = {
                "worst": max(worst(a, b) for a, b in zip(truth, got, strict=True)),
                "effect": max(worst(a, b) for a, b in zip(truth[:4], unchanged[:4], strict=True)),
                "calls": len(truth[-1]) + int(truth[-2][1] > 0),
                "end": truth[-2][0],
                "sims": len(made),
            }
    return found


def refused():
    """What is said of code with a point process, and by `from_neuron`."""
    net, lines = Model(), []
    handler = h.FInitializeHandler(lambda: cvode.event(3, "hoc_count = 1", net.clamp, 0))
    h.finitialize(-65)
    lines += map(str, clhines.neuron.check())
    handler = h.FInitializeHandler(lambda: cvode.event(3, "hoc_count = 1"))
    h.finitialize(-65)
    lines.append([str(r) for r in clhines.neuron.check()])
    try:
        clhines.from_neuron()
    except clhines.InputError as error:
        lines.append(str(error).splitlines()[-1].strip())
    handler = h.FInitializeHandler(lambda: cvode.event(3, lambda: h.continuerun(20)))
    h.finitialize(-65)
    with clhines.neuron.enable(engine="reference"):
        try:
            h.continuerun(5)
        except RuntimeError as error:
            lines.append(type(error).__name__)
    del handler
    return lines


if __name__ == "__main__":
    warnings.simplefilter("error")
    engine = sys.argv[1]
    print(json.dumps(refused() if engine == "refused" else compared(engine)))
