"""States, events and conditions that read other cells' voltages, on all engines, against NEURON.

Some cells pass events on within a step, too.
As in `test_exact_epochs`, each step differs by some units in the last place.
"""

from itertools import pairwise

import mod_files
import numpy as np
import pytest
from exact_cells import RELAY
from networks import elsewhere_network, gated_network, reading_network, written_network

from clhines import InputError, Mechanism, Network, Simulation
from clhines.simulator.mechanisms.builtin import KEPT_NUMBER
from clhines.simulator.model import compile
from clhines.simulator.network.copies import copies_of
from clhines.solver.device import devices

DT, STOP = 0.05, 20.0  # ms
EPS = 100 * (STOP / DT) * np.finfo(np.float64).eps
ENGINES = ("reference", "steps", "epochs-cpu", "epochs-gpu")
SHADOW = """
NEURON { SUFFIX shadow POINTER other RANGE g NONSPECIFIC_CURRENT i }
PARAMETER { g = 1e-5 (S/cm2) }
STATE { c (mV) }
ASSIGNED { v (mV) other (mV) i (mA/cm2) }
INITIAL { c = -65 }
BREAKPOINT { SOLVE states METHOD cnexp i = g*(v - c) }
DERIVATIVE states { c' = (other - c)/3 }
"""
WRITER = """
NEURON { POINT_PROCESS writer POINTER p }
ASSIGNED { v p }
BEFORE BREAKPOINT { p = 0 }
AFTER SOLVE { p = p + v }
"""


def in_neuron():
    """Simulate three cells (1 to 3 segments) in a ring of synapses; return v, s, got and met."""
    h = mod_files.loaded()
    cells = [h.Section(name=f"cell{c}") for c in range(3)]
    for c, cell in enumerate(cells):
        cell.L, cell.diam, cell.nseg, cell.Ra, cell.cm = 60 * (c + 1), 15 - 3 * c, c + 1, 100, 1
        cell.insert("hh")
    synapses = [h.ext_pre(cell(0.9)) for cell in cells]
    for synapse, before in zip(synapses, cells[2:] + cells[:2], strict=True):
        h.setpointer(before(0.1)._ref_v, "vpre", synapse)
    clamp = h.IClamp(cells[0](0.1))
    clamp.delay, clamp.dur, clamp.amp = 1.0, 3.0, 1.0
    wires = []
    for c in range(3):
        wires.append(h.NetCon(cells[c](0.1)._ref_v, synapses[c], 0, 1.3, 0.2, sec=cells[c]))
        wires.append(h.NetCon(synapses[c], synapses[(c + 1) % 3], 0, 0.7, 0.1))
    segments = [s for cell in cells for s in cell]
    seen = [h.Vector().record(s._ref_v) for s in segments]
    seen += [h.Vector().record(getattr(p, f"_ref_{x}")) for x in ("s", "got") for p in synapses]
    h.cvode.active(0)
    h.celsius, h.dt, h.secondorder, h.usetable_hh = 6.3, DT, 0, 0
    h.finitialize(-65)
    h.continuerun(STOP)
    area = np.array([s.area() for s in segments])
    ri = np.array([s.ri() for s in segments])
    del wires, clamp
    return area, ri, np.array(seen).T


@pytest.fixture(scope="module")
def truth():
    pytest.importorskip("neuron", reason="NEURON is not installed: pip install neuron")
    return in_neuron()


def made(engine, queue, needs):
    needs(queue, "float64")
    if engine == "epochs-cpu" and not devices.is_cpu(queue.device):
        pytest.skip("an engine of CPUs")
    return {"queue": queue, "engine": engine}


