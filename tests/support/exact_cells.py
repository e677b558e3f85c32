"""A network with exact times that epochs of whole cells support."""

import mod_files
import numpy as np

from clhines import Mechanism, Network

CELLS, NODES = 3, 6  # cells, nodes in each
READS = """
NEURON { SUFFIX reads USEION ca READ ica NONSPECIFIC_CURRENT i }
ASSIGNED { ica (mA/cm2) i (mA/cm2) }
BREAKPOINT { i = 0.1*ica }
"""
FOLLOWS = """
NEURON { POINT_PROCESS follows POINTER vgap NONSPECIFIC_CURRENT i }
STATE { s }
ASSIGNED { v (mV) vgap (mV) i (nA) }
BREAKPOINT { SOLVE states METHOD cnexp i = s }
DERIVATIVE states { s' = vgap - s }
"""
RELAY = """
NEURON { POINT_PROCESS relay RANGE n, last NONSPECIFIC_CURRENT i }
ASSIGNED { v (mV) i (nA) n last (ms) }
INITIAL { n = 0 last = -1 }
BREAKPOINT { i = -0.001*n }
NET_RECEIVE(w) { n = 0.7*n + w last = t net_event(t) }
"""


def network(like=False):
    """Cells with tables, ions, events, and parameters in time; `like`: equal cells."""
    rng, ours = np.random.default_rng(5), mod_files.ours
    n = NODES * CELLS
    parent = np.tile([-1, 0, 1, 1, 3, 4], CELLS) + NODES * np.repeat(np.arange(CELLS), NODES)
    parent[::NODES] = -1
    area = np.tile(rng.uniform(300, 1500, NODES), CELLS) if like else rng.uniform(300, 1500, n)
    g_axial = np.tile(rng.uniform(0.05, 0.2, NODES), CELLS)
    net = Network.from_arrays(parent, np.arange(0, n + 1, NODES), area, g_axial, 1e-5 * area)
    nodes, soma = np.arange(n), np.arange(0, n, NODES)
    active = nodes[nodes % NODES != 4]
    net.insert("pas", soma + 4, g=1e-4, e=-70.0)
    groups = {"hh": net.insert("hh", soma)}
    for name in ("ext_cad", "ext_ca", "ext_kca", "ext_table"):
        parameters = {"gbar": 3e-4 * (1 + active % 2)} if name == "ext_ca" else {}
        groups[name] = net.insert(ours(name), active, **parameters)
    at = {"ext_nmda": soma + 3, "ext_clamp": soma[[2]]}
    groups |= {name: net.add(ours(name), where) for name, where in at.items()}
    net.add("iclamp", at=soma, delay=1.0, dur=40.0, amp=[0.9, 0.6, 0.7])
    net.play(groups["ext_clamp"], 0, "amp", [0, 5, 9.0], [0, 0.1, 0.2])
    spikes = net.add_detector(np.concatenate([soma, soma + 3]), -20.0)
    weights = np.stack([rng.uniform(0.001, 0.004, 2 * CELLS), np.ones(2 * CELLS)], axis=1)
    delays = rng.uniform(0.6, 2, 2 * CELLS)
    net.connect(spikes, groups["ext_nmda"], rng.integers(0, CELLS, 2 * CELLS), weights, delays)
    net.connect(net.spike_source([[1.0, 2.0, 5.0]]), groups["ext_nmda"], [0], [[0.003, 1.0]], 0.1)
    return net, groups


def with_artificial(between=None):
    """The network with artificial cells and several synapses at a node; groups by name.

    `between`: delay of connections between artificial cells, ms; None for no connections.
    """
    net, groups = network()
    nmda = net.add(
        mod_files.ours("ext_nmda"), np.repeat([3, 9, 15], [1, 5, 2]), tau=np.arange(2, 10)
    )
    groups |= {"ext_fire": (fire := net.add_artificial(mod_files.ours("ext_fire"), 3))}
    rng, m = np.random.default_rng(3), 24
    weights = np.stack([rng.uniform(1e-3, 4e-3, m), np.ones(m)], axis=1)
    which = {"source_index": rng.integers(0, 3, m)}
    net.connect(fire, nmda, np.tile(np.arange(8), 3), weights, rng.choice([0, 0.02, 3], m), **which)
    net.connect(net.add_detector([0], -20.0), fire, [1], 1.2, 0.7)
    if between is not None:
        net.connect(fire, fire, [1, 2], [[1.2], [1.2]], between, source_index=[0, 1])
    return net, groups | {"several": nmda}


def with_relays():
    """Instances that send to others of their cell within a step, later, and to other cells."""
    net, groups = network()
    soma = np.arange(CELLS) * NODES
    watch = net.add(mod_files.ours("ext_watch"), soma, amp=0.0)
    relay = net.add(Mechanism.from_nmodl(RELAY), np.repeat(soma, 4) + np.tile([5, 1, 1, 3], CELLS))
    node = np.asarray(relay.nodes)
    for c in range(CELLS):
        at = np.flatnonzero(node // NODES == c)  # at nodes 1, 1, 3 and 5
        of_watch = {"source_index": np.full(2, c)}
        net.connect(watch, relay, at[[3, 2]], 1.0, [0.0, 0.03], **of_watch)
        for a, b, delay in ((3, 0, 0.0), (0, 2, 0.001), (2, 1, 0.04), (3, 1, 0.35)):
            net.connect(relay, relay, at[[b]], 0.5, delay, source_index=at[[a]])
        net.connect(relay, groups["ext_nmda"], [(c + 1) % CELLS], [[0.002, 1.0]], 0.3,
                    source_index=at[[1]])  # fmt: skip
    net.connect(net.spike_source([np.arange(1, 15, 0.77)]), relay, [5], 0.3, 0.2)
    return net, groups | {"relay": relay}


def with_fire():
    """Cells, and artificial cells: one within its cell, without delay; others between cells."""
    net, groups = network()
    fire = net.add_artificial(mod_files.ours("ext_fire"), 4)
    nmda = groups["ext_nmda"]
    weights = [[0.003, 1.0]]
    net.connect(fire, nmda, [1], weights, 0.0, source_index=[0])
    net.connect(fire, nmda, [0], weights, 0.7, source_index=[1])
    net.connect(fire, nmda, [2], weights, 1.0, source_index=[1])
    net.connect(fire, fire, [2], 0.7, 0.001, source_index=[3])
    net.connect(net.add_detector([0, 2 * NODES], -30.0), fire, [0, 1], 1.2, 0.8)
    return net, {**groups, "ext_fire": fire}
