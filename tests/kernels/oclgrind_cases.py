"""Cases that must run on Oclgrind without a report, for every kernel."""

import itertools
import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "support"))
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))  # as a program

import exact_cells
import mod_files
from networks import (
    blocks,
    diffusing_network,
    fibres_in_field,
    full_rows,
    gated_network,
    layered_network,
    point_neurons,
)
from systems import families, forest_for, make_system, updates_for

from bench.cells import ring_cell
from bench.made import caterpillar, chain, random_binary_tree, random_connections, star
from clhines import METHODS, Forest, Mechanism, Network, PivotError, Simulation, Solver, Tridiagonal
from clhines.simulator import choose
from clhines.simulator.analysis import Features
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cpu import blocks as cell_blocks
from clhines.simulator.cpu.blocks import CellBlocks
from clhines.simulator.cpu.plan import blocks_of, work_of
from clhines.simulator.engines import steps
from clhines.simulator.events.grid import ALGORITHMS, Delivery
from clhines.simulator.events.plasticity import Plasticity
from clhines.simulator.mechanisms.builtin import KEPT_NUMBER
from clhines.simulator.network.plasticity import STDP, Rule
from clhines.solver.device import devices, program
from clhines.solver.device.timing import FloorSpec
from clhines.solver.engines.lanes import ChainKernels, LanesEngine
from clhines.solver.engines.many import ManySolve
from clhines.solver.plan.by_branch import fine
from clhines.solver.plan.by_cell.lanes import blocks_of as chain_blocks
from clhines.solver.plan.plan import Limits

SPIKES = 1000  # a chunk: for each byte of a buffer Oclgrind keeps some forty
OWN_LEVELS = "fine, own levels"  # the others of `fine` are for any number of levels
CONFIGS = {
    "flat": ("flat", {"work_group": 2}),
    "interleaved": ("interleaved", {"work_group": 4}),
    "block": ("block_interleaved", {"block_size": 3, "vector_width": 1, "work_group": 2}),
    "vector": ("block_interleaved", {"block_size": 8, "vector_width": 4}),
    "block_local": ("block_local", {"block_size": 3}),
    "fine, many passes": ("fine", {"work_group": 3, "max_cells": 2}),
    "fine": ("fine", {"work_group": 16, "max_cells": 4}),
    OWN_LEVELS: ("fine", {"work_group": 3, "max_cells": 2}),
    "fine, shaped": ("fine", {"work_group": 5, "max_cells": 4, "split": "mean", "packing": "sorted",
        "level_shift": True, "local": True}),
    "fine, vectors": ("fine", {"vector_width": 4, "max_cells": 4}),
    "fine, narrow": ("fine", {"vector_width": 1, "max_cells": 3}),
    "levels": ("levels", {"work_group": 4, "padding": "skip"}),
    "levels, padded": ("levels", {"work_group": 4, "padding": "compute"}),
    "contraction, registers": ("contraction", {"registers": True, "segment": 4}),
    "contraction": ("contraction", {}),
    "cr": ("cr", {"work_group": 5}),
    "pcr": ("pcr", {"work_group": 16}),
    "cr_pcr": ("cr_pcr", {"work_group": 4, "switch": 5}),
}  # fmt: skip
KNOWN = {method for method, _ in CONFIGS.values()}
CONFIGS |= {m: (m, {}) for m in METHODS if m not in KNOWN}


def mixed_forest(method="flat"):
    tree = random_binary_tree(17, 5, 1)
    return forest_for(method, [tree, star(9), caterpillar(8), tree, chain(3), tree, chain(1)])


def equal_forest(method="flat"):
    return forest_for(method, [random_binary_tree(14, 5, 2)] * 8)


def open_queue():
    simulators = [d for _, d in devices.all_devices() if devices.is_simulator(d)]
    return cl.CommandQueue(cl.Context([simulators[0]]))  # a context without programs


def solver_of(queue, config, forest, dtype):
    method, options = CONFIGS[config]
    with mock.patch.object(fine, "MOST_LEVELS", 30 if config == OWN_LEVELS else 0):
        return Solver(forest, method, dtype, queue=queue, **options)


def small_memory(size):
    """Limit devices to so many bytes of local memory in the block."""
    real = devices.limits
    return mock.patch.object(devices, "limits", lambda d: replace(real(d), local_bytes=size))


