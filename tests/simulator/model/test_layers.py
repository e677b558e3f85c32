"""Nodes around others (layers outside of cells), against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from networks import fibres_in_field, layered_network, layers_of_arrays

from clhines import InputError, Mechanism, Network, Simulation
from clhines.core.arrays import offsets
from clhines.simulator.engines import steps
from clhines.simulator.engines.reference import Reference
from clhines.simulator.model import compile
from clhines.simulator.network.copies import copies_of
from clhines.simulator.ranks.partition import Share

DT = 0.025
EPS = {"float64": 2.0**-53, "float32": 2.0**-24}
# A column of three potentials with at most 8 neighbours is eliminated by fewer than 60 additions,
# products and divisions of positive numbers, none of which rounds by more than EPS; 9 columns pass
# theirs on. All potentials that a positive current causes have one sign and no more than that.
ROUNDINGS = 9 * 60


def exact_change(layers, d, b, v, dt):
    """Solve the step's current balances by Gauss elimination in rational numbers."""
    number = {}
    for i in range(layers.node.shape[1]):
        for row in range(3):
            if layers.node[row, i] >= 0:
                number[row, i] = len(number)
    n = len(number)
    a, right = [[Fraction(0)] * n for _ in range(n)], [Fraction(0)] * n

    def potential(row, i):
        voltage = Fraction(float(v[layers.node[row, i]]))
        outer = layers.node[1, i] if row == 0 else -1
        return voltage + (Fraction(float(v[outer])) if outer >= 0 else 0)

    def join(here, there, over, g):
        """Add conductances (of the step, and now) between two potentials, or one and the ground."""
        for x, y in ((here, there), (there, here)):
            if x is not None:
                a[number[x]][number[x]] += over
                right[number[x]] -= g * (potential(*x) - (potential(*y) if y else 0))
                if y is not None:
                    a[number[x]][number[y]] -= over

    for i in range(layers.node.shape[1]):
        has, zero = layers.node[1, i] >= 0, Fraction(0)
        at = layers.node[0, i]
        join((0, i), (1, i) if has else None, Fraction(float(d[at])), zero)
        right[number[0, i]] += Fraction(float(b[at]))
        for row in (1, 2) if has else ():
            g = Fraction(float(layers.g[row, i]))
            over = g + Fraction(float(layers.c[row, i])) / Fraction(dt)
            join((row, i), (row + 1, i) if row == 1 else None, over, g)
        if has:  # electrodes inside, membrane currents to the outside, electrodes outside
            right[number[0, i]] += Fraction(float(b[layers.node[1, i]]))
            right[number[1, i]] -= Fraction(float(b[at]))
            right[number[2, i]] += Fraction(float(b[layers.node[2, i]]))
        for row in range(3):
            above = (row, int(layers.parent[i]))
            if above in number and (row, i) in number:
                g = Fraction(float(layers.axial[row, i]))
                join((row, i), above, g, g)
    x, change = solved(a, right), np.zeros(len(v))
    for (row, i), k in number.items():
        outer = x[number[1, i]] if row == 0 and (1, i) in number else 0
        change[layers.node[row, i]] = float(x[k] - outer)
    return change


def solved(a, right):
    n = len(right)
    for k in range(n):
        for j in range(k + 1, n):
            if a[j][k]:
                factor = a[j][k] / a[k][k]
                a[j] = [y - factor * x if x else y for x, y in zip(a[k], a[j], strict=True)]
                right[j] -= factor * right[k]
    for k in reversed(range(n)):
        rest = sum(a[k][j] * right[j] for j in range(k + 1, n) if a[k][j])
        right[k] = (right[k] - rest) / a[k][k]
    return right


