"""A population of sets of parameters and protocols."""

import numpy as np
from networks import CABLES

import clhines
from clhines import Network

PROTOCOLS = {
    "step": {"stop": 5.0, "stimuli": [{"amp": 0.8, "delay": 0.5, "dur": 4.0}]},
    "two": {
        "stop": 4.0,
        "stimuli": [{"amp": 0.2}, {"amp": 0.5, "delay": 2.0, "dur": 1.0, "at": 3}],
    },
    "rest": {"stop": 1.0},
}


PARAMETERS = {
    "na": ("hh", "gnabar", "soma"),
    "leak": ("hh", "gl"),
    "passive": ("pas", "g", "dendrites"),
}


SETS = np.stack(
    [np.linspace(0.08, 0.2, 5), np.linspace(2e-4, 6e-4, 5), np.linspace(4e-4, 1e-4, 5)], axis=1
)


def model(na=0.12, leak=3e-4, passive=1e-4):
    """One cell with channels in all of it and a synapse that gets an event."""
    net = Network(CABLES[0])
    soma = np.isin(np.flatnonzero(net.area > 0), net.nodes(at="soma"))
    net.insert("hh", "all", gnabar=np.where(soma, na, 0.03), gl=leak)
    net.insert("pas", "dendrites", g=passive, e=-65.0)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.add_event(syn, 0, 3.0, 0.002)
    net.threshold = -20.0
    return net


BEGIN, END = 5.0, 45.0  # ms, of the stimulus


AMPS = {"low": 0.05, "high": 1.5}  # nA

# of sodium and potassium of `two_currents`; the last is silent
CHANNEL_SETS = np.array([[0.12, 0.036], [0.2, 0.03], [0.09, 0.05], [0.01, 0.036]])


def two_currents():
    """A cell with channels under two currents, one of which it answers with spikes."""
    model = clhines.Network(clhines.discretise(clhines.sample_cells()[0], max_length=1e4))
    model.insert("hh")
    model.threshold = -20.0
    protocols = {
        name: {"stop": stop, "stimuli": [{"amp": AMPS[name], "delay": BEGIN, "dur": END - BEGIN}]}
        for name, stop in (("low", 60.0), ("high", 55.0))
    }
    return model, {"na": ("hh", "gnabar"), "k": ("hh", "gkbar")}, protocols