def packed_system(solver, system):
    return {k: solver.to_device_order(a) for k, a in system.arrays.items() if a is not None}


def assert_bad_pivot(solver, system, *place):
    """Solve; a bad pivot must be reported in this cell, and at this node if one is given."""
    try:
        solver.solve(**system.arrays)
    except PivotError as error:
        assert (error.cell, error.node)[: len(place)] == place
    else:
        raise AssertionError("no PivotError")


def solve_case(queue, config, forest, dtype, symmetric, rows):
    method, solver = CONFIGS[config][0], solver_of(queue, config, forest, dtype)
    system = make_system(forest, dtype, symmetric, rows)
    system.assert_solved(solver.solve(**system.arrays), updates_for(method))
    if method == "fine" and solver.engine.loaded.takes_natural:  # used by other calls than solve()
        packed = packed_system(solver, system)
        out = cla.empty_like(packed["b"])
        solver.enqueue(**packed, out=out)
        system.assert_solved(solver.from_device_order(out).get())
    return solver, system


def factor_case(queue, forest, dtype, symmetric):
    """Factors for a good matrix, and for one with bad pivots in several cells."""
    solver = Solver(forest, "contraction", dtype, queue=queue)
    system = make_system(forest, dtype, symmetric, 2)
    factors = solver.factor(system.d, system.u, l=system.l)
    system.assert_solved(factors.solve(system.b))
    packed = packed_system(solver, system)
    out = cla.empty_like(packed["b"])
    solver.enqueue(**packed, out=out)  # plain, in device order
    system.assert_solved(solver.from_device_order(out).get())
    arrays = {k: cla.to_device(queue, a) for k, a in system.arrays.items() if a is not None}
    x = solver.solve(**arrays, overwrite=True)  # in natural order, into b
    system.assert_solved(x.get())
    bad = np.array([2, 3, forest.num_nodes - 1])
    system.d[bad] = -1
    cells = np.unique(np.searchsorted(forest.cell_offsets, bad, "right"))
    good = solver.factor(system.d, system.u, l=system.l, check=False).status() >= 0
    assert good.sum() == len(cells) > 1


def in_place_case(queue, config, forest):
    """Device order, several launches, d and b destroyed, and a bad pivot in two cells."""
    solver, system = solve_case(queue, config, forest, np.float32, True, 6)
    packed = packed_system(solver, system)
    solver.enqueue(**packed, out=packed["b"], overwrite=True).wait()
    system.assert_solved(
        solver.from_device_order(packed["b"]).get(), updates_for(CONFIGS[config][0])
    )
    system.d[[2, 3, -1]] = -1
    assert_bad_pivot(solver, system, 0)


def pieces_case(queue, dtype, symmetric):
    """Cells above local memory, in pieces with at most 32 values, a bad pivot in one piece."""
    forest = Forest.from_parents([chain(130), random_binary_tree(150, 15, 3), chain(5)])
    with small_memory(2560):
        solver = Solver(forest, "contraction", dtype, queue=queue, work_group=16, segment=4)
    assert {p.phase for p in solver.plan.parts} == {"solve", "reduce", "expand"}
    assert solver.plan.takes_natural
    system = make_system(forest, dtype, symmetric, 2)
    system.assert_solved(solver.solve(**system.arrays))
    packed = packed_system(solver, system)
    solver.enqueue(**packed, out=packed["b"])  # in device order
    system.assert_solved(solver.from_device_order(packed["b"]).get())
    system.d[140] = -1
    assert_bad_pivot(solver, system, 1, 140)


def long_chains_case(queue, method, dtype, symmetric):
    """Chains above local memory beside others, one of them with a bad pivot."""
    forest = Forest.from_parents([chain(130), chain(4), chain(45), chain(1)])
    with small_memory(700):
        solver = Solver(forest, method, dtype, queue=queue, work_group=8)
    assert [p.spec.storage for p in solver.plan.parts] == ["local", "global"]
    system = make_system(forest, dtype, symmetric, 2)
    system.assert_solved(solver.solve(**system.arrays), updates_for(method))
    system.d[[20, 140]] = -1
    assert_bad_pivot(solver, system, 0, 20)
    assert solver.status().tolist() == [20, -1, 140, -1]