@pytest.mark.parametrize("hard", [False, True])
def test_a_step_is_exact_to_its_roundings(hard):
    """Compare a step with exact arithmetic, also with 1e6 µS beside 1e-9 µS."""
    net, _ = layered_network(hard=hard)
    model = compile(net, DT)
    layers, rng = model.layers, np.random.default_rng(1)
    n = net.forest.num_nodes
    b = np.zeros(n)
    b[layers.node[0]] = -rng.uniform(0, 1, layers.node.shape[1])  # membrane currents, nA
    b[layers.node[1][layers.node[1] >= 0]] = rng.uniform(2, 3)  # electrode currents
    d = model.capacitance_over_dt + model.constant_g
    ours = layers.change(d, b, np.zeros(n), DT)
    want = exact_change(layers, d, b, np.zeros(n), DT)
    assert np.abs(want).max() > 1 and np.unique(layers.of_cells).size == 4
    largest = np.abs(want[layers.node]).max(0)[np.newaxis]  # of a column; v inside is a difference
    off = np.abs(ours - want)[layers.node] / np.maximum(largest, np.abs(want).max() * 1e-3)
    assert off[layers.node >= 0].max() <= ROUNDINGS * EPS["float64"]


def test_potentials_drive_currents_as_in_the_exact_step():
    net, _ = layered_network()
    model = compile(net, DT)
    n, rng = net.forest.num_nodes, np.random.default_rng(2)
    v, b = rng.uniform(-80, 40, n), rng.uniform(-1, 1, n)
    d = model.capacitance_over_dt + model.constant_g
    ours, want = (f(d, b, v, DT) for f in (model.layers.change,
                     lambda *arguments: exact_change(model.layers, *arguments)))  # fmt: skip
    assert np.abs(want).max() > 10
    # currents of both signs cancel: their sum is rounded, by the largest of 120 mV times 0.5 µS
    np.testing.assert_allclose(ours, want, 0, ROUNDINGS * EPS["float64"] * np.abs(want).max())


def recorded(net, engine, dtype="float64", duration=6.0, pieces=1):
    sim = Simulation(net, DT, dtype, engine=engine)
    number = sim.record("v", np.arange(net.forest.num_nodes))
    rows = [sim.run(duration / pieces)[number] for _ in range(pieces)]
    return sim, np.concatenate(rows)


ENGINES = "steps", "epochs-gpu"


@pytest.mark.parametrize("form", ["cell by cell", "side by side", "epochs-gpu"])
@pytest.mark.parametrize("dtype", EPS)
def test_steps_are_those_of_the_reference(dtype, form, monkeypatch):
    """Compare `steps` (also with GPUs' order, cells side by side) and epochs with `reference`."""
    if form == "side by side":
        monkeypatch.setitem(steps.ORDERS, True, steps.ORDERS[False])
        monkeypatch.setitem(steps.LANES, True, 2)
    net, _ = layered_network()
    _, ours = recorded(net, form if form in ENGINES else "steps", dtype)
    _, want = recorded(net, "reference")
    assert want[:, net.soma].max() > 0 and want[0].min() == -65
    outer = np.setdiff1d(np.arange(net.forest.num_nodes), compile(net, DT).layers.node[0])
    assert not want[0, outer].any() and np.ptp(want[:, outer], 0).min() > 1e-3
    # each of 240 steps rounds potentials; a spike's upstroke amplifies the errors by e^5
    allowed = 240 * ROUNDINGS * EPS[dtype] * np.abs(want).max()
    assert np.abs(ours - want).max() <= allowed


def test_currents_that_leave_membranes_arrive_in_layers():
    """`i_membrane` of a node leaves its first layer along the cable and across the layer."""
    net, _ = layered_network()
    layers = compile(net, DT).layers
    whole = np.flatnonzero(np.isin(layers.node[0], range(9)))  # the first cell's nodes
    sim = Simulation(net, DT, engine="steps")
    nodes = layers.node[:, whole]
    current = sim.record("i_membrane", nodes[0])
    number = [sim.record("v", row) for row in nodes[1:]]
    result = sim.run(3.0)
    i, first, second = result[current], *(result[k] for k in number)
    over = first - second
    rest = i[1:] - layers.g[1, whole] * over[1:] - layers.c[1, whole] * np.diff(over, axis=0) / DT
    for k, above in enumerate(layers.parent[whole]):
        if above >= 0:
            flow = layers.axial[1, whole[k]] * (first[1:, above] - first[1:, k])
            rest[:, k] += flow
            rest[:, above] -= flow
    assert np.abs(i).max() > 0.1
    # voltages differ by 100 mV, which conductances of 0.5 µS turn into currents
    assert np.abs(rest).max() <= ROUNDINGS * EPS["float64"] * 50
    mixed = np.setdiff1d(layers.node[0], np.append(nodes[0], range(27, 36)))
    with pytest.raises(InputError, match="i_membrane of node .* beside a node with layers"):
        sim.record("i_membrane", mixed)
    with pytest.raises(InputError, match="i_membrane of a node around another"):
        sim.record("i_membrane", nodes[1])