@pytest.mark.parametrize("engine", ENGINES)
def test_as_neuron(fast_queue, needs, engine, truth):
    options, (area, ri, expected) = made(engine, fast_queue, needs), truth
    parent = np.array([-1, -1, 1, -1, 3, 4])
    g_axial = np.where(parent < 0, 0, 1 / ri)
    net = Network.from_arrays(parent, [0, 1, 3, 6], area, g_axial, 1e-5 * area)
    net.insert("hh", np.arange(6))
    synapses = net.add(mod_files.ours("ext_pre"), [0, 2, 5])
    net.set_pointer(synapses, "vpre", to=[3, 0, 1])
    net.add("iclamp", at=[0], delay=1.0, dur=3.0, amp=1.0)
    net.connect(net.add_detector([0, 1, 3], 0.0), synapses, [0, 1, 2], 0.2, 1.3)
    net.connect(synapses, synapses, [1, 2, 0], 0.1, 0.7, source_index=[0, 1, 2])
    sim = Simulation(net, DT, **options)
    numbers = [sim.record("v", np.arange(6)), *(sim.record(x, synapses) for x in ("s", "got"))]
    result = sim.run(STOP)
    values = np.concatenate([result[n] for n in numbers], axis=1)
    assert (np.abs(expected[:, 9:]).max(axis=0) > 0).all()  # all three cells have received events
    largest = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(values / largest, expected / largest, 0, 1e-9)


