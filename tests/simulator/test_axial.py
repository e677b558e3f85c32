"""Short joined sections, whose axial conductance is thousands of times C/dt."""

from functools import cache, partial

import mod_files
import numpy as np
import pytest

from bench.made import random_binary_tree
from clhines import Forest, Network, Simulation
from clhines.simulator.engines.reference import axial_currents, neighbours, placed_neighbours
from clhines.simulator.gpu import epochs

DT, STOP, V_INIT, AMP = 0.025, 2.0, -61.3, 1e-3  # ms, ms, mV, nA
PARENT = [-1, 0, 1, 1, 0, 4, 4]
CHAIN, TAU, LONG = 40, 10.0, 25.0  # compartments; the membrane's time constant; ms


def in_neuron(h, secondorder):
    """Join sections of 1 to 3 µm at their middles; return reversal potentials, v, arrays."""
    rng, sections = np.random.default_rng(11), []
    for k, above in enumerate(PARENT):
        section = h.Section(name=f"short{k}")
        section.L, section.diam, section.Ra = rng.uniform(1, 3), rng.uniform(5, 10), 100
        section.insert("pas")
        section.g_pas, section.e_pas = 1e-4, rng.uniform(-80, -50)
        if above >= 0:
            section.connect(sections[above](0.5))
        sections.append(section)
    clamp = h.IClamp(sections[3](0.5))
    clamp.delay, clamp.dur, clamp.amp = 0, 1e9, AMP
    middles = [section(0.5) for section in sections]
    h.dt, h.secondorder = DT, secondorder
    vectors = [h.Vector().record(segment._ref_v) for segment in middles]
    h.finitialize(V_INIT)
    for _ in range(round(STOP / DT)):
        h.fadvance()
    h.secondorder = 0
    area = np.array([segment.area() for segment in middles])
    g_axial = np.array([0.0, *(1 / segment.ri() for segment in middles[1:])])
    e = [section.e_pas for section in sections]
    return e, np.array(vectors).T, (PARENT, [0, len(PARENT)], area, g_axial, 1e-5 * area)


@pytest.mark.neuron
@pytest.mark.parametrize(
    ("engine", "dtype", "secondorder"),
    [
        ("reference", "float64", 0),
        ("reference", "float64", 1),
        ("steps", "float32", 0),
        ("steps", "float64", 1),
        ("epochs-gpu", "float64", 0),
        ("epochs-gpu", "float32", 1),
    ],
)
def test_short_sections_are_those_of_neuron(double_queue, engine, dtype, secondorder):
    """A row of the matrix rounds C/dt by eps times the axial conductance, and v is rounded once.

    So changes of v have that relative error, and each step adds eps v. If a step solved for v
    itself, each step would add eps times v times the axial conductance over C/dt.
    """
    h = pytest.importorskip("neuron", reason="NEURON is not installed").h
    e, expected, arrays = in_neuron(h, secondorder)
    net, nodes = Network.from_arrays(*arrays), np.arange(len(PARENT))
    net.insert("pas", nodes, g=1e-4, e=e)
    net.add(mod_files.ours("ext_clamp"), at=3, amp=AMP)  # makes it a network with exact times
    given = {"queue": double_queue, "engine": engine, "secondorder": secondorder, "v_init": V_INIT}
    sim = Simulation(net, DT, dtype, **given)
    assert sim.model.exact
    number = sim.record("v", nodes)
    ratio = (sim.model.constant_d / sim.model.capacitance_over_dt).max()
    change, eps = np.ptp(expected), np.finfo(dtype).eps
    result = sim.run(STOP)[number]
    assert ratio > 1000 and change > 0.1
    most = 4 * eps * (ratio * change + len(expected) * np.abs(expected).max())
    np.testing.assert_allclose(result, expected, 0, most)


