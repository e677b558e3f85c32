"""Small networks, each with a need that some engines do not support."""

import exact_cells
import mod_files
from networks import (
    diffusing_network,
    elsewhere_network,
    layered_network,
    reading_network,
    steering_network,
    written_network,
)

from clhines import STDP, Mechanism, Network
from clhines.simulator.model import compile
from clhines.simulator.network.groups import inside

DT = 0.05


def plain():
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
    net.insert("hh", [0])
    return net


def with_synapse(**given):
    net = plain()
    net.connect([0], net.add("expsyn", at=[1]), weight=0.01, delay=1.0, **given)
    return net


def with_ions():
    return exact_cells.network()[0]


def inserted(name):
    def build():
        net = plain()
        made = Mechanism.from_nmodl(name) if "\n" in name else mod_files.ours(name)
        net.insert(made, [0]) if made.kind == "density" else net.add(made, [0])
        return net

    return build


def changed(change):
    def made():
        net = with_ions()
        change(net)
        return net

    return made


def fires(net, delay=1.0):
    fire = net.add_artificial(mod_files.ours("ext_fire"), 2)
    net.connect(fire, fire, [1], 0.7, delay, source_index=[0])
    return fire


def sends_at_once(net, node=5):
    watch = net.add(mod_files.ours("ext_watch"), [0])
    pulse = net.add(mod_files.ours("ext_pulse"), [node])
    net.connect(watch, pulse, [0], 0.7, 0.001, source_index=[0])


def noisy():
    net = plain()
    net.add("inoise", at=[0], std=0.01)
    return net


def played(net):
    net.play(net.add(mod_files.ours("ext_clamp"), [0]), 0, "amp", [0], [1])


def gap(net, mechanism=None):
    net.set_pointer(net.add(mechanism or mod_files.ours("ext_gap"), [5]), "vgap", to=[11])


NETWORKS = {  # a need -> a network that has it, and options of its simulation
    "grid_times": (plain, {}),
    "plastic": (lambda: with_synapse(rule=STDP(0.01, 0.01)), {}),
    "noise": (noisy, {}),
    "exact_times": (with_ions, {}),
    "ions": (with_ions, {}),
    "detectors": (changed(lambda net: net.add_detector([0])), {}),
    "trains": (changed(lambda net: net.spike_source([[1.0]])), {}),
    "played": (changed(played), {}),
    "random": (inserted("nmodl/nmrandom"), {}),
    "nmodl": (with_ions, {}),
    "single_events": (changed(fires), {}),
    "self_events": (changed(lambda net: net.add(mod_files.ours("ext_pulse"), [0])), {}),
    "set_voltages": (changed(lambda net: net.add(mod_files.ours("ext_reset"), [0])), {}),
    "sent_events": (changed(fires), {}),
    "weights": (with_ions, {}),
    "bins": (changed(lambda net: setattr(inside(net).added, "bins", True)), {}),
    "artificial_cells": (changed(fires), {}),
    "pointers": (changed(gap), {}),
    "pointers_in_states": (
        changed(lambda net: gap(net, Mechanism.from_nmodl(exact_cells.FOLLOWS))),
        {},
    ),
    "written_pointers": (lambda: written_network(7, 2)[0], {}),
    "read_pointers": (lambda: reading_network()[0], {}),
    "read_elsewhere": (elsewhere_network, {}),
    "instant_events": (changed(sends_at_once), {}),
    "instant_between_cells": (changed(lambda net: sends_at_once(net, 11)), {}),
    "instant_artificial": (changed(lambda net: fires(net, 0.001)), {}),
    "ion_order": (with_ions, {"secondorder": 2}),
    "read_currents": (inserted(exact_cells.READS), {}),
    "last_instances": (changed(lambda net: net.insert(mod_files.ours("nmodl/nmlast"), [0, 1])), {}),
    "steered_weights": (lambda: steering_network()[0], {}),
    "diffusion": (lambda: diffusing_network()[0], {}),
    "layers": (lambda: layered_network()[0], {}),
    "played_artificial": (
        changed(lambda net: net.play(fires(net), 0, "refrac", [0.0, 1.0], [1.0, 2.0])),
        {},
    ),
}


def model_of(word):
    build, options = NETWORKS[word]
    return compile(build(), DT, **options)
