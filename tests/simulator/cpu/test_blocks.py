"""Blocks of whole cells on CPUs, many steps in one launch, against the reference on the host.

As in `test_exact_epochs`, each step differs by some units in the last place.
"""

import mod_files
import numpy as np
import pytest
from exact_cells import CELLS, NODES, with_fire

from bench.ring import ring_cables
from clhines import InputError, Mechanism, Network, Simulation
from clhines.simulator.cpu import blocks
from clhines.simulator.cpu.blocks import CellBlocks
from clhines.simulator.cpu.plan import blocks_of, work_of
from clhines.simulator.engines import steps

DT, STOP = 0.05, 20.0  # ms
EPS = 100 * (STOP / DT) * np.finfo(np.float64).eps


@pytest.fixture
def by_cell(monkeypatch):
    made = []

    def planned(model, wires, units, always, split):
        made.append(blocks_of(model, wires, work_of(model), CELLS, 1.0))
        return made[-1]

    monkeypatch.setattr(blocks, "plan_blocks", planned)
    return made


def taken(sim, groups):
    numbers = [sim.record("v", np.arange(CELLS * NODES)), sim.record("fired", groups["ext_fire"])]
    numbers += [sim.record("g", groups["ext_nmda"]), sim.record("cai", [0, NODES])]
    return numbers, sim.run(STOP)


def test_as_the_reference(cpu, by_cell, tmp_path):
    options = {"queue": cpu, "chunk": 130, "secondorder": 2}
    net, groups = with_fire()
    slow = Simulation(net, DT, engine="reference", secondorder=2)
    numbers, expected = taken(slow, groups)
    sim = Simulation(net, DT, **options)
    assert isinstance(sim.runner.kernels, CellBlocks) and sim.engine == "epochs-cpu"
    (blocks,) = by_cell
    assert blocks.count == CELLS and blocks.crossing.sum() > 2 and 1 < blocks.epoch < STOP / DT
    _, result = taken(sim, groups)
    for number in numbers:
        scale = np.abs(expected[number]).max()
        assert scale > 0
        np.testing.assert_allclose(result[number], expected[number], 0, EPS * scale)
    assert np.array_equal(result.spike_cell, expected.spike_cell)
    assert len({*result.spike_cell.tolist()}) > CELLS
    np.testing.assert_allclose(result.spike_time, expected.spike_time, 0, 1e-12 * STOP)
    sim.save(tmp_path / "state.npz")
    later = sim.run(3.35)
    other = Simulation(net, DT, **options)
    taken(other, groups)
    other.restore(tmp_path / "state.npz")
    again = other.run(3.35)
    assert all(np.array_equal(later[k], again[k]) for k in numbers)


