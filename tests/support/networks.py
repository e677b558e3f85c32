"""Networks that several tests simulate, and their reference results."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import mod_files
import numpy as np
import pytest

from bench.cells import ring_cell
from clhines import Mechanism, Network, Simulation
from clhines.fields import fibres
from clhines.simulator.cells.cable import discretise
from clhines.simulator.gpu import epochs
from clhines.simulator.mechanisms.builtin import KEPT_NUMBER
from clhines.simulator.network.groups import inside
from clhines.solver.device import devices
from clhines.solver.device.devices import limits

DT, ENGINES = 0.025, ("steps", "epochs")
CABLES = [
    discretise(ring_cell(3, 0.6, 3, seed=k, stems=1 + k % 2), max_length=90.0) for k in (1, 2, 3)
]


def blocks(room, **options):
    """Return an engine for `Simulation`: `CellEpochs` within some limits, on any device."""
    return partial(epochs.make, limits=room, **options)


def go_on(sim, step, arrays):
    """Continue a simulation at a step from arrays, which `Simulation.arrays` has returned."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        sim.save(path)
        with np.load(path) as file:
            network = file["network"]
        np.savez(path, **arrays, step=np.int64(step), network=network)
        sim.restore(path)


def mixed_network(cells=7):
    """Active and passive dendrites, synapses and clamps anywhere, noise, delays of 1 to 9 steps."""
    rng = np.random.default_rng(5)
    net = Network(CABLES, cells)
    membrane = np.flatnonzero(net.area > 0)
    others = np.setdiff1d(membrane, net.soma)
    active = np.sort(rng.choice(others, len(others) // 4, replace=False))
    net.insert("hh", "soma", gnabar=rng.uniform(0.1, 0.15, cells))
    net.insert("hh", active, gnabar=0.03)
    net.insert("pas", np.setdiff1d(others, active), g=1e-4, e=-65.0)
    at = np.concatenate([net.soma, rng.choice(others, 2 * cells), net.soma])
    syn = net.add("expsyn", at=at, tau=rng.uniform(0.5, 3, len(at)), e=0.0)
    net.add("iclamp", at=net.soma[[0, 0, 3]], delay=[0.5, 1.0, 2.0], dur=3.0, amp=[0.2, 0.1, -0.1])
    net.add("inoise", at=net.soma[:4], mean=0.01, std=0.02)
    count = 60
    net.connect(
        rng.integers(0, cells, count),
        syn,
        rng.integers(0, len(syn), count),
        rng.uniform(-0.001, 0.02, count),
        DT * rng.integers(1, 10, count),
    )
    net.add_event(syn, np.arange(cells), np.linspace(0, 4, cells), 0.05)
    net.threshold = -10.0
    return net, syn


def diffusing_network(cells=2):
    """Cells in which calcium and a buffer diffuse from the soma, in shells."""
    net = Network(CABLES, cells)
    group = net.insert(mod_files.ours("ext_shells"), diam=2.0)
    group.parameters["start"] = np.where(np.isin(group.nodes, net.soma), 1e-3, 5e-5)
    return net, group


def layers_of_arrays(parent, bounds, has, of_nodes, of_layers):
    """Return arguments of `Network.from_arrays`: each cell's nodes, then two layers around some.

    `of_nodes` are area, g_axial and capacitance, `of_layers` g_axial, g_around and capacitance of
    (2, n) nodes that may be around the nodes of `parent`.
    """
    made = {name: [] for name in ("parent", "area", "g_axial", "capacitance", "around", "g_around")}
    offsets = [0]
    for first, end in zip(bounds[:-1], bounds[1:], strict=True):
        nodes = np.arange(first, end)
        inner = nodes[has[nodes]]
        outer = np.full((2, len(has)), -1)
        outer[:, inner] = offsets[-1] + len(nodes) + np.arange(2 * len(inner)).reshape(2, -1)
        above, local = parent[nodes], offsets[-1] - first
        joined = (parent[inner] >= 0) & has[parent[inner]]
        made["parent"] += [np.where(above < 0, -1, above + local)]
        made["around"] += [outer[0, nodes], outer[1, inner], np.full(len(inner), -1)]
        for name, values in zip(("area", "g_axial", "capacitance"), of_nodes, strict=True):
            made[name].append(values[nodes])
        made["g_around"].append(np.zeros(len(nodes)))
        for layer in range(2):
            others = outer[layer, parent[inner]]
            made["parent"].append(np.where(joined, others, inner + local))
            made["area"].append(np.zeros(len(inner)))
            made["g_axial"].append(np.where(joined, of_layers[0][layer, inner], 0))
            made["g_around"].append(of_layers[1][layer, inner])
            made["capacitance"].append(of_layers[2][layer, inner])
        offsets.append(offsets[-1] + len(nodes) + 2 * len(inner))
    return {name: np.concatenate(each) for name, each in made.items()} | {"cell_offsets": offsets}


def layered_network(cells=3, hard=False, seed=3, each=9):
    """Cells in layers (1 of 3 has none, 1 in part); `hard`: as different as NEURON's may be."""
    rng = np.random.default_rng(seed)
    n = cells * each
    first = each * (np.arange(n) // each)
    parent = np.where(first == np.arange(n), -1, first + rng.integers(0, 2**31, n) % np.maximum(
        np.arange(n) - first, 1))  # fmt: skip
    has = np.arange(n) // each % 3 != 1
    has &= (np.arange(n) // each % 3 != 2) | (rng.random(n) < 0.6)
    area = np.where(rng.random(n) < 0.2, 0, rng.uniform(100, 1000, n))
    area[::each] = 500
    powers = ((-3, -1), (-9, 6), (-9, 0)) if hard else ((-3, -1), (-4, -2), (-5, -3))
    of_layers = [10 ** rng.uniform(*power, (2, n)) for power in powers]
    ends = (area == 0) & has[parent] & (parent >= 0)  # without a way to ground
    of_layers[1] *= ~ends
    of_layers[2] *= ~ends & (rng.random((2, n)) < 0.7)
    of_nodes = area, rng.uniform(0.05, 0.5, n), 1e-5 * area
    arrays = layers_of_arrays(parent, each * np.arange(cells + 1), has, of_nodes, of_layers)
    net = Network.from_arrays(**arrays)
    membrane = np.flatnonzero(net.area > 0)
    net.insert("hh", at=membrane[rng.random(len(membrane)) < 0.5])
    net.insert("pas", at=membrane, g=3e-4, e=-65.0)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.add("iclamp", at=net.soma[[0, -1]], delay=0.05, dur=2.0, amp=[0.4, 0.2])
    net.add("iclamp", at=np.flatnonzero(arrays["around"] < 0)[-1:], delay=0.0, dur=50.0, amp=0.01)
    net.add_event(syn, np.arange(cells), np.linspace(0.5, 2, cells), 0.01)
    return net, syn


def fibres_in_field(nodes=3):
    """Three double cables in a field, which acts on nodes without mechanisms."""
    net = fibres.myelinated([5.7, 16.0, 5.7], nodes=nodes).network(Network.from_arrays)
    potential = np.random.default_rng(3).uniform(-200, 200, net.forest.num_nodes)
    return net, net.field(potential, ([0.1, 0.2, 0.3], [0.0, 1.0, -1.0]))


def simple_network(cells=5, delay=0.5):
    """Active somas on passive dendrites in a ring: everything below the roots is constant."""
    net = Network(CABLES, cells)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.connect(np.arange(cells), syn, (np.arange(cells) + 1) % cells, 0.05, delay)
    net.add_event(syn, 0, 0.2, 0.05)
    return net, syn


LIF = """
    point lif
    parameter away = 5 ms
    current i = 0.01*(v + 49) [nA]
    spike: v > -50 mV
    reset: v = -60 mV
    refractory: away
"""


def point_neurons(count, refractory=5.0):
    """Leaky neurons of one node each that spike by themselves, without connections."""
    cells = np.full(count, -1), np.arange(count + 1)
    net = Network.from_arrays(*cells, [2e4] * count, [0.0] * count, [0.2] * count)
    net.add(LIF, at=net.soma, away=refractory)
    return net


def full_rows(count=16):
    """Points that take whole steps in registers, if one work-item has all of them."""
    net = point_neurons(count, refractory=0.2)
    net.insert("pas", at="all", g=1e-6, e=-60.0)
    synapses = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.connect(np.arange(count), synapses, np.roll(np.arange(count), 1), 0.05, 0.3)
    net.add_event(synapses, [0, 5, 0], [0.0, 0.1, 0.3], 0.05)
    return net


_truth = {}


def truth(build, secondorder=False, duration=10.0):
    """Return the result of the reference, computed once for all devices and paths."""
    key = build, secondorder, duration
    if key not in _truth:
        net, syn = build()
        sim = Simulation(net, DT, engine="reference", secondorder=secondorder, seed=7)
        sim.record("v", net.soma)
        sim.record("g", syn, [0, 3])
        _truth[key] = sim.run(duration), sim.voltages()
    return _truth[key]


def written_network(seed, cells, elsewhere=False):
    """Cells whose nodes add to a total of their cell, or of any, which a current reads."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 20, cells)
    bounds = np.append(0, np.cumsum(sizes))
    parent = np.arange(bounds[-1]) - 1  # chains
    parent[bounds[:-1]] = -1
    n, soma, cell = int(bounds[-1]), bounds[:-1], np.repeat(np.arange(cells), sizes)
    area = rng.uniform(200, 900, n)
    net = Network.from_arrays(parent, bounds, area, rng.uniform(0.05, 0.3, n), 1e-5 * area)
    net.insert("hh", soma)
    net.add("iclamp", at=soma, delay=rng.uniform(0, 8, cells), dur=3.0, amp=0.5)
    totals = net.add(mod_files.ours("ext_total"), soma, scale=rng.uniform(1e-6, 1e-5, cells))
    wholes = net.add(Mechanism.from_nmodl(KEPT_NUMBER), soma)
    net.set_pointer(totals, "whole", (wholes, "x", np.arange(cells)))
    where = np.flatnonzero(rng.random(n) < 0.7)
    adds = net.insert(
        mod_files.ours("ext_adds"), where, ri=rng.uniform(1, 9, len(where)), length=20.0
    )
    net.set_pointer(adds, "neighbour", to=np.maximum(parent[where], 0))
    to = rng.integers(0, cells, len(where)) if elsewhere else cell[where]
    net.set_pointer(adds, "total", (totals, "total", to))
    net.set_pointer(adds, "whole", (wholes, "x", to))
    return net, {"total": totals, "kept": totals, "x": wholes, "seen": totals}


def reader(name, events=False):
    text = (mod_files.FOLDER / f"ext_{name}.mod").read_text()
    return Mechanism.from_nmodl(text if events else text.split("NET_RECEIVE")[0])


def steering_network(cells=2):
    """Synapses whose weights change by events of other instances; the network and its records."""
    net = Network(CABLES[:cells])
    net.insert("hh", at="soma")
    rules = net.add(mod_files.ours("ext_steer"), at=net.soma)
    synapses = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    sources = net.spike_source([[1.0, 4.0, 9.0]] * cells)
    net.connect(sources, synapses, weight=0.01, delay=1.0, source_index=np.arange(cells))
    net.connect(sources, rules, weight=1.0, delay=0.613, source_index=np.arange(cells))
    at = np.arange(cells)
    inside(net).added.steered.append((rules.number, "w", at, np.zeros(cells, np.int64)))
    return net, {"change": rules, "g": synapses}


def reading_network(own=True, events=False):
    """Cells of four nodes, whose readers point to msg of sources, at their own nodes if `own`."""
    n, rng = 12, np.random.default_rng(9)
    parent = [-1, 0, 1, 2, -1, 4, 5, 5, -1, 8, 9, 9]
    g_axial = np.where(np.array(parent) < 0, 0, 0.1)
    net = Network.from_arrays(parent, [0, 4, 8, 12], rng.uniform(200, 900, n), g_axial, [0.005] * n)
    at = rng.permutation(n)[:6]
    ahead = net.add(reader("ahead", events), at)
    sources = net.add(mod_files.ours("ext_msg"), at if own else at[::-1], gain=2.0)
    reads = net.add(reader("reads", events), at)
    for group in (ahead, reads):
        for pointer in "ab":
            net.set_pointer(group, pointer, (sources, "msg", np.arange(6)))
    net.add("iclamp", at=[0, 4, 8], delay=1.0, dur=3.0, amp=0.1)
    return net, {"x": reads, "msg": sources}


GATED = """
NEURON { SUFFIX gated NONSPECIFIC_CURRENT i POINTER gate RANGE g }
PARAMETER { g = 1e-4 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) gate }
STATE { x }
INITIAL { x = 0 }
BREAKPOINT { SOLVE states METHOD cnexp i = g*gate*(v + 60 + x) }
DERIVATIVE states { x' = (gate - x)/2 }
"""
AFTER = GATED.replace("gated", "after")
LOOKING = GATED.replace("gated", "looking").replace("gate - x", "v - x")


def gated_network(elsewhere, sizes=(3, 9, 40, 17)):
    """Trees with hh; other mechanisms read its gates before and after it, or `elsewhere`."""
    rng = np.random.default_rng(4)
    bounds = np.append(0, np.cumsum(sizes))
    parents = [[-1, *(int(rng.integers(max(0, k - 3), k)) for k in range(1, n))] for n in sizes]
    parent = np.concatenate([[p if p < 0 else p + b for p in q] for q, b in zip(parents, bounds)])
    n = int(bounds[-1])
    area = rng.uniform(200, 900, n)
    net = Network.from_arrays(parent, bounds, area, rng.uniform(0.05, 0.3, n), 1e-5 * area)
    before = net.insert(Mechanism.from_nmodl(GATED), np.arange(n), g=rng.uniform(1e-5, 2e-4, n))
    hh, nodes = net.insert("hh", np.arange(n)), np.setdiff1d(np.arange(1, n, 2), bounds)
    after = net.insert(Mechanism.from_nmodl(AFTER), nodes)
    synapses = net.add(mod_files.ours("ext_pre"), bounds[:-1])
    net.set_pointer(synapses, "vpre", to=np.roll(bounds[:-1], 1))
    net.set_pointer(before, "gate", (hh, "n", np.arange(n)))
    net.set_pointer(after, "gate", (hh, "m", nodes))
    cell = np.repeat(bounds[:-1], sizes)
    if elsewhere:
        looking = net.insert(Mechanism.from_nmodl(LOOKING), nodes)
        net.set_pointer(looking, "gate", (hh, "h", rng.integers(cell[nodes], nodes)))
    net.add("iclamp", at=bounds[:-1], delay=1.0, dur=3.0, amp=0.3)
    return net, {"x": before, "n": hh, "m": hh, "h": hh}


def turning_network(of_cells=((0, 1, 2, 3, 4), ()), sizes=(3, 7, 7, 30, 12)):
    """A ring of trees; in the cells of each row each instance sets GLOBALs that all read."""
    rng, cells = np.random.default_rng(6), len(sizes)
    bounds = np.append(0, np.cumsum(sizes))
    parents = [[-1, *(int(rng.integers(max(0, k - 3), k)) for k in range(1, n))] for n in sizes]
    parent = np.concatenate([[p if p < 0 else p + b for p in q] for q, b in zip(parents, bounds)])
    n, cell = int(bounds[-1]), np.repeat(np.arange(cells), sizes)
    area = rng.uniform(200, 900, n)
    net = Network.from_arrays(parent, bounds, area, rng.uniform(0.05, 0.3, n), 1e-5 * area)
    net.insert("hh", np.arange(n))
    text, groups = (mod_files.FOLDER / "nmodl" / "nmlast.mod").read_text(), {}
    for name, some in zip(("nmlast", "nmother"), of_cells, strict=True):
        at = np.flatnonzero(np.isin(cell, some))
        mechanism = Mechanism.from_nmodl(text.replace("nmlast", name))
        groups[name] = net.insert(mechanism, at, half=rng.uniform(-55, -45, len(at)))
    net.add("iclamp", at=bounds[:1], delay=0.5, dur=2.0, amp=1.0)
    synapses = net.add(mod_files.ours("ext_nmda"), at=bounds[:-1])
    to = np.roll(np.arange(cells), 1)
    net.connect(net.add_detector(bounds[:-1], -20.0), synapses, to, [[5e-3, 1.0]] * cells, 1.3)
    return net, groups


def elsewhere_network():
    """Two cells, one of which reads a state of the other."""
    net = Network.from_arrays([-1, -1], [0, 1, 2], [300.0] * 2, [0.0] * 2, [0.005] * 2)
    source = net.add(reader("msg"), [0])
    looks = net.insert(Mechanism.from_nmodl(LOOKING), [1])
    net.set_pointer(looks, "gate", (source, "msg", 0))
    return net


def block_simulation(
    build, queue, dtype="float64", secondorder=False, chunk=150, compute_units=None, **options
):
    """Return a simulation of a network that runs by `CellEpochs`, on any device."""
    net, syn = build()
    room = limits(queue.device)
    if compute_units:
        room = replace(room, compute_units=compute_units)
    engine = blocks(room, **options)
    sim = Simulation(
        net, DT, dtype, queue=queue, engine=engine, seed=7, chunk=chunk, secondorder=secondorder
    )
    sim.record("v", net.soma)
    sim.record("g", syn, [0, 3])
    return sim


def dendrites_network():
    """Three clamps on dendrites: pivots change only at the somas."""
    net, syn = simple_network()
    net.add("iclamp", at=net.soma[:3] + 1, dur=5.0, amp=0.05)
    return net, syn


def noisy_network():
    """Noise and varying parameters only at somas: factors stay constant."""
    net, syn = simple_network()
    net.add("inoise", at=net.soma, mean=0.01, std=np.linspace(0.01, 0.05, net.num_cells))
    return net, syn


SPIKING_ENGINES = ["reference", "steps", "epochs-cpu", "epochs-gpu"]


def one_node_cells(count, capacitance):
    """Cells of a node; nF."""
    area = np.full(count, 300.0)
    cells = np.full(count, -1), np.arange(count + 1)
    return Network.from_arrays(*cells, area, 0 * area, np.full(count, capacitance))


def started(net, engine, queue, needs, dt=0.1, dtype="float64", **given):
    needs(queue, dtype)
    if engine == "epochs-cpu" and not devices.is_cpu(queue.device):
        pytest.skip("an engine of CPUs")
    sim = Simulation(net, dt, dtype, queue=queue, engine=engine, **given)
    assert sim.engine == engine
    return sim


def crowded_lanes(cells=5):
    """Many synapses at one node, HH in all of one shape and some of the other.

    So some instances lie side by side, and others do not.
    """
    rng = np.random.default_rng(8)
    net = Network(CABLES[:2], cells)
    cell = np.repeat(np.arange(cells), net.forest.sizes)
    some = (rng.random(len(cell)) < 0.6) | (cell % 2 == 0)
    some[net.soma] = True
    some &= net.area > 0
    net.insert("hh", at=some, gnabar=rng.uniform(0.1, 0.14, some.sum()))
    net.insert("pas", at=~some & (net.area > 0))
    first, last = net.forest.cell_offsets[:2]
    at = np.concatenate([np.full(19, first + 2), net.soma, rng.integers(first, last, 40)])
    syn = net.add("expsyn", at, tau=rng.uniform(1, 3, len(at)), e=0.0)
    net.connect(np.arange(cells), syn, np.arange(cells) + 19, 0.02, 0.5)
    net.add_event(syn, np.arange(30), 0.1 * np.arange(30), 0.003)
    return net


def crowded_network(cells=3, gnabar=0.1):
    """HH and a slow channel in all membrane: more slots than local memory has room for."""
    cable = discretise(ring_cell(3, 1.0, 6, seed=3, stems=2), max_length=20.0)
    net = Network([cable], cells)
    nodes = np.flatnonzero(net.area > 0)
    values = np.full(len(nodes), 0.1)
    values[nodes < net.forest.cell_offsets[1]] = gnabar
    net.insert("hh", nodes, gnabar=values)
    net.insert(
        """
        density slow
        parameter g = 1e-4 S/cm2
        state n = 1/(1 + exp(-(v + 35)/10))
        dn/dt = (1/(1 + exp(-(v + 35)/10)) - n)/(10 + 40*exp(-((v + 60)/20)^2))
        current i = g*n*(v + 80) [mA/cm2]
        """,
        nodes,
        g=np.where((nodes % cable.num_nodes) % 3, 1e-4, 2e-4),
    )
    net.add("iclamp", at=net.soma, dur=5.0, amp=0.3)
    syn = net.add("expsyn", at=np.append(net.soma, net.soma + 1), tau=2.0, e=0.0)
    net.add_event(syn, np.arange(4), 0.3, 0.01)
    return net, syn


def full_network(num_cells=4):
    net = Network(CABLES, num_cells)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=2e-4, e=-70.0)
    return net, net.add("expsyn", at=net.soma[[2, 0, 2]], tau=[1.0, 2.0, 3.0], e=0.0)


def assert_follows(sim, build, dtype="float64"):
    """Run a network for 10 ms; compare voltages, states and spikes with `truth`.

    The bounds are rounding errors, stretched for spikes, which rise by 300 mV/ms.
    """
    expected, v = truth(build)
    result = sim.run(10.0)
    bound = 1e-7 if dtype == "float64" else 0.5
    np.testing.assert_array_equal(result.t, expected.t)
    assert np.abs(result[0] - expected[0]).max() < bound
    assert np.abs(sim.voltages() - v).max() < bound
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
    assert len(expected.spike_cell) >= 5
    late = np.abs(result.spike_time - expected.spike_time).max()
    assert late <= (1e-9 if dtype == "float64" else DT * 1.001)


def assert_near(sim, build, secondorder=False):
    """Run a network for 3 ms; compare voltages, in mV, and conductances with `truth`."""
    expected, v = truth(build, secondorder, 3.0)
    result = sim.run(3.0)
    np.testing.assert_allclose(result[0], expected[0], atol=1e-7)
    np.testing.assert_allclose(result[1], expected[1], atol=1e-10)
    assert expected[1].any()
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7)
    return result, expected


def run(net, *records, duration=1.0):
    """Run a network by the reference; a record is a variable, places and further arguments."""
    sim = Simulation(net, engine="reference")
    for what, where, more in records:
        sim.record(what, where, **more)
    return sim.run(duration)


def spiking(cable, count=2):
    """Cells with HH everywhere; the first spikes at once."""
    net = Network(cable, count)
    net.insert("hh", "all")
    net.add("IClamp", net.soma[:1], dur=1.0, amp=2.0)
    return net