@pytest.mark.optimised
@pytest.mark.parametrize("each", [2, 40, 120])
def test_epochs_advance_cells_of_all_sizes(each):
    """Compare cells with one to many columns of unknowns (several warps) with `reference`."""
    net, _ = layered_network(each=each)
    (_, ours), (_, want) = (recorded(net, e, duration=0.5) for e in ("epochs-gpu", "reference"))
    assert np.ptp(want) > 1
    allowed = 20 * each * ROUNDINGS * EPS["float64"] * np.abs(want).max()
    assert np.abs(ours - want).max() <= allowed


@pytest.mark.optimised
@pytest.mark.parametrize("inserted", [0, 1])
def test_epochs_eliminate_passive_chains_before_they_begin(inserted):
    """Passive chains are longer than a segment and branch; some columns have channels."""
    sizes = offsets([70, 50, 50])
    parent = np.arange(sizes[-1]) - 1
    parent[sizes[:-1]] = -1
    parent[40], parent[100] = 20, 90
    n, rng = len(parent), np.random.default_rng(5)
    of_nodes = rng.uniform(100, 200, n), rng.uniform(0.05, 0.2, n), rng.uniform(1e-4, 1e-3, n)
    of_layers = [10 ** rng.uniform(*power, (2, n)) for power in ((-3, -1), (-4, -2), (-5, -3))]
    has = np.arange(n) % 7 > 0
    net = Network.from_arrays(**layers_of_arrays(parent, sizes, has, of_nodes, of_layers))
    inside = compile(net, DT).layers.node[0]
    net.insert("pas", at=inside, g=1e-3, e=rng.uniform(-80, -60, n))
    net.insert("hh", at=inside[sizes[1] : sizes[1] + 40 * inserted : 3])
    net.add("iclamp", at=inside[[30, 80, 160]], delay=0.1, dur=2.0, amp=0.5)
    (_, ours), (_, want) = (recorded(net, e, duration=1.0) for e in ("epochs-gpu", "reference"))
    assert np.ptp(want) > 10
    assert np.abs(ours - want).max() <= 40 * n * ROUNDINGS * EPS["float64"] * np.abs(want).max()


@pytest.mark.parametrize("n", [12000, 20000])
def test_epochs_refuse_cells_too_large_for_the_chip(n):
    ones, of_nodes = np.ones((2, n)), (np.full(n, 100.0), np.full(n, 0.1), np.full(n, 1e-3))
    made = layers_of_arrays(np.arange(n) - 1, [0, n], np.ones(n, bool), of_nodes, (ones,) * 3)
    with pytest.raises(InputError, match="too large to stay in .* use engine='steps'"):
        Simulation(Network.from_arrays(**made), DT, engine="epochs-gpu")


@pytest.mark.parametrize("dtype", EPS)
def test_fields_of_fibres_are_those_of_the_reference(dtype):
    """Compare v and recorded currents of a field, at nodes without other mechanisms."""
    seen = []
    for engine in ("reference", "epochs-gpu", "steps"):
        net, group = fibres_in_field(4)
        of_real = "float64" if engine == "reference" else dtype
        sim = Simulation(net, DT, of_real, engine=engine, v_init=-80.0)
        v, i = sim.record("v", np.arange(net.forest.num_nodes)), sim.record("i", group)
        result = sim.run(0.5)
        seen.append((result[v], result[i]))
    (v, i), *others = seen
    assert np.ptp(v) > 50 and np.abs(i).max() > 0
    for ours, current in others:
        assert np.abs(ours - v).max() <= 20 * 31 * ROUNDINGS * EPS[dtype] * np.abs(v).max()
        np.testing.assert_allclose(current, i, 0, 64 * EPS[dtype] * np.abs(i).max())