def test_too_many_events_between_blocks(cpu, by_cell):
    """Too many events for an instance that another block sends to are an error, not lost."""
    net = Network.from_arrays([-1] * CELLS, np.arange(CELLS + 1), *[[300.0] * CELLS] * 3)
    added = net.add(mod_files.ours("ext_sum"), [0, 2])
    fire = net.add_artificial(mod_files.ours("ext_fire"), 1, refrac=1e-4)
    net.connect(fire, added, [0, 1], 1e-6, 6 * DT, source_index=[0, 0])
    net.connect(net.spike_source([np.arange(1, 4, DT / 3.3)]), fire, [0], 2.0, 0.1)  # 3.3 per step
    Simulation(net, DT, queue=cpu, engine="steps").run(5.0)
    sim = Simulation(net, DT, queue=cpu)
    assert by_cell[0].crossing.any()
    with pytest.raises(InputError, match="more events within its longest delay"):
        sim.run(5.0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", ["auto", "steps"])
def test_nodes_in_rows_twice_and_apart(cpu, dtype, engine, monkeypatch):
    """Compare instances at consecutive nodes, with gaps, and two at one node."""
    monkeypatch.setattr(steps, "LEAST_NODES", 8)
    n = 50
    rng = np.random.default_rng(3)
    parent = np.array([-1, *(int(rng.integers(max(0, k - 9), k)) for k in range(1, n))])
    area = rng.uniform(300, 900, n)
    net = Network.from_arrays(parent, [0, n], area, rng.uniform(0.05, 0.2, n), 1e-5 * area)
    net.insert("pas", np.arange(n), g=1e-4, e=-65.0)
    rows = np.delete(np.arange(n), [20, 33])
    for name in ("ext_cad", "ext_ca", "ext_kca", "na"):
        net.insert(mod_files.ours(name), rows)
    table = net.insert(mod_files.ours("ext_table"), rows, gbar=np.linspace(1e-4, 3e-4, n - 2))
    twice = np.concatenate([[0, 0, 2], rows[3:36]])  # the first 8 span 8 nodes with one gap
    net.add(mod_files.ours("ext_clamp"), at=twice, amp=rng.uniform(0.005, 0.02, 36))
    both = net.add(mod_files.ours("ext_nmda"), at=twice)
    net.connect(net.spike_source([[1.0, 2.0, 5.0]]), both, np.arange(36), [[0.0005, 1.0]] * 36, 0.1)
    results = []
    for options in ({"engine": "reference"}, {"queue": cpu, "dtype": dtype, "engine": engine}):
        sim = Simulation(net, DT, **options)
        recorded = [sim.record("v", np.arange(n)), sim.record("cai", rows), sim.record("n", table)]
        recorded.append(sim.record("g", both))
        result = sim.run(8.0)
        results.append([result[r] for r in recorded])
    assert (sim.engine == "epochs-cpu") == (engine == "auto")
    for expected, result in zip(*results, strict=True):
        scale = np.abs(expected).max()
        eps = EPS * np.finfo(dtype).eps / np.finfo(np.float64).eps
        np.testing.assert_allclose(result, expected, 0, eps * scale)


DECAYS = """
NEURON { SUFFIX decays NONSPECIFIC_CURRENT i RANGE g, e }
PARAMETER { g = 1e-4 (S/cm2) e = -60 (mV) }
STATE { m }
ASSIGNED { v (mV) i (mA/cm2) }
INITIAL { m = 1 }
BREAKPOINT { SOLVE states METHOD cnexp i = g*m*(v - e) }
DERIVATIVE states { m' = -m/5 }
"""


def take_two_blocks(monkeypatch, together):
    """Put cells with `together` nodes into a tile, and the tiles into two blocks."""
    monkeypatch.setattr(blocks, "TOGETHER", together)
    monkeypatch.setattr(
        blocks, "plan_blocks", lambda m, w, *_, **__: blocks_of(m, w, work_of(m), 2, 1.0)
    )


def drive(net):
    net.add("iclamp", at=net.soma, delay=0.5, dur=1.0, amp=0.4 + 0.02 * np.arange(21))
    synapses = net.add(mod_files.ours("ext_nmda"), at=net.soma + 3)
    net.connect(
        net.add_detector(net.soma, -20.0), synapses, np.arange(21)[::-1], [[5e-4, 1.0]] * 21, 1
    )
    return synapses


@pytest.mark.parametrize("secondorder", [0, 2])
@pytest.mark.parametrize("together", [1, 10**6])
def test_cells_of_one_shape_side_by_side_and_of_several_by_turns(
    cpu, monkeypatch, together, secondorder
):
    """Compare tiles of all widths and with one or more rows: events, ions and records."""
    take_two_blocks(monkeypatch, together)
    cables = ring_cables(4, levels=2, compartments=3)
    net = Network(cables, 21)  # shapes have 6, 5, 5 and 5 cells
    soma = net.insert(mod_files.ours("na"), net.soma)
    net.insert("hh")
    net.insert(mod_files.ours("ext_ca"), net.soma[::2])
    net.insert(Mechanism.from_nmodl(DECAYS), net.soma + 2)  # advances without v
    synapses = drive(net)
    results = []
    for options in ({"engine": "reference"}, {"queue": cpu, "engine": "epochs-cpu"}):
        sim = Simulation(net, DT, secondorder=secondorder, **options)
        wanted = sim.record("v", net.soma), sim.record("g", synapses), sim.record("ina", net.soma)
        wanted += (sim.record(soma.mechanism.program.states[0].name, soma),)
        result = sim.run(6.0)
        results.append([result[r] for r in wanted] + [sim.voltages(), result.spike_time])
    if together > 1:
        assert (sim.runner.kernels.layout.tiles.roots > 1).any()
    assert {1, 2} <= set(sim.runner.kernels.layout.tiles.widths) and len(results[0][-1]) > 10
    for expected, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, 0, EPS * np.abs(expected).max())


@pytest.mark.parametrize("secondorder", [0, 2])
@pytest.mark.parametrize("together", [1, 10**6])
def test_nodes_with_constant_pivots_are_eliminated_once(cpu, monkeypatch, together, secondorder):
    """Dendrites beyond the synapses are passive; compare in tiles of all widths."""
    take_two_blocks(monkeypatch, together)
    net = Network(ring_cables(4, levels=2, compartments=3), 21)
    net.insert(mod_files.ours("na"), net.soma)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=2e-4, e=-60.0)
    drive(net)
    results = []
    for options in ({"engine": "reference"}, {"queue": cpu, "engine": "epochs-cpu"}):
        sim = Simulation(net, DT, secondorder=secondorder, **options)
        v = sim.record("v", np.arange(net.forest.num_nodes))
        result = sim.run(6.0)
        results.append([result[v], result.spike_time])
    tiles = sim.runner.kernels.layout.tiles
    assert (tiles.constant > 0).all() and (tiles.constant < tiles.slots - tiles.roots).all()
    assert {1, 2} <= set(tiles.widths) and len(results[0][-1]) > 10
    for expected, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, 0, EPS * np.abs(expected).max())


SEES = """
NEURON { POINT_PROCESS sees NONSPECIFIC_CURRENT i RANGE g, seen POINTER other }
PARAMETER { g = 1e-3 (uS) }
ASSIGNED { v (mV) i (nA) seen (mV) other (mV) }
BREAKPOINT { seen = other i = g*(v + 60) }
"""


def test_what_is_recorded_may_need_more_than_a_vector(cpu):
    """A recorded variable may read a pointer although functions for vectors have no pointers."""
    n = 12
    net = Network.from_arrays(np.arange(-1, n - 1), [0, n], *[[300.0] * n, [0.1] * n, [0.003] * n])
    added = net.add(Mechanism.from_nmodl(SEES), at=np.arange(n), g=np.linspace(1e-3, 2e-3, n))
    net.set_pointer(added, "other", to=np.arange(n)[::-1])
    net.add("iclamp", at=[0], delay=0.0, dur=9.0, amp=0.2)
    results = []
    for options in ({"engine": "reference"}, {"queue": cpu}):
        sim = Simulation(net, DT, **options)
        seen = sim.record("seen", added)
        results.append(sim.run(2.0)[seen])
    assert np.ptp(results[0][-1]) > 0.1
    np.testing.assert_allclose(results[1], results[0], 0, EPS * np.abs(results[0]).max())