def tridiagonal_case(queue, real):
    """Ragged systems, and equal ones with one upper diagonal, in two orders of right-hand sides."""
    rng, dtype = np.random.default_rng(5), np.float64 if real == "double" else np.float32
    for sizes, up in (([3, 1, 4], 5), ([4, 4, 4], 3)):
        n = sum(sizes)
        shapes = (n, n, up, (2, n))
        dl, d, du, b = (cla.to_device(queue, rng.random(s).astype(dtype)) for s in shapes)
        d = cla.to_device(queue, d.get() + dtype(3))
        systems = Tridiagonal(sizes, method="flat", dtype=dtype, queue=queue)
        rows = systems.solve(dl, d, du, b).get()
        columns = cla.to_device(queue, np.ascontiguousarray(b.get().T))
        assert np.array_equal(systems.solve(dl, d, du, columns, columns=True).get(), rows.T)


def many_case(queue, limits, symmetric):
    """More right-hand sides than lanes, in lanes over them, for trees and for chains."""
    for forest in (mixed_forest(), mixed_forest("cr")):
        system = make_system(forest, np.float32, symmetric, rows=11)
        engine = Solver(forest, "flat", dtype=np.float32, queue=queue).engine
        lanes = ManySolve(engine.loaded, engine.transfer, limits)
        matrix = {k: a for k, a in system.arrays.items() if k != "b" and a is not None}
        cells, x = lanes.eliminate(matrix, keep=True), np.empty_like(system.b)
        lanes.solve_host(cells, system.b, x)
        system.assert_solved(x)
        assert lanes.status(cells)[1]


def lanes_case(queue, sizes, symmetric):
    """Chains in lanes with two vectors, and chain by chain, from host arrays."""
    forest = Forest.from_parents([chain(n) for n in sizes])
    system = make_system(forest, np.float32, symmetric)
    limits = Limits(is_cpu=True, vector_bytes=16, compute_units=1)
    blocks = chain_blocks(forest)
    kernels = ChainKernels(forest, blocks, limits, np.dtype(np.float32), queue)
    engine = LanesEngine(kernels, None)
    matrix = {k: a for k, a in system.arrays.items() if k != "b" and a is not None}
    x = np.empty_like(system.b)
    for _ in range(2):
        engine.factor(matrix).solve_host(system.b, x)
        system.assert_solved(x)
    assert engine.found_finite


def assert_gradients(queue, dtype, make, duration, loss, mode="auto", **options):
    """Compare the derivatives of `make(**given)`, a simulation and parameters, with NumPy's."""
    results = []
    for given, how in (({"queue": queue, "dtype": dtype}, mode), ({"engine": "reference"}, "auto")):
        sim, of = make(**given)
        gradient = sim.gradient(duration, loss, of, mode=how, **options)
        results.append([gradient[one] for one in of])
    near = 1e-9 if dtype == "float64" else 1e-3
    for ours, theirs in zip(*results, strict=True):
        assert np.abs(ours - theirs).max() <= near * np.abs(theirs).max()


def sum_of_squares(v, *others):
    slopes = [2 * v, *(0 * one for one in others)]
    return float((v**2).sum()), slopes if others else slopes[0]


def gradient_case(queue, dtype, mode):
    def make(**given):
        net = Network(discretise(ring_cell(2, 0.9, 2, seed=1), max_length=100.0), 2)
        channel = net.insert("hh", "soma", gnabar=[0.1, 0.12])
        clamp = net.add("iclamp", at=net.soma, dur=1.0, amp=[0.2, 0.3])
        sim = Simulation(net, 0.025, **given)
        sim.record("v", net.soma)
        return sim, [(channel, "gnabar"), (clamp, "amp"), *["v_init"] * (mode == "reverse")]

    assert_gradients(queue, dtype, make, 0.1, sum_of_squares, mode)


def pair_of_cells():
    arrays = [300.0] * 4, [0.0, 0.1] * 2, [0.003] * 4
    return Network.from_arrays([-1, 0, -1, 2], [0, 2, 4], *arrays)


