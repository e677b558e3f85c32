"""Things that scripts do between and in runs, with the switch off and on: ``uses_program.py``."""

import gc
import json

import numpy as np
from support.mod_files import loaded
from support.neuron_scripts import refusal

import clhines

h = loaded()
h.load_file("stdrun.hoc")
pc = h.ParallelContext()
STOP = 20.0


class Net:
    """A cell that a NetStim makes fire; its records, and the messages of its runs."""

    def __init__(self):
        h.celsius, h.dt, h.steps_per_ms, h.tstop = 6.3, 0.025, 40, STOP
        self.soma = h.Section(name="soma")
        self.soma.L = self.soma.diam = 20
        self.soma.insert("hh")
        self.synapse, self.stim = h.ExpSyn(self.soma(0.5)), h.NetStim()
        self.synapse.tau = 1
        self.stim.number, self.stim.interval, self.stim.start = 50, 7, 1
        self.netcon = h.NetCon(self.stim, self.synapse, 0, 1, 0.05)
        self.v, self.spikes = h.Vector().record(self.soma(0.5)._ref_v), h.Vector()
        self.own = h.NetCon(self.soma(0.5)._ref_v, None, sec=self.soma)
        self.own.record(self.spikes)
        self.said = []

    def on(self, way, *given):
        try:
            way(*given)
            said = "ran"
        except BaseException as error:
            said = type(error).__name__
        values = [float(h.t), len(self.spikes), float(np.array(self.spikes).sum())]
        self.said.append([said, *values, len(self.v), float(np.array(self.v).sum())])


def intervals(net):
    """Call a function that changes weights in intervals, like NetPyNE's runSimWithIntervalFunc."""
    pc.set_maxstep(10)
    h.finitialize(-65)
    for stop in np.arange(2.5, STOP + 1, 2.5):
        net.on(pc.psolve, float(stop))
        net.netcon.weight[0] *= 0.9


def other_temperatures(net):
    net.on(h.run)
    h.celsius = 16
    net.on(h.run)
    h.finitialize(-65)
    net.on(h.continuerun, 5)
    h.celsius = 6.3
    net.on(h.continuerun, 10)


def other_steps(net):
    net.on(h.run)
    h.dt, h.steps_per_ms = 0.05, 20
    net.on(h.run)
    h.finitialize(-65)
    net.on(h.continuerun, 5)
    h.dt, h.steps_per_ms = 0.025, 40
    net.on(h.continuerun, 10)


def stops(net):
    """Code of an event ends a run, which then continues."""
    handler = h.FInitializeHandler(lambda: h.CVode().event(4, lambda: setattr(h, "stoprun", 1)))
    net.on(h.run)
    net.on(h.continuerun, 12)
    del handler
    net.on(h.run)


def fails(net):
    """Code of an event raises; the next run is unaffected."""

    def fail():
        raise ValueError("of the user")

    handler = h.FInitializeHandler(lambda: h.CVode().event(4, fail))
    net.on(h.run)
    del handler
    net.on(h.run)


def goes_back(net):
    """A saved state, a time that has passed, several ways to run in turns."""
    gc.collect()  # NEURON ends the process if a section goes between a step and SaveState
    h.finitialize(-65)
    net.on(h.continuerun, 8)
    state = h.SaveState()
    state.save()
    net.on(h.continuerun, 16)
    state.restore(1)
    net.on(h.continuerun, 5)
    net.on(h.continuerun, 12)
    net.on(h.steprun)
    net.on(h.fadvance)
    net.on(pc.psolve, 15.01)


def grows(net):
    """Add a second model in the same process, like further trials, and then delete all."""
    net.on(h.run)
    other = Net()
    net.on(h.run)
    other.on(h.run)
    net.said += other.said
    del other
    net.on(h.run)


def variable_steps(net):
    """Variable steps of CVode are refused; the runs before and after equal NEURON's."""
    h.finitialize(-65)
    net.on(h.continuerun, 5)
    h.cvode_active(1)
    net.said.append(refusal(h.continuerun, 10))
    h.CVode().active(0)  # stdrun.hoc still takes them for on
    net.said.append(refusal(h.continuerun, 10))
    h.cvode_active(0)
    net.on(h.run)


def steps_of_nothing(net):
    """Steps of length 0, with which NEURON would never end."""
    for step in (0.0, -0.025):
        h.finitialize(-65)
        h.dt = step
        for way in (h.continuerun, pc.psolve):
            net.said.append(refusal(way, 5))
        h.dt = 0.025
    net.on(h.run)


SAME = intervals, other_temperatures, other_steps, stops, fails, goes_back, grows


def taken(use):
    net = Net()
    use(net)
    return net.said


def main():
    results = {}
    for use in SAME:
        truth = taken(use)
        with clhines.neuron.enable(engine="reference", strict=True) as on:
            results[use.__name__] = [truth, taken(use), on.steps]
    with clhines.neuron.enable(engine="reference", strict=True):
        for use in (variable_steps, steps_of_nothing):
            results[use.__name__] = taken(use)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
