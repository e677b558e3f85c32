"""Linear equations of voltages, `Network.add_linear`, with a dense system as the oracle."""

import numpy as np
import pytest

from clhines import InputError, Network, Simulation, SimulationError, discretise, sample_cells
from clhines.model import compile
from clhines.model.linear import LinearSystems
from clhines.simulate.engines import linear
from clhines.simulate.engines.choose import engines_for
from clhines.simulate.state.saved import signature

DT, STEPS = 0.05, 40
CABLES = [discretise(cell, max_length=60) for cell in sample_cells()[:3]]
ENGINES = ["reference", "steps"]


def equations(random, nodes, unknowns):
    """c, g and b whose symmetric parts are positive; the last unknown has a row without c."""
    size = nodes + unknowns
    c, g = (random.normal(size=(size, size)) for _ in range(2))
    c, g = 0.01 * c @ c.T, 0.01 * g @ g.T + 0.05 * np.eye(size)
    g += 0.02 * np.triu(random.normal(size=(size, size)), 1)
    c[size - 1 :] = 0 if unknowns else c[size - 1 :]
    return g, c, random.normal(size=size)


def built(seed=3, active=False):
    """Five cells: two joined in five nodes, with two unknowns; two by a conductance; one alone."""
    random = np.random.default_rng(seed)
    net = Network(CABLES, num_cells=5)
    net.insert("pas", at="all", g=random.uniform(1e-4, 1e-3, net.forest.num_nodes), e=-60.0)
    net.add("iclamp", at=net.soma[:3], delay=0.2, dur=50.0, amp=0.5)
    if active:
        net.insert("hh", at="soma")
    off = net.forest.cell_offsets
    at = [np.r_[random.choice(off[1], 3, False), off[1] + random.choice(off[2] - off[1], 2, False)]]
    at.append(np.array([off[2] + 3, off[3] + 1]))
    at.append(np.array([off[3] + 1, off[2] + 3, off[2] + 3]))  # nodes of another, one of them twice
    given = [equations(random, 5, 2), ([[0.1, -0.1], [-0.1, 0.1]],), equations(random, 3, 0)]
    y0 = random.normal(size=2)
    groups = [net.add_linear(a, *g, *([y0] if k == 0 else [])) for k, (a, g) in enumerate(
        zip(at, given, strict=True))]  # fmt: skip
    return net, groups[0], at, given, y0


def dense(net, at, given, y0):
    """(STEPS + 1, n + unknowns): voltages and unknowns, by one matrix of all of them."""
    model, n = compile(net, DT), net.forest.num_nodes
    h = np.diag(np.r_[model.capacitance_over_dt + model.constant_d, np.zeros(len(y0))])
    child = np.flatnonzero(model.forest.parent >= 0)
    above = model.forest.parent[child]
    h[child, above] = h[above, child] = model.u[child]
    g, b = np.zeros((2, *h.shape)), np.r_[model.constant_b, np.zeros(len(y0))]
    for nodes, (conductance, *rest) in zip(at, given, strict=True):
        own = np.r_[nodes, n + np.arange(len(conductance) - len(nodes))]
        c, value = rest or (np.zeros((2, 2)), np.zeros(2))
        for k, i in enumerate(own):
            b[i] += value[k]
            np.add.at(g[0, i], own, np.asarray(conductance)[k])
            np.add.at(g[1, i], own, c[k] / DT)
    left = h + g.sum(axis=0)
    capacity = np.zeros_like(h)
    np.fill_diagonal(capacity, np.r_[model.capacitance_over_dt, np.zeros(len(y0))])
    clamp = np.zeros(len(h))
    clamp[net.soma[:3]] = 0.5
    y = [np.r_[np.full(n, -65.0), y0]]
    for step in range(STEPS):
        given = b + (capacity + g[1]) @ y[-1] + clamp * (0.2 <= (step + 0.5) * DT)
        y.append(np.linalg.solve(left, given))
    return np.array(y), np.linalg.cond(left)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", ENGINES)