def event_gradient_case(queue, dtype):
    """Two cells that excite each other, an event from outside, and the slopes of spikes."""

    def make(**given):
        net = pair_of_cells()
        net.insert("hh", net.soma)
        synapses = net.add("exp2syn", at=[1, 1, 3, 3])
        net.connect([0, 1, 0], synapses, [2, 1, 3], weight=0.01, delay=0.05)
        net.add_event(synapses, 0, 0.1, 0.01)
        clamp = net.add("iclamp", at=net.soma, dur=1.0, amp=[2.0, 3.0])
        sim = Simulation(net, 0.05, v_init=-45.0, **given)
        sim.record("v", net.soma)
        sim.record("B", synapses)
        return sim, [(clamp, "amp"), (synapses, "tau1"), "weight"]

    assert_gradients(queue, dtype, make, 0.6, sum_of_squares, surrogate=2.0)


def ion_gradient_case(queue, dtype):
    """Calcium that flows into two cells, and its concentration recorded."""

    def make(**given):
        net = pair_of_cells()
        channel, pool = net.insert("ca_l", gbar=0.002), net.insert("ca_pool", gamma=0.4)
        net.insert("sk", net.soma)
        sim = Simulation(net, 0.05, v_init=-30.0, max_spikes=SPIKES, **given)
        sim.record("cai", [0, 1])
        return sim, [(channel, "gbar"), (pool, "decay"), "v_init"]

    assert_gradients(queue, dtype, make, 0.1, sum_of_squares)


def floor_case(queue, real, width):
    n = 35
    dtype = np.float64 if real == "double" else np.float32
    values = np.random.default_rng(1).random((3, n)).astype(dtype)
    spec = FloorSpec(real, width, streaming=width > 1)
    kernel = cl.Kernel(program.build(queue.context, spec), "floor_copy")
    d, u, b = (cla.to_device(queue, v) for v in values)
    x = cla.empty(queue, n, dtype)
    items, group = (6, 1) if width > 1 else (48, 16)
    kernel(queue, (items,), (group,), np.int64(n), d.data, u.data, b.data, x.data).wait()
    assert np.allclose(x.get(), values[0] + values[1] * values[2], rtol=1e-6)


def spikes_case(*arguments):
    """Two spike lists from several steps, delivered with fixed or changing weights."""
    assert deliver_spikes(*arguments).get().any()


def deliver_spikes(queue, algorithm, rule, delay):
    connections = random_connections(9, 40, 0.3, 2, (0.2, 0.8), delay)
    scale = connections.scale(largest=rule.max_weight(connections)) if rule else None
    delivery = Delivery(queue, connections, 43, 40, 30, algorithm, work_group=8, scale=scale)
    change = Plasticity(delivery, rule, 0.5, np.arange(43) % 9) if rule else delivery
    arrays = [cla.to_device(queue, np.zeros(size, np.int32)) for size in (30, 30, 1)]
    incoming = cla.to_device(queue, np.zeros(40 * 43, np.int64))
    spikes = [(cell, 3 + cell % 4) for cell in (5, 0, 7, 2, 4)], [(8, 9), (0, 9), (8, 7)]
    for cells, first, count in zip(spikes, (3, 7), (4, 36)):
        for array, column in zip(arrays, zip(*cells)):
            array.set(np.resize(np.array(column, np.int32), array.shape))
        arrays[2].set(np.array([len(cells)], np.int32))
        change.enqueue(arrays, incoming, first, 3 if rule else count)
        if rule and "reward" in rule.about.actions:
            change.reward(0.5, first + 2)
        delivery.check()
        delivery.reset(arrays[2])
    return incoming