@pytest.mark.parametrize("engine", ["reference", *ENGINES])
def test_runs_go_on_in_pieces_from_states_files_and_in_copies(engine, tmp_path):
    net, _ = layered_network()
    _, want = recorded(net, engine, duration=3.0)
    sim, pieces = recorded(net, engine, duration=3.0, pieces=3)
    np.testing.assert_array_equal(pieces, want)
    half = recorded(net, engine, duration=1.5)[0]
    half.save(tmp_path / "state.npz")
    net.save(tmp_path / "network.npz")
    again = Simulation(Network.load(tmp_path / "network.npz"), DT, engine=engine)
    again.restore(tmp_path / "state.npz")
    again.run(1.5)
    np.testing.assert_array_equal(again.voltages(), want[-1])
    sim.reset()
    sim.run(3.0)
    np.testing.assert_array_equal(sim.voltages(), want[-1])
    copies = Simulation(copies_of(net, 2), DT, engine=engine)
    copies.run(3.0)
    np.testing.assert_array_equal(copies.voltages(), np.tile(want[-1], 2))


def test_a_rank_has_the_layers_of_its_cells():
    net, _ = layered_network()
    model = compile(net, DT)
    whole = Reference(model)
    parts = [Reference(Share(model, *some).model()) for some in ((0, 2), (2, 3))]
    for run in (whole, *parts):
        run.begin(80, [])
        run.advance(0, 80, 0)
    np.testing.assert_array_equal(
        np.concatenate([part.voltages() for part in parts]), whole.voltages()
    )


@pytest.mark.optimised
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_take_other_values_and_the_start(engine):
    net, _ = layered_network()
    group, clamp = (next(g for g in net.groups if g.mechanism.name == n) for n in ("pas", "iclamp"))
    sims = [Simulation(net, DT, engine=e) for e in ("reference", engine)]
    for sim in sims:
        sim.run(0.5)
        sim.set(group, g=1e-3)
        sim.set(clamp, amp=[-0.2, 0.3])
        sim.reset()
        sim.run(1.0)
    ours, want = (sim.voltages() for sim in reversed(sims))
    np.testing.assert_allclose(ours, want, 0, 40 * ROUNDINGS * EPS["float64"] * 100)
    for sim in sims:  # the second change happens in place
        for g in (2e-3, 5e-3):
            sim.set(group, g=np.linspace(1e-4, g, len(group.nodes)))
            sim.reset()
            sim.run(0.5)
    again, other = (sim.voltages() for sim in reversed(sims))
    np.testing.assert_allclose(again, other, 0, 40 * ROUNDINGS * EPS["float64"] * 100)
    assert np.abs(again - ours).max() > 1
    plain = Simulation(net, DT, engine=engine)
    plain.run(1.0)
    assert np.abs(want - plain.voltages()).max() > 1