def test_voltages_and_unknowns_are_those_of_a_dense_system(fast_queue, needs, engine, dtype):
    needs(fast_queue, dtype)
    if engine == "reference" and dtype == "float32":
        pytest.skip("float64 alone")
    net, unknowns, *rest = built()
    sim = Simulation(net, DT, queue=fast_queue, engine=engine, dtype=dtype)
    of_v, of_y = sim.record("v", np.arange(net.forest.num_nodes)), sim.record("y", unknowns)
    result = sim.run(STEPS * DT)
    found = np.hstack([result[of_v], result[of_y]])
    expected, condition = dense(net, *rest)
    assert np.ptp(expected, axis=0).min() > 0.1
    # A step of the oracle has an error of eps times its condition, of 100 mV at most; one here
    # of some roundings of 100 mV, and of changes the part that `clhines.model.linear` says
    eps = np.finfo(dtype).eps
    size = abs(expected).max()
    bound = STEPS * size * (2.3e-16 * condition + 8 * eps)
    np.testing.assert_allclose(found, expected, 0, bound)
    assert bound < (1e-6 if dtype == "float64" else 0.1)


@pytest.mark.parametrize("engine", ENGINES)
def test_two_compartments_reach_each_other(fast_queue, needs, engine):
    """Differences shrink by 1/(1 + 2r) in a step, r = g*dt/c, of large g too; the sum stays."""
    needs(fast_queue, "float64")
    for g in (0.004, 40.0):
        net = Network.from_arrays([-1, -1], [0, 1, 2], [500.0] * 2, [0.0] * 2, [0.01] * 2)
        assert net.add_linear([0, 1], [[g, -g], [-g, g]]) is None
        sim = Simulation(net, DT, v_init=[-60.0, -70.0], queue=fast_queue, engine=engine)
        number = sim.record("v", [0, 1])
        v, r = sim.run(5 * DT)[number], g * DT / 0.01
        eps = 5 * 10 * 100 * 2.0**-53 * (1 + 2 * r)  # `|G M|` is 2r
        np.testing.assert_allclose(v[:, 0] - v[:, 1], 10 / (1 + 2 * r) ** np.arange(6), 0, eps)
        np.testing.assert_allclose(v.sum(axis=1), -130, 0, eps)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_clamp_holds_a_voltage_by_the_current_it_takes(fast_queue, needs, engine):
    """The unknown is a current out of the node: c dv/dt = -i, and v is given: no diagonal."""
    needs(fast_queue, "float64")
    net = Network.from_arrays([-1], [0, 1], [500.0], [0.0], [0.01])
    current = net.add_linear([0], [[0, 1], [1, 0]], b=[0, -40.0])
    sim = Simulation(net, DT, v_init=-65.0, queue=fast_queue, engine=engine)
    of_v, of_i = sim.record("v", [0]), sim.record("y", current)
    result = sim.run(3 * DT)
    np.testing.assert_allclose(result[of_v][1:, 0], -40, 0, 1e-13)
    np.testing.assert_allclose(result[of_i][:, 0], [0, -25 * 0.01 / DT, 0, 0], 0, 1e-13)


def test_pieces_states_and_files_go_on(fast_queue, needs, tmp_path):
    """Unknowns are kept in pieces, by `reset`, in states for any engine, and in files."""
    needs(fast_queue, "float64")
    net, unknowns, *_ = built(active=True)
    net.save(tmp_path / "net.npz")
    whole = {}
    for engine in ENGINES:
        sim = Simulation(net, DT, queue=fast_queue, engine=engine)
        number = sim.record("y", unknowns)
        first = sim.run(1.0)[number]
        sim.save(tmp_path / f"{engine}.npz")
        whole[engine] = np.vstack([first, sim.run(1.0)[number]])
        sim.reset()
        np.testing.assert_array_equal(sim.run(1.0)[number], first)
    # spikes amplify the rounding of some 100 mV in 40 steps by e^5 at most
    bound = 40 * 100 * 2.3e-16 * 148
    np.testing.assert_allclose(*whole.values(), 0, bound)
    loaded = Network.load(tmp_path / "net.npz")
    for engine, other in (ENGINES, ENGINES[::-1]):
        sim = Simulation(loaded, DT, queue=fast_queue, engine=engine)
        number = sim.record("y", loaded.groups[unknowns.number])
        sim.restore(tmp_path / f"{other}.npz")
        found = sim.run(1.0)[number]
        np.testing.assert_allclose(found, whole[other][-len(found) :], 0, bound)
    assert signature(compile(loaded)) == signature(compile(net))
    assert signature(compile(built(4)[0])) != signature(compile(net))