def network_case(queue, engine, dtype, lanes, constant=False):
    """Some steps of a network with every kind of mechanism, events and records; two epochs.

    With `constant` all mechanisms are at somas, so that other factors are constants.
    """
    cables = [discretise(ring_cell(2, 0.9, 2, seed=k), max_length=100.0) for k in (1, 2)]
    net = Network(cables, 5)  # three cells of one shape, two of another
    channel = net.insert("hh", "soma", gnabar=[0.1, 0.12, 0.1, 0.12, 0.1])
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    tip = net.soma[:2] if constant else net.forest.cell_offsets[1:3] - 1
    syn = net.add("expsyn", at=np.concatenate([net.soma, tip]), tau=2.0, e=0.0)
    net.add("iclamp", at=net.soma[:2], dur=1.0, amp=0.5)
    net.add("inoise", at=net.soma[2:], std=0.1)
    net.connect(np.arange(5), syn, [1, 2, 3, 4, 5], 0.05, [0.2, 0.3, 0.2, 0.4, 0.2])
    net.add_event(syn, [0, 6, 0], [0.0, 0.1, 0.3], 0.05)
    net.threshold = -64.9
    make = engine
    if lanes:
        of_blocks = engine in ("blocks", "lists")
        lists = True if engine == "lists" else None
        make = cell_blocks.make
        if of_blocks:
            make = blocks(Limits(), units=lanes, by_node=lists)
    sim = Simulation(net, 0.1, dtype, queue=queue, engine=make, max_spikes=SPIKES)
    if engine in ("blocks", "lists"):
        assert sim.runner.kernels.launches[0].spec.constant == constant
    sim.record("v", net.soma[:2])
    sim.record("g", syn, [2])
    sim.record("i", channel, [1, 0])
    if engine == "steps":
        weights = np.linspace(-1.0, 1.0, 2 * len(net.area)).reshape(2, -1)
        for options in ({"every": 0.2}, {"reduce": "mean"}, {"reduce": "max"}):
            sim.record("i_membrane", np.arange(len(net.area)), matrix=weights, **options)
        sim.record("v", net.soma, reduce="crossings", threshold=-64.9)
        sim.record("i", syn, every=0.2)
        window = {"stim_start": 0.1, "stim_end": 0.3, "threshold": -64.9}
        sim.record("v", net.soma, reduce=Features(["peak_time", "voltage_base"], **window))
    result = sim.run(0.5)
    assert len(result.spike_time)
    assert np.isfinite(sim.voltages()).all()
    sim.set(channel, gnabar=[0.11, 0.13, 0.1, 0.12, 0.14])
    sim.reset()
    assert len(sim.run(0.3).t) == 4


def points_case(queue, dtype):
    """One-node neurons; a work-item with all of them delivers their spikes."""
    net = point_neurons(5, refractory=0.2)
    syn = net.add("expsyn", at=net.soma[[4, 2, 0, 0, 1, 3]], tau=2.0, e=0.0)
    net.add("iclamp", at=net.soma[:2], dur=1.0, amp=5.0)
    net.connect(np.arange(5), syn, [1, 2, 3, 4, 5], 0.05, [0.2, 0.3, 0.2, 0.4, 0.2])
    net.add_event(syn, [0, 5, 0], [0.0, 0.1, 0.3], 0.05)
    sim = Simulation(net, 0.1, dtype, queue=queue, engine=cell_blocks.make)
    assert sim.runner.kernels.alone
    sim.record("g", syn, [2])
    assert len(sim.run(1.5).spike_time)
    assert np.isfinite(sim.voltages()).all()


def rows_case(queue, dtype, count):
    """Neurons of one node that take whole steps in registers."""
    sim = Simulation(full_rows(count), 0.1, dtype, queue=queue, engine=cell_blocks.make)
    assert sim.runner.kernels.built[1].in_rows
    sim.record("v", [2])
    assert len(sim.run(1.5).spike_time)
    assert np.isfinite(sim.voltages()).all()


def adding(net, nodes, at, seen):
    """Add instances at nodes that add by pointers to variables of others, within their cells."""
    total = net.add(mod_files.ours("ext_total"), at=at)
    whole = net.add(Mechanism.from_nmodl(KEPT_NUMBER), at=at)
    adds = net.insert(mod_files.ours("ext_adds"), nodes, ri=2.0, length=5.0)
    net.set_pointer(total, "whole", (whole, "x", np.arange(len(at))))
    net.set_pointer(adds, "neighbour", to=seen)
    to = np.searchsorted(at, nodes, side="right").clip(1) - 1
    net.set_pointer(adds, "total", (total, "total", to))
    net.set_pointer(adds, "whole", (whole, "x", to))
    return total, whole