def chain(at):
    """Return a cell, a chain of short compartments with a clamp at `at`, and events at steps.

    Only compartment 0 is of the soma: all factors are constants if the clamp is there.
    """
    parent, area = np.arange(CHAIN) - 1, np.full(CHAIN, 3.0)
    g_axial = np.append(0, np.random.default_rng(7).uniform(2, 3, CHAIN - 1))
    net = Network.from_arrays(parent, [0, CHAIN], area, g_axial, TAU * 1e-6 * area)
    net.insert("pas", np.arange(CHAIN), g=1e-4, e=np.linspace(-70, -60, CHAIN))
    net.add("iclamp", at=[at], delay=1.0, dur=2 * LONG, amp=AMP / 10)
    return net


def along_chain(at, **options):
    sim = Simulation(chain(at), DT, **options)
    number = sim.record("v", np.arange(CHAIN))
    return sim, sim.run(LONG)[number]


@cache
def by_the_reference(at):
    return along_chain(at, engine="reference")[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("engine", "at", "template", "roundings"),
    [
        ("steps", 0, None, 1),
        ("epochs-cpu", 0, None, 1),
        (epochs.make, 0, "epoch_constant", 8),
        (partial(epochs.make, by_node=False), CHAIN - 1, "epoch_by_instance", 1),
        (partial(epochs.make, by_node=True), CHAIN - 1, "epoch_by_node", 1),
    ],
    ids=["steps", "epochs-cpu", "constant", "by_instance", "by_node"],
)
def test_short_compartments_lose_nothing(fast_queue, needs, engine, at, template, roundings, dtype):
    """A step rounds v by eps/2 |v| if it solves for the change of v, else `roundings` times that.

    A step multiplies errors of v by a matrix of positive numbers whose rows sum up to
    1 / (1 + dt / TAU), so the errors of TAU / dt steps add up. In a step that solves for v itself,
    every sum has terms of one sign: a compartment rounds three constants, three products and two
    sums. The change of v has the relative error of a matrix row, eps times the axial conductance
    over C/dt. With the axial conductance in the error of v, this would be `ratio` times as large.
    """
    needs(fast_queue, dtype)
    sim, result = along_chain(at, queue=fast_queue, engine=engine, dtype=dtype)
    if template:
        assert sim.runner.kernels.launches[0].spec.template.endswith(template)
    assert "exact_times" not in sim.model.needs
    ratio = (sim.model.constant_d / sim.model.capacitance_over_dt).max()
    expected, eps = by_the_reference(at), np.finfo(dtype).eps
    change, highest = np.ptp(expected), np.abs(expected).max()
    most = eps * (roundings / 2 * TAU / DT * highest + ratio * change)
    assert ratio > 4000 and change > 40 * most
    np.testing.assert_allclose(result, expected, 0, most)


def test_neighbours_and_currents():
    """Compare neighbours with a dense matrix, and currents with its product with v."""
    rng = np.random.default_rng(3)
    forest = Forest.from_parents([random_binary_tree(n, 3, n) for n in (1, 2, 40)])
    n = forest.num_nodes
    dense, u = np.zeros((n, n)), -rng.uniform(1, 2, n)
    child = np.flatnonzero(forest.parent >= 0)
    dense[child, forest.parent[child]] = dense[forest.parent[child], child] = -u[child]
    parent, first, later = neighbours(forest.parent)
    for node in range(n):
        around, below = [parent[node]] if parent[node] >= 0 else [], first[node]
        while below >= 0:
            around, below = [*around, below], later[below]
        assert sorted(around) == np.flatnonzero(dense[node]).tolist()
    v = rng.uniform(-80, 40, n)
    expected = dense @ v - dense.sum(axis=1) * v
    eps = 8 * np.finfo(np.float64).eps * (dense.sum(axis=1) * 80).max()
    np.testing.assert_allclose(axial_currents(forest, u, v), expected, 0, eps)
    gather = rng.permutation(np.append(np.arange(n), [-1, -1]))
    place = np.argsort(gather)[2:]
    placed = placed_neighbours(forest, gather, place)
    for named, here in zip((parent, first, later), placed, strict=True):
        want = np.where(gather < 0, -1, named[gather])
        assert np.array_equal(np.where(here < 0, -1, gather[here]), want)