def test_copies_have_equations_of_their_own(fast_queue, needs):
    needs(fast_queue, "float64")
    net, unknowns, *_ = built()
    sim = Simulation(net, DT, queue=fast_queue, engine="steps")
    number = sim.record("y", unknowns)
    expected = sim.run(1.0)[number]
    copies = Simulation(net, DT, queue=fast_queue, engine="steps").replicate(3)
    number = copies.record("y", copies.network.groups[unknowns.number])
    np.testing.assert_allclose(copies.run(1.0)[number], np.tile(expected, 3), 0, 1e-11)
    assert len(copies.model.linear_systems.first) == 3 * 2 + 1


@pytest.mark.parametrize("engine", ENGINES)
def test_equations_without_a_solution_are_said(fast_queue, needs, engine):
    """An unknown that is in no equation, and a node that is clamped twice; rows without nodes."""
    needs(fast_queue, "float64")
    for g, b in (([[0, 0], [0, 0]], [0, 1]), ([[0, 1, 1], [1, 0, 0], [1, 0, 0]], [0, -40, -40])):
        net = Network.from_arrays([-1, -1], [0, 1, 2], [500.0] * 2, [0.0] * 2, [0.01] * 2)
        net.add_linear([0], g, b=b)
        with pytest.raises(SimulationError, match="voltage of cell 0.* is not finite at t = 0.05"):
            Simulation(net, DT, queue=fast_queue, engine=engine).run(1.0)
    net = Network.from_arrays([-1], [0, 1], [500.0], [0.0], [0.01])
    net.add_linear([], [[0.0]], b=[1.0])
    with pytest.raises(InputError, match="without nodes have no single solution"):
        Simulation(net, DT, queue=fast_queue, engine=engine)


def test_systems_are_apart():
    """Trees tie equations; unknowns of equations without nodes are a system of their own."""
    net = built()[0]
    net.add_linear([], [[2.0]], b=[1.0])
    systems = compile(net, DT).linear_systems
    assert sorted(np.diff(systems.first).tolist()) == [1, 2, 7]
    assert systems.largest == 7 and systems.columns == 3
    units = systems.units
    assert (
        units.shape == (3, net.forest.num_nodes) and units.sum() == (systems.node >= 0).sum() == 7
    )
    for row in units:
        cells = np.searchsorted(net.forest.cell_offsets, np.flatnonzero(row), side="right")
        assert len({*cells}) == len(cells)  # one node of a tree at most
    assert isinstance(systems, LinearSystems)


REFUSED = {
    "g": (([0, 1], np.eye(1)), r"g has shape \(1, 1\); expected \(2, 2\), of 2 nodes"),
    "c": (([0], np.eye(2), np.eye(3)), r"c has shape \(3, 3\); expected \(2, 2\), of 1 nodes"),
    "b": (([0], np.eye(2), 0, [1.0]), r"b has shape \(1,\); expected \(2,\)"),
    "y0": (([0], np.eye(2), 0, 0, [1, 2]), "g has shape .* of 1 nodes and 2 unknowns"),
    "node": (([10**6], np.eye(1)), "at.*there is no node"),
    "finite": (([0], [[np.nan]]), "g.* is nan"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_shapes_are_checked(case):
    arguments, text = REFUSED[case]
    with pytest.raises(InputError, match=text):
        Network(CABLES[:1]).add_linear(*arguments)


def test_what_cannot_be_is_refused(fast_queue, monkeypatch):
    net = built()[0]
    with pytest.raises(InputError, match="secondorder is 2, with linear equations"):
        compile(net, DT, secondorder=2)
    with pytest.raises(InputError, match="linear equations of voltages on several ranks"):
        engines_for(compile(net, DT).needs | {"ranks", "ranked_linear"}, "auto", "cpu")
    sim = Simulation(net, DT, queue=fast_queue, engine="steps", dtype="float32")
    with pytest.raises(InputError, match="i_membrane where linear equations take current"):
        sim.record("i_membrane", [net.forest.cell_offsets[2] + 3])
    sim.record("i_membrane", [net.forest.cell_offsets[4]])
    monkeypatch.setattr(linear, "MOST", 6)
    with pytest.raises(InputError, match="join 7 nodes and unknowns in one system; expected at mo"):
        Simulation(net, DT, queue=fast_queue, engine="steps", dtype="float32")