def exact_case(queue, dtype):
    """Some steps with ions, a table, pointers, random numbers, trains and artificial cells.

    `ext_watch` begins above its threshold's other side; events come from the first step on.
    """
    net = Network.from_arrays([-1, 0, -1, 2], [0, 2, 4], [300.0] * 4, [0.0, 2.0] * 2, [1e-3] * 4)
    nodes = np.arange(4)
    net.insert("hh", nodes[[0, 2]])
    for name in ("ext_cad", "ext_ca", "ext_kca", "ext_table"):
        net.insert(mod_files.ours(name), nodes)
    nmda = net.add(mod_files.ours("ext_nmda"), at=3)
    watch, gap = (net.add(mod_files.ours(f"ext_{name}"), at=[1, 3]) for name in ("watch", "gap"))
    net.add(mod_files.ours("nmodl/nmrandom"), at=[1, 2])
    fire = net.add_artificial(mod_files.ours("ext_fire"), 2)
    net.set_pointer(gap, "vgap", to=[3, 1])
    clamp = net.add(mod_files.ours("ext_clamp"), at=0)
    net.play(clamp, 0, "amp", [0.0, 0.3], [0.5, 2.0])
    net.add(mod_files.ours("ext_reset"), at=2, high=-80.0)
    total, _ = adding(net, nodes[[0, 1, 3]], [1, 3], [3, 0, 1])
    trains = net.spike_source([[0.05, 0.16], [0.11]])
    net.connect(trains, fire, weight=1.3, delay=0.02)
    net.connect(net.add_detector(0, -80.0), nmda, [0], [[0.004, 1.5]], 0.1)
    net.connect(fire, nmda, [0], [[0.003, 1.0]], 0.05, source_index=[1])
    net.connect(watch, fire, [1], [[1.2]], 0.1, source_index=[0])
    elsewhere = net.spike_source([[]])  # whose events come from another process
    net.connect(elsewhere, fire, [1], weight=1.3, delay=0.02)
    sim = Simulation(net, 0.1, dtype, queue=queue, engine="steps", max_spikes=SPIKES)
    number = sim.record("v", nodes), sim.record("m", fire), sim.record("total", total)
    result = sim.run(0.3)
    assert len(result.spike_time) > 1
    assert all(np.isfinite(result[k]).all() for k in number)
    sim.runner.take_events(net.source_numbers(elsewhere, [0]), np.array([0.31]))
    sim.run(0.1)
    assert sim.arrays()["cursor"][-1] == 1


def diffusing_case(queue, dtype):
    """Some steps of cells, parts of which have diffusing states, concentrations of ions too."""
    net, group = diffusing_network()
    net.insert(mod_files.ours("ext_spread"), group.nodes[3:-2], diam=1.5, source=0.01)
    sim = Simulation(net, 0.1, dtype, queue=queue, engine="epochs-gpu", max_spikes=SPIKES)
    number = sim.record("cai", group.nodes), sim.record("marker", group)
    result = sim.run(0.3)
    assert all(np.isfinite(result[k]).all() for k in number)


def layered_case(queue, dtype):
    """Some steps in cells with nodes around others, and in some without."""
    net, _ = layered_network()
    for engine in ("steps", "epochs-gpu"):
        sim = Simulation(net, 0.025, dtype, queue=queue, engine=engine, max_spikes=SPIKES)
        number = sim.record("v", np.arange(net.forest.num_nodes))
        assert np.isfinite(sim.run(0.075)[number]).all()


def field_case(queue, dtype):
    """Two double cables in a field, which acts on nodes without mechanisms; it is recorded."""
    net, group = fibres_in_field()
    more = {"v_init": -80.0, "max_spikes": SPIKES}
    sim = Simulation(net, 0.05, dtype, queue=queue, engine="epochs-gpu", **more)
    number = sim.record("v", net.soma), sim.record("i", group)
    result = sim.run(0.15)
    assert all(np.isfinite(result[k]).all() for k in number)


def exact_epochs_case(queue, dtype):
    """The same mechanisms by epochs of whole cells, which do not support pointers.

    Artificial cells are `together` if they are recorded, and otherwise one by one.
    """
    net, groups = exact_cells.with_artificial()
    net.add(mod_files.ours("ext_reset"), [net.soma[0] + 1], high=-80.0)
    more = {"secondorder": 2, "max_spikes": SPIKES}
    sim = Simulation(net, 0.05, dtype, queue=queue, engine="epochs-gpu", **more)
    number = [sim.record("v", net.soma), sim.record("n", groups["ext_table"])]
    sim.run(0.2)
    number += [sim.record("g", groups["several"]), sim.record("m", groups["ext_fire"])]
    result = sim.run(0.2)
    assert all(np.isfinite(result[k]).all() for k in number)