def arrays(**changed):
    """Return the arrays of one cell with two nodes, each in two layers."""
    arguments = {
        "parent": [-1, 0, 0, 2, 0, 4], "cell_offsets": [0, 6], "area": [100.0] * 2 + [0.0] * 4,
        "g_axial": [0, 0.1, 0, 0.01, 0, 0.01], "capacitance": [1e-3] * 2 + [0.0] * 4,
        "around": [2, 3, 4, 5, -1, -1], "g_around": [0, 0, 1e-3, 1e-3, 1e-3, 1e-3],
    }  # fmt: skip
    return {**arguments, **changed}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"around": [2, 2, 4, 5, -1, -1]}, "node 2 is around several nodes"),
        ({"around": [2, 3, 4, 5, -1]}, "around has shape (5,); expected (6,)"),
        ({"around": [2, 3, 4, 6, -1, -1]}, "whole numbers below 6"),
        ({"around": [2, 3, 3, 2, -1, -1]}, "is around several nodes"),
        ({"around": [2, 3, 4, 5, 5, 4]}, "is around several nodes"),
        ({"around": [0, 1, 2, 3, 4, 5]}, "each node is around another or itself"),
        ({"around": [2, 3, 4, -1, -1, -1]}, "has fewer layers around it"),
        ({"around": [2, 3, -1, -1, -1, -1]}, "is around none and has a g_around"),
        ({"g_around": None, "around": [2, 3, -1, -1, -1, -1]}, "one layer around nodes"),
        ({"g_around": [1, 0, 1, 1, 1, 1]}, "node 0 is around none and has a g_around"),
        ({"g_around": [0, 0, -1, 1, 1, 1]}, "node 2 has a g_around below 0"),
        ({"around": None}, "g_around without around"),
        ({"area": [100.0] * 3 + [0.0] * 3}, "node 2 is around another and has an area"),
        ({"parent": [-1, 0, 0, 2, 0, 2]}, "node 5 is connected to one that is not around"),
        ({"g_axial": [0, 0.1, 0.1, 0.01, 0, 0.01]}, "node 2 is connected to one that is not"),
        ({"soma": [2]}, "node 2 is around another and is a root or soma"),
        ({"cell_offsets": [0, 5, 6], "parent": [-1, 0, 0, 2, 0, -1]}, "another cell around it"),
    ],
)
def test_nodes_around_others_are_checked(changed, said):
    with pytest.raises(InputError) as error:
        Network.from_arrays(**arrays(**changed))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_cells_without_enclosing_nodes_are_plain_cells():
    plain = {name: each[:2] for name, each in arrays(cell_offsets=[0, 2]).items()}
    potentials = []
    for around, g_around in ((None, None), ([-1, -1], None), ([-1, -1], [0, 0])):
        net = Network.from_arrays(**{**plain, "around": around, "g_around": g_around})
        net.insert("pas", g=1e-3, e=[-60.0, -80.0])
        sim = Simulation(net, DT, engine="reference")
        sim.run(1.0)
        potentials.append(sim.voltages())
    assert np.ptp(potentials[0]) < 1  # current flows between the nodes
    np.testing.assert_array_equal(potentials[1:], potentials[:1] * 2)


V_CLAMP = """
NEURON { POINT_PROCESS holds ELECTRODE_CURRENT i }
ASSIGNED { v (mV) i (nA) }
BREAKPOINT { i = 0.1*(-60 - v) }
"""


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (lambda net: net.add("iclamp", at=[2]), "iclamp at node 2, which is around another; expec"),
        (lambda net: net.add("expsyn", at=[5]), "expsyn at node 5, which is around another; expec"),
        (lambda net: net.add("iclamp", at=[0, 4]), ""),
        (lambda net: net.add("expsyn", at=[1]), ""),
        (
            lambda net: net.add(Mechanism.from_nmodl(V_CLAMP), at=[1]),
            "holds at node 1, which has nodes around it",
        ),
    ],
)
def test_what_is_at_nodes_around_others_is_checked(add, said):
    net = Network.from_arrays(**arrays())
    add(net)
    if not said:
        compile(net, DT)
        return
    with pytest.raises(InputError) as error:
        compile(net, DT)
    assert said in str(error.value)


def test_the_second_order_is_refused():
    with pytest.raises(InputError, match="secondorder, in a network with extracellular layers"):
        Simulation(Network.from_arrays(**arrays()), DT, secondorder=True)


@pytest.mark.parametrize("soma", [0, 1])
def test_a_soma_elsewhere_changes_nothing(soma):
    net = Network.from_arrays(**arrays(soma=[soma]))
    net.add("iclamp", at=[0], delay=0.0, dur=9.0, amp=0.1)
    sim = Simulation(net, DT, engine="steps")
    sim.run(1.0)
    layers, v = compile(net, DT).layers, sim.voltages()
    np.testing.assert_allclose(layers.axial[:, 1], [0.1, 0.01, 0.01])
    # the injected current leaves through the ground, less the charge of the membranes
    inside = v[:2] + v[2:4]
    assert inside[0] > inside[1] > 0 and v[2] > v[3] > 0 and v[4] > v[5] > 0