def random_network(seed, cells):
    """Return trees with 1 to 30 nodes, whose synapses and shadows read any tree's nodes; groups."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 31, cells)
    bounds = np.append(0, np.cumsum(sizes))
    parents = [[-1, *(int(rng.integers(max(0, k - 4), k)) for k in range(1, n))] for n in sizes]
    parent = np.concatenate([[p if p < 0 else p + b for p in q] for q, b in zip(parents, bounds)])
    n, soma = int(bounds[-1]), bounds[:-1]
    area = rng.uniform(200, 900, n)
    net = Network.from_arrays(parent, bounds, area, rng.uniform(0.05, 0.3, n), 1e-5 * area)
    net.insert("hh", soma)
    net.insert("pas", np.setdiff1d(np.arange(n), soma), g=1e-4, e=-65.0)
    at = np.sort(np.concatenate([rng.integers(a, b, 2) for a, b in pairwise(bounds)]))
    synapses = net.add(mod_files.ours("ext_pre"), at, gmax=rng.uniform(0.002, 0.02, len(at)))
    net.set_pointer(synapses, "vpre", to=rng.permutation(np.repeat(soma, 2)))
    where = np.flatnonzero(rng.random(n) < 0.5)
    shadows = net.insert(Mechanism.from_nmodl(SHADOW), where)
    net.set_pointer(shadows, "other", to=rng.integers(0, n, len(where)))
    net.add("iclamp", at=soma, delay=rng.uniform(0, 8, cells), dur=3.0, amp=0.5)
    m = 2 * cells
    to, delays = rng.integers(0, m, (2, m)), rng.uniform(3.2 * DT, 2, (2, m))
    delays[0, 0] = 3.2 * DT  # three steps per launch
    net.connect(net.add_detector(soma, -20.0), synapses, to[0], 0.2, delays[0],
                source_index=rng.integers(0, cells, m))  # fmt: skip
    net.connect(synapses, synapses, to[1], 0.05, delays[1], source_index=np.arange(m))
    return net, {"s": synapses, "got": synapses, "met": synapses, "c": shadows}


def with_relays(seed, cells):
    """Add three instances per cell that pass on events within a step."""
    (net, groups), rng = random_network(seed, cells), np.random.default_rng(seed + 1)
    bounds, first = net.forest.cell_offsets, 3 * np.arange(cells)
    at = np.sort(np.concatenate([rng.integers(a, b, 3) for a, b in pairwise(bounds)]))
    relays = net.add(Mechanism.from_nmodl(RELAY), at)
    for a, b in ((0, 1), (1, 2), (0, 2)):
        delays = rng.uniform(0, 0.99 * DT, cells)
        net.connect(relays, relays, first + b, 0.5, delays, source_index=first + a)
    net.connect(relays, groups["s"], 2 * first // 3 + 1, 0.05, 0.0, source_index=first + 2)
    net.connect(net.add_detector(bounds[:-1], -20.0), relays, rng.permutation(first), 1.0, 0.4)
    return net, groups | {"n": relays, "last": relays}


def advanced(net, groups, pieces, copies=1, **options):
    """Return the simulation, records by name, and cells and times of spikes, run in pieces."""
    sim = Simulation(net, DT, **options)
    sim = sim.replicate(copies) if copies > 1 else sim
    nodes = np.arange(sim.model.forest.num_nodes)
    numbers = {"v": sim.record("v", nodes)}
    if copies == 1:
        numbers |= {name: sim.record(name, group) for name, group in groups.items()}
    results = [sim.run(STOP * piece) for piece in pieces]
    rows = {x: np.concatenate([r[k] for r in results]) for x, k in numbers.items()}
    cell, time = ([getattr(r, f"spike_{x}") for r in results] for x in ("cell", "time"))
    return sim, rows, (np.concatenate(cell), np.concatenate(time))


def assert_near(result, expected, eps=EPS):
    """Compare records by name, relative to the largest value of each."""
    for name, values in expected.items():
        bound = eps * np.abs(values).max()
        np.testing.assert_allclose(result[name], values, 0, bound, err_msg=name)


CASES = {  # network, options; whether one work-group holds all cells and then takes several steps
    "one work-group": (lambda: random_network(0, 4), {}, True),
    "launches of a step": (lambda: random_network(1, 7), {}, False),
    "second order": (lambda: with_relays(2, 6), {"secondorder": 2}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_random_networks(fast_queue, needs, case):
    build, options, together = CASES[case]
    net, groups = build()
    _, expected, spikes = advanced(net, groups, [1], engine="reference", **options)
    assert len(spikes[0]) > net.forest.num_cells
    assert all(np.ptp(values) > 0 for values in expected.values())
    for engine in ENGINES[1:]:
        if engine == "epochs-cpu" and not devices.is_cpu(fast_queue.device):
            continue
        for pieces in ([1], [0.1, 0.0025, 0.8975]):
            settings = made(engine, fast_queue, needs) | options
            sim, result, own = advanced(net, groups, pieces, **settings)
            assert_near(result, expected)
            assert np.array_equal(own[0], spikes[0])
            np.testing.assert_allclose(own[1], spikes[1], 0, 1e-12 * STOP)
        if engine == "epochs-gpu":
            kernels = sim.runner.kernels
            others, limits = kernels._others, kernels.run.limits  # with PTX, groups wait for others
            together = together and limits.compute_units <= 4  # with more units, four cells split
            assert others.later == (not together and not limits.ptx) and kernels.epoch == 3
            assert others.groups > 1 if limits.ptx else (others.groups == 1) == together


def test_copies_see_their_own_cells(fast_queue, needs):
    net, groups = random_network(3, 2)
    _, expected, spikes = advanced(net, groups, [1], engine="reference")
    sim, result, own = advanced(net, groups, [1], 3, **made("epochs-gpu", fast_queue, needs))
    assert sim.runner.kernels._others.later != sim.runner.limits.ptx
    v = np.tile(expected["v"], 3)
    np.testing.assert_allclose(result["v"], v, 0, EPS * np.abs(v).max())
    assert len(own[0]) == 3 * len(spikes[0]) > 0


def test_what_may_be_written():
    with pytest.raises(InputError, match="total of ext_total, which is in another cell and is wri"):
        compile(written_network(7, 2, True)[0], DT)
    net, groups = written_network(6, 2)
    adds = net.groups[-1]
    other = net.add(mod_files.ours("ext_watch"), [0])
    for to, said in (
        ([0], "to of total, which ext_adds writes, is .*; expected a group, a variable"),
        ((other, "amp", 0), "to of total is 'amp' of ext_watch; expected a variable that this"),
        ((groups["total"], "total", [0, 1]), "to has 2 instances for 1 instances"),
    ):
        with pytest.raises(InputError, match=said):
            net.set_pointer(adds, "total", to, [0])
    net.set_pointer(adds, "whole", (groups["total"], "kept", 0))
    with pytest.raises(InputError, match="pointer whole points to x of kept_number, and to kept"):
        compile(net, DT)
    net, groups = written_network(6, 2)
    net.set_pointer(groups["total"], "whole", (groups["total"], "kept", 0))
    with pytest.raises(InputError, match="pointer whole points to x of kept_number, and to kept"):
        compile(net, DT)
    for text, said in (
        ("BREAKPOINT { x = x + 1 }", "points to x of own, which uses it"),
        ("AFTER SOLVE { x = 2*x }", "which does more than add to it in AFTER SOLVE"),
        ("BEFORE STEP { x = x + 1 y = x }", "which does more than add to it in BEFORE STEP"),
    ):
        net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
        own = f"NEURON {{ POINT_PROCESS own RANGE x, y }}\nASSIGNED {{ x y }}\n{text}"
        to = net.add(Mechanism.from_nmodl(own), [0])
        writer = net.add(Mechanism.from_nmodl(WRITER), [0])
        net.set_pointer(writer, "p", (to, "x", 0))
        with pytest.raises(InputError, match=said):
            compile(net, DT)
    net, groups = written_network(6, 2)
    writer = net.add(Mechanism.from_nmodl(WRITER), [0])
    net.set_pointer(writer, "p", (groups["x"], "x", 0))
    with pytest.raises(InputError, match="x of kept_number, which another pointer sets, too"):
        compile(net, DT)
    net.add(Mechanism.from_nmodl(WRITER), [0])
    with pytest.raises(InputError, match="pointer p of 1 instances is not set"):
        compile(net, DT)


@pytest.mark.parametrize(("elsewhere", "dtype"), [(0, "float64"), (1, "float64"), (1, "float32")])
def test_gates_of_other_mechanisms(fast_queue, needs, elsewhere, dtype):
    net, groups = gated_network(elsewhere)
    _, expected, _ = advanced(net, groups, [1], engine="reference")
    for engine in ENGINES[1:]:
        options = made(engine, fast_queue, needs) | {"dtype": dtype}
        for pieces in ([1], [0.1, 0.0025, 0.8975]):
            _, result, _ = advanced(net, groups, pieces, **options)
            assert_near(result, expected, EPS * (1 if dtype == "float64" else 2**29))


BUILDS = {"written": lambda: written_network(4, 5), "read": reading_network}


@pytest.mark.parametrize("what", BUILDS)
@pytest.mark.parametrize("engine", ENGINES[1:])
def test_variables_that_are_written_or_read(fast_queue, needs, tmp_path, engine, what):
    """In pieces, from a file, in copies, and from states of the reference and of the engine."""
    net, groups = BUILDS[what]()
    _, expected, _ = advanced(net, groups, [1], engine="reference")
    options = made(engine, fast_queue, needs)
    assert all(np.ptp(values, axis=0).min() > 0 for values in expected.values())
    net.save(tmp_path / "net.npz")
    stored = Network.load(tmp_path / "net.npz")
    again = {name: stored.groups[group.number] for name, group in groups.items()}
    for one, of, pieces in ((net, groups, [0.1, 0.0025, 0.8975]), (stored, again, [1])):
        assert_near(advanced(one, of, pieces, **options)[1], expected)
    _, result, _ = advanced(net, groups, [1], 3, **options)
    assert_near(result, {"v": np.tile(expected["v"], 3)})
    for how in ({"engine": "reference"}, options):
        sim = Simulation(stored, DT, **how)
        sim.run(5.0)
        sim.save(tmp_path / "state.npz")
        sim = Simulation(net, DT, **options)
        sim.restore(tmp_path / "state.npz")
        records = {name: sim.record(name, group) for name, group in groups.items()}
        result = sim.run(STOP - 5.0)
        for name, record in records.items():
            rest, values = result[record], expected[name]
            bound = EPS * np.abs(values).max()
            np.testing.assert_allclose(rest, values[-len(rest) :], 0, bound, err_msg=name)


def test_what_may_be_read():
    for engine in ("epochs", "epochs-gpu"):
        with pytest.raises(InputError, match="no pointers to variables of mechanisms of other cel"):
            Simulation(elsewhere_network(), DT, engine=engine)
    with pytest.raises(InputError, match="at another node, which changes in the same part of a st"):
        compile(reading_network(own=False)[0], DT)
    net, _ = reading_network()
    net.set_pointer(net.groups[0], "a", [0], [3])
    with pytest.raises(InputError, match="pointer a points to voltages, and to variables; expec"):
        compile(net, DT)
    text = "NEURON { POINT_PROCESS own POINTER p }\nSTATE { x }\nASSIGNED { p }\n"
    own = Mechanism.from_nmodl(
        text + "BREAKPOINT { SOLVE s METHOD cnexp }\nDERIVATIVE s { x' = p - x }\n"
    )
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
    group = net.add(own, [0, 1])
    net.set_pointer(group, "p", (group, "x", [1, 0]))
    with pytest.raises(InputError, match="p points to x of own itself, where it is read; expected"):
        compile(net, DT)
    net, _ = reading_network(events=True)
    with pytest.raises(InputError, match="a points to msg of ext_msg, and events read and set it"):
        compile(net, DT)


READER = """
NEURON {{ POINT_PROCESS looks POINTER p RANGE seen NONSPECIFIC_CURRENT i }}
ASSIGNED {{ v i p seen }}
INITIAL {{ seen = 0 }}
BREAKPOINT {{ i = {current} }}
{block} {{ seen = p }}
"""


def assigned_network(shift=0):
    """Return one cell with objects that set variables at their own or another node."""
    net = Network.from_arrays([-1, 0, 1, 2], [0, 4], [300.0] * 4, [0, 0.1, 0.1, 0.1], [0.005] * 4)
    setters, targets = (net.add(mod_files.ours(n), range(4)) for n in ("ext_assign", "ext_heard"))
    for pointer, name, at in (("out", "stim", 0), ("level", "got", shift)):
        net.set_pointer(setters, pointer, (targets, name, np.roll(range(4), at)))
    return net, setters, targets


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_what_is_set_at_once(fast_queue, needs, tmp_path, engine):
    """Compare a saved network and copies bit by bit, and `reference` within tolerance."""
    net, _, targets = assigned_network(1)
    net.save(tmp_path / "net.npz")
    results = []
    for network, name in (
        (net, engine),
        (Network.load(tmp_path / "net.npz"), engine),
        (copies_of(net, 2), engine),
        (net, "reference"),
    ):
        sim = Simulation(network, DT, **made(name, fast_queue, needs))
        which = [sim.record(n, network.groups[targets.number]) for n in ("stim", "got", "g")]
        result = sim.run(5.0)
        results.append(np.concatenate([result[k][:, :4] for k in which], axis=1))
    assert np.ptp(results[0][:, 4:], axis=0).min() > 1e-4
    for other in results[1:3]:
        assert np.array_equal(results[0], other)
    np.testing.assert_allclose(results[0], results[3], EPS, 1e-12)


def test_what_may_be_set_at_once():
    net, setters, targets = assigned_network()
    with pytest.raises(InputError, match="to of out, which ext_assign writes, is"):
        net.set_pointer(setters, "out", [0, 1, 2, 3])
    net.set_pointer(setters, "out", (targets, "stim", 0), [1])
    with pytest.raises(InputError, match="no other pointer leads: it is one of others, too"):
        compile(net, DT)
    net, setters, targets = assigned_network()
    other = net.add(mod_files.ours("ext_says"), [0])
    for pointer in ("out", "level"):
        net.set_pointer(other, pointer, (targets, "got", 0))
    with pytest.raises(InputError, match="no other pointer leads: it is one of others, too"):
        compile(net, DT)


def test_a_variable_that_is_written_and_read():
    """A variable may be read before other instances add to it; other reads are refused."""
    adds = WRITER.replace("BEFORE BREAKPOINT { p = 0 }", "")
    for text, block, is_taken in (
        (WRITER, "BEFORE BREAKPOINT", False),
        (adds, "AFTER SOLVE", False),
        (adds, "BEFORE BREAKPOINT", True),
    ):
        net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
        number = net.add(Mechanism.from_nmodl(KEPT_NUMBER), [0])
        looks = Mechanism.from_nmodl(READER.format(block=block, current="1e-6*p*v"))
        for mechanism in (Mechanism.from_nmodl(text), looks):
            net.set_pointer(net.add(mechanism, [0]), "p", (number, "x", 0))
        if is_taken:
            assert {"read_pointers", "written_pointers"} <= compile(net, DT).needs
            continue
        with pytest.raises(InputError, match="x of kept_number, which pointer p of writer writes"):
            compile(net, DT)


def test_variables_that_are_read_only_to_be_recorded():
    """Blocks that set only recorded values read, at their node, a variable set in the same step."""
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
    source = net.add(mod_files.ours("ext_msg"), [0, 1])
    looks = net.add(Mechanism.from_nmodl(READER.format(block="AFTER SOLVE", current=0)), [0, 1])
    net.set_pointer(looks, "p", (source, "msg", [1, 0]))
    with pytest.raises(InputError, match="p points to msg of ext_msg at another node, which chang"):
        compile(net, DT)
    net.set_pointer(looks, "p", (source, "msg", [0, 1]))
    sim = Simulation(net, DT, engine="reference")
    seen, msg = sim.record("seen", looks), sim.record("msg", source)
    result = sim.run(1)
    assert np.ptp(result[msg]) > 0
    np.testing.assert_array_equal(result[seen][1:], result[msg][1:])