def pointed_case(queue, dtype, cells):
    """States and events that read voltages of other cells; events within a step and a cell.

    A work-group with two of the cells takes steps in turn; with five, each launch is a step.
    """
    parent, n = np.tile([-1, 0], cells) + 2 * np.repeat(np.arange(cells), 2), 2 * cells
    parent[::2] = -1
    net = Network.from_arrays(parent, np.arange(0, n + 1, 2), *[[300.0] * n, [2.0] * n, [1e-3] * n])
    soma = np.arange(0, n, 2)
    net.insert("hh", soma)
    seeing = net.add(mod_files.ours("ext_pre"), soma + 1)
    net.set_pointer(seeing, "vpre", to=np.roll(soma, 1))
    at, first = np.repeat(soma, 3) + [0, 0, 1] * cells, 3 * np.arange(cells)
    relay = net.add(Mechanism.from_nmodl(exact_cells.RELAY), at)
    for k in range(2):  # two of a layer, of which the lanes differ
        net.connect(relay, relay, first + 2, 1.0, 0.0, source_index=first + k)
        net.connect(net.add_detector(soma, -80.0), relay, first + k, 1.0, 0.3)
    net.connect(relay, seeing, np.arange(cells), 0.1, 0.0, source_index=first + 2)
    net.connect(net.spike_source([[0.05, 0.16]]), relay, [1], 1.0, 0.02)
    total, whole = adding(net, np.arange(n), soma, np.roll(np.arange(n), 1))
    more = {"secondorder": 2, "max_spikes": SPIKES}
    sim = Simulation(net, 0.1, dtype, queue=queue, engine="epochs-gpu", **more)
    variables = (("s", seeing), ("last", relay), ("total", total), ("x", whole))
    number = sim.record("v", soma), *(sim.record(name, group) for name, group in variables)
    result = sim.run(0.6)
    assert all(np.isfinite(result[k]).all() for k in number)
    assert (sim.runner.kernels._others.later, len(result.spike_time) > 1) == (cells > 4, True)


def gated_case(queue, dtype):
    """Mechanisms that read gates of hh at their own nodes and at others."""
    net, groups = gated_network(True, (3, 7))
    sim = Simulation(net, 0.1, dtype, queue=queue, engine="epochs-gpu", max_spikes=SPIKES)
    number = sim.record("n", groups["n"])
    assert np.isfinite(sim.run(0.4)[number]).all()


def blocks_case(queue, dtype):
    """The same by blocks of cells, a work-item each, as on CPUs."""
    cpu = SimpleNamespace(**{**vars(devices), "is_cpu": lambda _: True})
    net, groups = exact_cells.network()
    net.add(mod_files.ours("ext_reset"), [net.soma[0] + 1], high=-80.0)
    total, _ = adding(net, net.soma, net.soma, net.soma)
    planned = lambda m, wires, *_: blocks_of(m, wires, work_of(m), exact_cells.CELLS, 1.0)  # noqa: E731
    with (
        mock.patch.object(choose, "devices", cpu),
        mock.patch.object(steps, "devices", cpu),
        mock.patch.object(cell_blocks, "plan_blocks", planned),
    ):
        sim = Simulation(net, 0.05, dtype, queue=queue, max_spikes=SPIKES)
    assert isinstance(sim.runner.kernels, CellBlocks)
    variables = (("n", groups["ext_table"]), ("total", total))
    number = sim.record("v", net.soma), *(sim.record(name, group) for name, group in variables)
    result = sim.run(0.3)
    assert all(np.isfinite(result[k]).all() for k in number)


def case(label, function, *arguments):
    return label, lambda queue: function(queue, *arguments)


