"""Functions from .mod files with tables in epochs, by lists of cells."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from clhines import Mechanism, Network, Simulation
from clhines.simulator.gpu import epochs, functions
from clhines.simulator.gpu.lists import _index_type, _mixed_rows, _rows_and_lanes, _weight_of
from clhines.simulator.gpu.words import WARP

MODS = Path(__file__).parents[3] / "bench" / "mods"
ENGINE = "epochs-gpu"


def cells(names):
    """Return two cells with four nodes; the last node of each has one channel at most."""
    parent, n = np.array([-1, 0, 1, 1, -1, 4, 5, 5]), 8
    area = np.linspace(400.0, 900.0, n)
    net = Network.from_arrays(parent, [0, 4, 8], area, np.full(n, 0.1), 1e-5 * area)
    net.ion("na", e=50.0)
    net.ion("k", e=-85.0)
    groups = {}
    for name in names:
        mechanism = Mechanism.from_nmodl(MODS / f"{name}.mod", use_tables=True)
        where = np.arange(n) if name == "ih" else np.array([0, 1, 2, 4, 5, 6])
        groups[name] = net.insert(mechanism, where, gbar=1e-4 if name == "ih" else 0.02)
    clamp = net.add("iclamp", at=np.array([0, 4]), delay=0.2, dur=5.0, amp=[0.05, 0.3])
    net.play(clamp, 0, "amp", [0, 2, 4.0], [0.05, 0.3, 0.1])
    net.add_detector(np.array([0, 5]), -50.0)
    return net, groups


@pytest.fixture
def specs(monkeypatch):
    """Return a list to which each plan adds its spec."""
    made, with_lists = [], epochs.with_lists

    def kept(*arguments):
        made.append(with_lists(*arguments)[0])
        return with_lists(*arguments)

    monkeypatch.setattr(epochs, "with_lists", kept)
    return made


def test_channels_with_tables_as_the_reference(double_queue, monkeypatch, specs):
    results, spikes = {}, {}
    monkeypatch.setattr(functions, "_FEW_LISTS", 0)
    for engine, more in (("reference", True), (ENGINE, True), (ENGINE, False)):
        net, groups = cells(("nata", "skv", "ih"))
        sim = Simulation(net, 0.05, queue=double_queue, engine=engine)
        numbers = [sim.record("v", np.arange(8))]
        if more:
            numbers += [sim.record("m", groups["nata"]), sim.record("ina", [0, 1, 5])]
        result = sim.run(6.0)
        results[engine, more] = [result[k] for k in numbers]
        spikes[engine, more] = result.spike_time
    assert specs[0].classes and specs[0].selects and specs[0].loop.sums_apart and specs[0].terms
    assert all(k.held for k in specs[0].blocks if k.kind == "density")
    expected = results["reference", True]
    assert np.ptp(expected[0]) > 20 and np.ptp(expected[1]) > 0.1
    for values, exact in zip(results[ENGINE, True], expected, strict=True):
        np.testing.assert_allclose(values, exact, 0, 1e-10 * np.abs(exact).max())
    assert np.array_equal(results[ENGINE, True][0], results[ENGINE, False][0])
    assert len(spikes["reference", True]) > 1
    for values in spikes.values():
        np.testing.assert_allclose(values, spikes["reference", True], 0, 1e-12)


def test_few_lists_have_no_statements_for_classes():
    """Kernels have statements for classes only if all cells together have many lists."""
    rows, homes = np.array([[1], [3], [3]]), np.zeros((200, 8), np.int64)
    homes[:, 3] = 3
    assert functions._classes(SimpleNamespace(rows=rows, homes=homes)) == (3, 1)
    assert functions._classes(SimpleNamespace(rows=rows, homes=homes[:20])) == ()


def test_a_table_of_which_one_variable_is_looked_up(double_queue):
    """Compare a TABLE from which functions read one column with `reference`."""
    file, results = Path(__file__).parents[2] / "mod" / "na.mod", []
    for engine in ("reference", ENGINE):
        net, _ = cells(())
        net.insert(Mechanism.from_nmodl(file, use_tables=True))
        sim = Simulation(net, 0.05, queue=double_queue, engine=engine)
        number = sim.record("v", np.arange(8))
        results.append(sim.run(4.0)[number])
    assert np.ptp(results[0]) > 1
    np.testing.assert_allclose(results[1], results[0], 0, 1e-10 * np.abs(results[0]).max())


WARM = """
NEURON { SUFFIX warm NONSPECIFIC_CURRENT i RANGE gbar, tau, inf GLOBAL q10, slope }
PARAMETER { gbar = 1e-4 (S/cm2) q10 = 3 slope = 9 (mV) celsius (degC) v (mV) }
STATE { m }
ASSIGNED { i (mA/cm2) tau (ms) inf }
INITIAL { rates() m = inf }
BREAKPOINT { SOLVE states METHOD cnexp i = gbar*m*(v + 50) }
DERIVATIVE states { rates() m' = (inf - m)/tau }
PROCEDURE rates() { LOCAL qt
    qt = q10^((celsius - 24)/10)
    inf = 1/(1 + exp(-(v + 60)/slope))
    tau = 5*exp((v + 60)/40)/qt
}
"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_is_the_same_at_all_nodes(typed_queue, specs, dtype):
    """Compute such values once a launch, and again after `set` changes their parameters."""
    results = []
    for engine in ("reference", ENGINE):
        net, _ = cells(())
        group = net.insert(Mechanism.from_nmodl(WARM))
        sim = Simulation(net, 0.05, dtype, queue=typed_queue, engine=engine)
        number = sim.record("v", np.arange(8))
        first = sim.run(3.0)[number]
        sim.set(group, q10=2.0, slope=5.0)
        results.append((first, sim.run(3.0)[number]))
    assert any("warm_constants(" in text for text in specs[0].once)
    constants, advance = specs[0].arena.kinds[-1].functions.split("void warm_advance(")
    assert "pow(q10" in constants and "pow(q10" not in advance
    eps = {"float64": 1e-11, "float32": 2e-4}[dtype]  # relative to the largest voltage
    for values, exact in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(values, exact, 0, eps * np.abs(exact).max())
    assert np.abs(results[1][1][-1] - results[1][0][-1]).max() > 1e-3


GATED = """
NEURON { SUFFIX %s NONSPECIFIC_CURRENT i RANGE gbar, minf, mtau, i, alpha }
PARAMETER { gbar = 1e-4 (S/cm2) }
STATE { m }
ASSIGNED { v (mV) i (mA/cm2) minf mtau (ms) alpha (/ms) }
INITIAL { rates(v) m = minf }
BREAKPOINT { SOLVE states METHOD cnexp i = gbar*m*(v + 70) alpha = minf/mtau }
DERIVATIVE states { rates(v) m' = (minf - m)/mtau }
PROCEDURE rates(v) { mtau = %s + 0.01*(v + 90) minf = 1/(1 + exp(-(v + 60)/8)) }
"""
SIZE = 40  # nodes in a cell


def gated_cells(count):
    """Return cells with up to three mechanisms per node, which set variables that none reads."""
    rng, n = np.random.default_rng(5), count * SIZE
    parent = np.arange(-1, n - 1)
    parent[::SIZE] = -1
    area = rng.uniform(300, 900, n)
    net = Network.from_arrays(parent, np.arange(0, n + 1, SIZE), area, np.full(n, 0.1), 1e-5 * area)
    groups = {}
    for name, tau in (("one", 1.5), ("two", 3.0), ("three", 7.0)):
        nodes = np.flatnonzero(rng.random(n) < 0.6)
        made = Mechanism.from_nmodl(GATED % (name, tau))
        groups[name] = net.insert(made, nodes, gbar=rng.uniform(1e-5, 1e-3, len(nodes)))
    net.add("iclamp", at=np.arange(count) * SIZE, delay=0.5, dur=2.0, amp=0.1)
    net.add_detector([0], 0.0)
    return net, groups


@pytest.mark.parametrize("more", [True, False])
def test_lists_of_several_classes(double_queue, specs, more):
    """Compare voltages, gates and unread states, recorded and after a run, with `reference`.

    There are so many cells that a work-group has several, on GPUs too.
    """
    count = 2 * double_queue.device.max_compute_units + 1
    results = {}
    for engine in ("reference", ENGINE):
        net, groups = gated_cells(count)
        sim = Simulation(net, 0.05, queue=double_queue, engine=engine)
        numbers = [sim.record("v", np.arange(count * SIZE))]
        if more:
            numbers += [
                sim.record(x, groups[k]) for k in ("one", "three") for x in ("m", "minf", "alpha")
            ]
        result = [sim.run(1.5), sim.run(2.0)]
        left = sim.arrays()
        states = [left[f"state{k}_{x}"] for k in range(3) for x in ("m", "minf", "mtau")]
        results[engine] = [np.concatenate([r[k] for r in result]) for k in numbers] + states
    assert all(k.unread == ("minf", "mtau") for k in specs[0].blocks if k.name in groups)
    assert all(spec.mixed for spec in specs) and all(s.units > 1 for s in specs if s.ptx)
    assert np.ptp(results["reference"][0]) > 5
    for values, exact in zip(results[ENGINE], results["reference"], strict=True):
        np.testing.assert_allclose(values, exact, 0, 1e-10 * np.abs(exact).max())


def test_mixed_rows_lists_have_less_in_them():
    """A node has its own lane in a list of its cell, and mixed rows weigh at most split rows."""
    rng, weight = np.random.default_rng(1), np.array([2.0, 1, 4, 3])
    for _ in range(20):
        cell = np.sort(rng.integers(0, 4, rng.integers(1, 300)))
        cell = np.unique(cell, return_inverse=True)[1]
        bits = rng.integers(0, 16, len(cell))
        order = np.lexsort((bits, cell))
        row, lane = _mixed_rows(order, bits, cell, weight)
        assert np.array_equal(np.unique(row), np.arange(row.max() + 1))
        assert len(np.unique(row * WARP + lane)) == len(cell) and lane.max() < WARP
        assert (np.diff(row[order]) >= 0).all() and (np.diff(cell[order]) >= 0).all()
        both = [
            _weight_of(r, bits, cell, weight) for r in (row, _rows_and_lanes(order, bits, cell)[0])
        ]
        assert (both[0] <= both[1]).all()
        filled = sum(-(-np.bincount(cell) // WARP))
        assert filled <= row.max() + 1


def test_node_indices_take_the_smallest_integers():
    most = np.iinfo(np.int32).max
    assert _index_type(np.array([most - 7]), np.array([7])) is np.int32
    assert _index_type(np.array([most - 6]), np.array([7])) is np.int64
