"""A part of a network has the whole network's bits, on each engine."""

from dataclasses import replace
from functools import partial
from importlib import import_module

import mod_files
import numpy as np
import pytest
from networks import CABLES, DT, dendrites_network, noisy_network

from bench.ring import ring_cables, ring_network
from clhines import Network
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.engines.run import Job, Request
from clhines.simulator.engines.steps import Steps
from clhines.simulator.gpu.epochs import CellEpochs
from clhines.simulator.model import compile
from clhines.simulator.ranks import partition
from clhines.simulator.state.decisions import Decisions
from clhines.solver.device.devices import limits


def uneven_network():
    """Return cells of which only the last have active dendrites, noise and larger trees."""
    net = Network([CABLES[0]] * 4 + [CABLES[2], CABLES[1]])
    last = net.forest.cell_offsets[4]
    nodes = np.flatnonzero(net.area > 0)
    net.insert("hh", np.union1d(net.soma, nodes[nodes >= last]))
    net.insert("pas", np.setdiff1d(nodes[nodes < last], net.soma))
    net.add("inoise", at=net.soma[[4, 5, 5]], mean=0.05, std=0.05)
    net.add("iclamp", at=net.soma[1::2], dur=5.0, amp=0.4)
    return net, None


def uneven_times():
    """Return `uneven_network` with ions, and instances that receive events one by one."""
    net = Network([CABLES[0]] * 4 + [CABLES[2], CABLES[1]])
    net.insert("hh", net.soma)
    for name in ("ext_cad", "ext_ca", "ext_kca"):
        net.insert(mod_files.ours(name), net.soma[4:])
    net.insert("pas", np.setdiff1d(np.flatnonzero(net.area > 0), net.soma))
    at = np.concatenate([net.soma[:5] + 1, net.soma[[5, 5, 5]] + 1])
    syn = net.add(mod_files.ours("ext_nmda"), at)
    clamp = net.add(mod_files.ours("ext_clamp"), net.soma[1::2])
    net.play(clamp, 2, "amp", [0, 0.5, 1.0], [0, 0.4, 0.2])
    times = [np.arange(0.2, 1.5, 0.3 + 0.1 * k) for k in range(len(at))]
    net.connect(net.spike_source(times), syn, np.arange(len(at)), [[0.01, 1.0]], 0.1)
    return net, None


def sized_network():
    """Return small and large cells, which `CellEpochs` plans apart on a small device."""
    cables = [*ring_cables(3, levels=5), *ring_cables(3, levels=3)]
    return ring_network([cables[k] for k in (0, 3, 1, 4, 2, 5)], 12, delay=0.5), None


@pytest.mark.parametrize(
    ("executor", "build", "dtype"),
    [
        ("sizes", sized_network, "float64"),
        ("cpu.blocks", uneven_network, "float64"),
        ("cpu.blocks", uneven_network, "float32"),
        ("cpu.blocks", noisy_network, "float64"),
        ("blocks", uneven_network, "float64"),
        ("blocks", noisy_network, "float32"),
        ("blocks", dendrites_network, "float64"),
        ("lists", uneven_network, "float64"),
        ("lists", uneven_network, "float32"),
        ("lists", dendrites_network, "float64"),
        ("steps", uneven_network, "float32"),
        ("steps", dendrites_network, "float64"),
        ("cpu.blocks", uneven_times, "float64"),
        ("cpu.blocks", uneven_times, "float32"),
        ("gpu.epochs", uneven_times, "float64"),
    ],
)
def test_a_cell_has_the_same_bits_in_any_part(typed_queue, build, executor, dtype):
    """Compare v of a part after some steps, without spikes from elsewhere, on each engine."""
    whole = compile(build()[0], DT, seed=7)
    cells = whole.forest.num_cells
    expected = voltages(whole, typed_queue, dtype, executor)
    assert np.ptp(expected[whole.soma]) > 1e-3
    several = build in (uneven_network, uneven_times)
    for bounds in ((0, 1), (1, cells)) if several else ((2, cells),):
        part = partition.Share(whole, *bounds).model()
        low, high = whole.forest.cell_offsets[list(bounds)]
        result = voltages(part, typed_queue, dtype, executor, Decisions.of(whole, split=True))
        np.testing.assert_array_equal(result, expected[low:high])


def voltages(model, queue, dtype, executor, decisions=None):
    request = Request(None, queue, np.dtype(dtype), executor, 60, None, "auto", {})
    job = Job(model, request, decisions, True)
    if executor in ("blocks", "sizes", "lists"):
        room = limits(queue.device)
        apart, lists = executor == "sizes", True if executor == "lists" else None
        room = replace(room, compute_units=1) if apart else room
        run = ArenaRun(job, partial(CellEpochs, limits=room, by_node=lists), "epochs")
        launches = run.kernels.launches
        assert not lists or launches[0].spec.by_node
        assert not apart or len(launches) > 1
    elif "." in executor:
        run = import_module(f"clhines.simulator.{executor}").make(job)
    else:
        run = ArenaRun(job, Steps)
    run.begin(60, [])
    for first in range(0, 60, 20):
        run.advance(first, 20, first)
    return run.voltages()