def clean_cases():
    """Yield name and function of every case that must run without a report."""
    both, either = ("float64", "float32"), ((np.float64, True), (np.float32, False))
    for config, (method, _) in CONFIGS.items():
        for name, forest in (("mixed", mixed_forest(method)), ("equal", equal_forest(method))):
            for dtype, symmetric in either:
                rows = 1 + (symmetric == (name == "equal"))  # each with either dtype
                kind = "symmetric" if symmetric else "unsymmetric"
                label = f"{config}: {name}, {np.dtype(dtype).name}, {kind}, {rows} rows"
                yield case(label, solve_case, config, forest, dtype, symmetric, rows)
            yield case(f"{config}: {name}, in place", in_place_case, config, forest)
    # Vectors of cells whose codes are not in order; trees of more places than a group's values;
    # chains without codes.
    more = families() | {"equal chains": [chain(19)] * 5}
    for config, name in (
        ("vector", "few_shapes"),
        ("contraction", "caterpillar"),
        ("interleaved", "chain"),
        ("interleaved", "equal chains"),
    ):
        forest = forest_for(CONFIGS[config][0], more[name])
        for dtype, symmetric in ((np.float64, False), (np.float32, True)):
            label = f"{config}: {name}, {np.dtype(dtype).name}"
            yield case(label, solve_case, config, forest, dtype, symmetric, 1)
    for engine, lanes in (("steps", 0), ("cells", 2), ("blocks", 1), ("blocks", 2), ("lists", 2)):
        for dtype in both:
            label = f"network: {engine}, {lanes} lanes, {dtype}"
            yield case(label, network_case, engine, dtype, lanes)
    yield case("network: constant factors", network_case, "blocks", "float64", 2, True)
    yield case("network: points", points_case, "float64")
    for count in 13, 16:  # the last group has idle lanes, or is full
        yield case(f"network: rows, {count} cells", rows_case, "float64", count)
    yield case("network: exact steps", exact_case, "float64")
    for dtype in both:
        yield case(f"network: diffusion, {dtype}", diffusing_case, dtype)
        yield case(f"network: layers, {dtype}", layered_case, dtype)
        yield case(f"network: fibres in a field, {dtype}", field_case, dtype)
    yield case("network: exact epochs", exact_epochs_case, "float64")
    for cells in (2, 5):
        yield case(f"network: pointers, {cells}", pointed_case, "float64", cells)
    yield case("network: gates of others", gated_case, "float64")
    yield case("network: cell blocks", blocks_case, "float64")
    for dtype in (np.float64, np.float32):
        for symmetric in (True, False):
            label = f"pieces: {np.dtype(dtype).name}, {'' if symmetric else 'un'}symmetric"
            yield case(label, pieces_case, dtype, symmetric)
    for method in ("cr", "pcr", "cr_pcr"):
        for dtype, symmetric in either:
            label = f"long chains: {method}, {np.dtype(dtype).name}, {symmetric}"
            yield case(label, long_chains_case, method, dtype, symmetric)
    caterpillars = forest_for("contraction", families()["caterpillar"])
    forests = {"mixed": mixed_forest(), "equal": equal_forest(), "caterpillar": caterpillars}
    for name, forest in forests.items():
        for dtype, symmetric in either:
            label = f"factors: {name}, {np.dtype(dtype).name}, {symmetric}"
            yield case(label, factor_case, forest, dtype, symmetric)
    for algorithm in ALGORITHMS:
        pairs = STDP(0.01, 0.01, 3.0, 3.0, 0.0, 0.9)
        for rule, delay in (None, (1, 3)), (None, 2), (pairs, (1, 3)), (pairs, 2):
            label = f"spikes: {algorithm}, {'plastic' if rule else 'fixed'}, {delay}"
            yield case(label, spikes_case, algorithm, rule, delay)
    for name in ("triplet", "dopamine"):
        yield case(f"spikes: {name}", spikes_case, "pull", Rule(name), (1, 3))
    for real in ("double", "float"):
        yield case(f"tridiagonal: {real}", tridiagonal_case, real)
        for width in (1, 4):
            yield case(f"floor: {real}, {width}", floor_case, real, width)
    for limits in (Limits(), Limits(is_cpu=True, vector_bytes=16, compute_units=1)):
        for symmetric in (True, False):
            label = f"many right-hand sides: {'CPU' if limits.is_cpu else 'GPU'}, {symmetric}"
            yield case(label, many_case, limits, symmetric)
    for sizes in ([9], [4] * 11, [5, 1, 3, 6]):
        for symmetric in (True, False):
            yield case(f"chains in lanes: {sizes}, {symmetric}", lanes_case, sizes, symmetric)
    for dtype, mode in itertools.product(both, ("forward", "reverse")):
        yield case(f"gradients: {dtype}, {mode}", gradient_case, dtype, mode)
    for dtype in both:
        yield case(f"gradients of events: {dtype}", event_gradient_case, dtype)
        yield case(f"gradients of ions: {dtype}", ion_gradient_case, dtype)


def share_of(part):
    """Name and function of every eighth case, for ``clean 0`` to ``clean 7``."""
    return list(clean_cases())[int(part[-1]) :: 8]
