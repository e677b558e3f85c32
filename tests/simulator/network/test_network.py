"""A network's model: trees rooted at somas, folded constants, kinds, connections, refusals."""

from dataclasses import replace

import mod_files
import numpy as np
import pytest
from networks import full_network

from bench.cells import ring_cell
from clhines import InputError, Network, Simulation
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.cells.synthetic import sample_cells
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model import compile
from clhines.simulator.network.pairs import Drawn, Pairs
from clhines.simulator.network.plasticity import STDP
from clhines.solver import reference

pytestmark = pytest.mark.core

CABLES = [discretise(cell, max_length=60) for cell in sample_cells()[:3]]
RING = ring_cell(3, 0.7, 3, seed=1, stems=2)
LONG_SOMA = discretise(RING, max_length=4.0)  # several segments: the soma's node is not the first
Y_SOMA = discretise(
    Morphology(
        parent=np.array([-1, 0, 0, 0, 3]),
        xyz=np.array([[0, 0, 0], [0, 5, 0], [0, -3, 0], [5, 0, 0], [13, 0, 0.0]]),
        radius=np.array([5, 5, 5, 1, 1.0]),
        type=np.array([1, 1, 1, 3, 3]),
        id=np.arange(5),
        line=np.arange(1, 6),
    ),
    max_length=2.0,
)


def test_a_tree_is_rooted_at_its_soma_and_stays_the_same_matrix():
    assert LONG_SOMA.parent[LONG_SOMA.soma] >= 0
    net = Network([LONG_SOMA, CABLES[0]], 3)
    net.insert("pas", g=1e-4, e=-65.0)
    model = compile(net, dt=0.025)
    np.testing.assert_array_equal(np.flatnonzero(model.forest.parent < 0), net.soma)
    offsets = model.forest.cell_offsets
    for cell, cable in enumerate([LONG_SOMA, CABLES[0], LONG_SOMA]):
        assert net.soma[cell] == offsets[cell] + cable.soma
        system = cable.system(0.025)
        old = Network([cable]).forest.__class__(cable.parent)
        expected = reference.dense(old, system.d, system.u)
        d = model.capacitance_over_dt + model.constant_d
        ours = reference.dense(model.forest, d, model.u, cell=cell)
        np.testing.assert_allclose(ours, expected, rtol=1e-14)
        mine = slice(offsets[cell], offsets[cell + 1])
        np.testing.assert_allclose(model.constant_b[mine], system.constant, rtol=1e-14)
    assert model.kinds == ()


def test_the_second_order_has_half_a_step():
    net = Network(CABLES)
    for order, factor in ((False, 1), (True, 2)):
        model = compile(net, 0.1, secondorder=order)
        np.testing.assert_allclose(model.capacitance_over_dt, factor * model.capacitance / 0.1)


def test_words_for_places():
    net = Network([LONG_SOMA])
    assert (net.area == 0).any()
    everywhere = net.insert("hh").nodes
    np.testing.assert_array_equal(everywhere, np.flatnonzero(net.area > 0))
    net = Network([LONG_SOMA])
    soma = np.flatnonzero((LONG_SOMA.section == 0) & (LONG_SOMA.area > 0))
    assert len(soma) == LONG_SOMA.nseg[0] > 1
    assert net.insert("hh", "soma").nodes.tolist() == soma.tolist()
    dendrites = net.insert("pas", "dendrites").nodes
    np.testing.assert_array_equal(dendrites, np.setdiff1d(everywhere, soma))
    net = Network([LONG_SOMA, CABLES[0]])
    assert net.insert("hh", "soma.middle").nodes.tolist() == net.soma.tolist()
    assert net.insert("pas", "soma").nodes.tolist() == [*soma, net.soma[1]]
    mask = np.zeros(LONG_SOMA.num_nodes, bool)
    mask[everywhere[3:5]] = True
    net = Network([LONG_SOMA])
    assert net.insert("hh", mask).nodes.tolist() == everywhere[3:5].tolist()


def test_a_soma_that_branches_is_all_of_its_sections():
    """A star: two soma sections, which begin at a junction, and a dendrite."""
    one, two, three = (Y_SOMA.first_node[s] for s in range(3))
    assert Y_SOMA.nseg.tolist() == [3, 2, 4]
    net = Network([Y_SOMA])
    nodes = net.insert("hh", "soma").nodes.tolist()
    assert nodes == [one, one + 1, one + 2, two, two + 1]
    assert net.insert("pas", "dendrites").nodes.tolist() == list(range(three, three + 4))
    assert net.soma.tolist() == [one + 1]


def test_a_cell_without_a_soma_has_no_nodes_there():
    bare = discretise(ring_cell(2, 0.5, 3, 0))
    bare = discretise(replace(bare.sections, soma=np.zeros(len(bare.nseg), bool), name="bare.swc"))
    net = Network([LONG_SOMA, bare])
    for at in ("soma", "soma.middle"):
        said = "no soma, no sample of type 1; expected all, nodes or a mask"
        with refused(f"at={at!r}: cell 1 .bare.swc. has {said}"):
            net.insert("hh", at)
    assert Network([LONG_SOMA, bare], 1).insert("hh", "soma").nodes.size == LONG_SOMA.nseg[0]
    assert Network([bare]).insert("pas", "dendrites").nodes.size == np.count_nonzero(bare.area)


def refused(text):
    return pytest.raises(InputError, match=text)


def test_refused_networks():
    with refused("no cables"):
        Network([])
    with refused(r"cables\[0\] is int; expected a Cable"):
        Network([3])
    with refused(r"cables\[0\] is Morphology; expected a Cable from discretise"):
        Network(RING)
    with refused("morphology is str; expected a Morphology from read_swc"):
        discretise("cell.swc")
    with refused("at='som'; expected soma, soma.middle, dendrites, all, axon"):
        Network(CABLES).add("expsyn", at="som")
    with refused("cables is NoneType"):
        Network(None)
    with refused("num_cells is 0"):
        Network(CABLES, 0)


@pytest.mark.parametrize(
    ("arguments", "parameters", "text"),
    [
        (("nothing",), {}, "unknown mechanism 'nothing'"),
        (("expsyn",), {}, "expsyn is a point process; use add"),
        (("hh", "axn"), {}, "at='axn'; expected soma, soma.middle, dendrites, all, axon"),
        (("hh", [0.5]), {}, "at has dtype float64; expected whole numbers of nodes"),
        (("hh", [10**6]), {}, r"at\[0\]: there is no node 1000000"),
        (("hh", [-1]), {}, r"at\[0\]: there is no node -1"),
        (("hh", [0, 0]), {}, "hh is in node 0 of cell 0 twice"),
        (("hh", np.ones(3, bool)), {}, r"mask of shape \(3,\)"),
        (("hh",), {"gbar": 1}, "hh has no parameter 'gbar'; expected one of gnabar"),
        (("hh",), {"gnabar": np.nan}, r"hh: gnabar\[0\] is nan"),
        (("hh", "soma"), {"gnabar": [1.0, 2.0]}, r"gnabar has shape \(2,\).*\(4,\)"),
        (("hh", "soma"), {"gnabar": "much"}, "hh: gnabar has dtype"),
    ],
)
def test_refused_mechanisms(arguments, parameters, text):
    with refused(text):
        Network(CABLES, 4).insert(*arguments, **parameters)


def test_names_and_styles_of_the_wrong_kind_are_refused():
    net = Network(CABLES)
    group = net.gap(0, 1, g=0.01)
    for name in (["g"], np.array(["g", "vgap"])):
        with refused("half_gap has no parameter .*; expected one of g"):
            group.parameters[name] = 1.0
        with refused("half_gap has no pointer .*; expected one of vgap"):
            net.set_pointer(group, name, 0)
    for style in (-1, 1.5, 512):
        with refused(f"ion ca: style is {style}; expected 0 to 511"):
            net.ion("ca", style=style)
    net.ion("ca", style=247)  # NEURON's, of a mechanism that sets cai


def test_a_mechanism_in_a_junction_is_refused():
    net = Network([LONG_SOMA])
    junction = int(np.flatnonzero(net.area == 0)[0])
    with refused(f"hh: node {junction} of cell 0 is a junction"):
        net.insert("hh", [junction])


def test_two_mechanisms_of_one_name_are_refused():
    net = Network(CABLES)
    net.insert("pas", [0])
    other = Mechanism("density pas\nparameter g = 1 S/cm2\ncurrent i = g*v*v [mA/cm2]")
    with refused("another mechanism called pas"):
        net.insert(other, [1])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"source": [4]}, r"source\[0\]: there is no cell 4; expected 0 to 3"),
        ({"source": [0.5]}, "source has dtype float64"),
        ({"index": [0, 3]}, r"index\[1\]: there is no expsyn 3; expected 0 to 2"),
        ({"weight": np.nan}, r"weight\[0\] is nan"),
        ({"delay": [1.0, np.inf]}, r"delay\[1\] is inf"),
        ({"delay": 0.0}, "delay of connection 0 is 0 ms; expected above 0"),
        ({"source": [0, 1, 2]}, r"source \(3,\), index \(2,\).*do not broadcast"),
        ({"target": "expsyn"}, "target is str; expected a Group"),
    ],
)
def test_refused_connections(changes, text):
    net, syn = full_network()
    parameters = {"source": 0, "target": syn, "index": [0, 1], "weight": 0.1, "delay": 1.0}
    with refused(text):
        net.connect(**{**parameters, **changes})


def test_refused_targets_and_events():
    net, syn = full_network()
    with refused("target hh does not receive events"):
        net.add_event(net.groups[0])
    with refused("belongs to another network"):
        full_network()[0].add_event(syn)
    with refused("time of an event is -1 ms"):
        net.add_event(syn, time=-1.0)


def test_refused_rules():
    net, syn = full_network()
    rule = STDP(0.01, 0.01, w_max=0.5)
    with refused("rule is str; expected a Rule"):
        net.connect(0, syn, 0, 0.1, rule="stdp")
    net.connect(0, syn, 0, 0.1, rule=rule)
    with refused("expected the rule of earlier connections"):
        net.connect(0, syn, 0, 0.1, rule=STDP(0.02, 0.01))
    net.connect(2, syn, 0, 0.1)
    model = compile(net)
    assert model.connections.plastic.tolist() == [True, False]
    assert model.cell_of_target().tolist() == [0, 2, 2]
    net.connect(1, syn, 0, 0.6, rule=rule)
    with refused("weight of connection 2, from cell 1, is 0.6; expected 0 to 0.5"):
        compile(net)


def test_the_temperature_of_the_network_is_the_default_of_its_mechanisms():
    text = "density warm\nparameter celsius = 30 degC\ncurrent i = 1e-6*celsius*v"
    net = Network(CABLES, 4)
    before = net.insert("hh", "soma")
    own = net.insert("hh", "dendrites", celsius=20.0)
    other = net.insert(text, "soma")
    assert (before.parameters["celsius"], other.parameters["celsius"]) == (6.3, 30.0)
    assert net.celsius == 6.3
    net.celsius = 34
    warm = net.insert(text, "dendrites")
    for group in (before, other, warm):
        assert group.parameters["celsius"] == 34.0
    assert own.parameters["celsius"] == 20.0
    with refused("hh: celsius is 20, the network's is 34; expected the same"):
        compile(net)
    own.parameters["celsius"] = 34.0
    assert [float(np.ravel(k.parameters["celsius"])[0]) for k in compile(net).kinds] == [34.0]
    before.parameters["celsius"] = 10.0
    net.celsius = 35
    assert before.parameters["celsius"] == 10.0  # set explicitly above


def test_temperatures_below_absolute_zero_are_refused():
    net = Network(CABLES, 4)
    for wrong in (-300, -273.15):
        with refused("celsius is -.* °C; expected above -273.15 °C"):
            net.celsius = wrong
    with refused("celsius is 'warm'; expected a finite number"):
        net.celsius = "warm"
    with refused("hh: celsius is -300 °C; expected above -273.15 °C"):
        net.insert("hh", "soma", celsius=[6.3, 6.3, -300, 6.3])
    assert net.celsius == 6.3


def test_a_file_has_the_temperature_of_the_network():
    text = "NEURON { SUFFIX warm NONSPECIFIC_CURRENT i } PARAMETER { celsius = 30 (degC) } "
    text += "ASSIGNED { v (mV) i (mA/cm2) } BREAKPOINT { i = 1e-6*celsius*v }"
    warm = Mechanism.from_nmodl(text)
    net = Network(CABLES, 4)
    group = net.insert(warm, "soma")
    assert group.parameters["celsius"] == 6.3
    net.celsius = 34
    assert group.parameters["celsius"] == compile(net).kinds[0].parameters["celsius"] == 34.0
    net.insert(warm, "dendrites", celsius=20.0)
    with refused("warm: celsius is 20, the network's is 34; expected the same"):
        compile(net)


def test_functions_of_the_distance_take_one_argument():
    net = Network(CABLES, 4)
    for wrong in (lambda: 1.0, lambda d, e: d, lambda *, d: d):
        with refused("pas: g is a function that does not take one argument .*; expected a functio"):
            net.insert("pas", "all", g=wrong)
        with refused("at is a function that does not take one argument"):
            net.insert("pas", wrong)
    group = net.insert("pas", lambda d, most=1e3: d < most, g=np.cos)  # has no signature
    assert len(group) == len(net.nodes())

    def fails(distance):
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own"):
        group.parameters["g"] = fails


COUNTER = """NEURON { ARTIFICIAL_CELL counter RANGE seen }
ASSIGNED { seen }
NET_RECEIVE(w) { seen = seen + 1 }
"""


def test_connect_returns_its_connections(tmp_path):
    net = Network.from_arrays([-1] * 6, np.arange(7), [300.0] * 6, [0.0] * 6, [0.005] * 6)
    net.insert("pas")
    synapses = net.add("expsyn", at=[5, 4, 3])
    train = net.spike_source([[0.5], [1.0]])
    several = net.add(mod_files.ours("ext_nmda"), at=[1])
    first = net.connect([0, 1], synapses, [2, 0], [0.1, 0.2], 1.5)
    counts = net.connect(train, net.add_artificial(Mechanism.from_nmodl(COUNTER), 2), weight=0.5)
    rows = net.connect(2, several, weight=[[0.3, 4.0]], delay=[2.0])
    assert len(net.connect([], synapses, [])) == 0
    drawn = net.connect(
        [3, 4, 5], synapses, Pairs.fixed_indegree(2, seed=1), delay=Drawn.uniform(1.0, 2.0),
        weight=Drawn.uniform(0.0, 0.1),
    )  # fmt: skip
    last = net.connect(train, synapses, [0, 1], 0.7, source_index=[1, 0])
    assert first.sources.tolist() == [0, 1] and first.targets.tolist() == [2, 0]
    assert first.weights.tolist() == [0.1, 0.2] and first.delays.tolist() == [1.5, 1.5]
    assert first.target is synapses and last.sources.tolist() == [7, 6]
    assert rows.weights.tolist() == [[0.3, 4.0, 0.0, 0.0]] and counts.weights.tolist() == [0.5, 0.5]
    assert sorted(drawn.targets) == [0, 0, 1, 1, 2, 2] and set(drawn.sources) <= {3, 4, 5}
    assert repr(first) == "Connections(2 to expsyn × 3; weight 0.1 to 0.2, delay 1.5 ms)"
    assert repr(counts) == "Connections(2 to counter × 2; weight 0.5, delay 1 ms)"
    every = first, counts, rows, drawn, last
    net.save(tmp_path / "network.npz")
    for one in (net, Network.load(tmp_path / "network.npz")):
        sim = Simulation(one, 0.025, engine="reference")
        for had, connection in zip(every, one.connections, strict=True):
            np.testing.assert_array_equal(connection.sources, had.sources)
            np.testing.assert_array_equal(connection.targets, had.targets)
            np.testing.assert_array_equal(connection.delays, had.delays)
            kept = 3 if had is rows else None  # INITIAL sets the last weight
            weights = sim.weights()[connection.where][:kept]
            np.testing.assert_array_equal(weights, had.weights.ravel()[:kept])
    sim.set(weight=np.arange(len(sim.weights())))
    assert sim.weights()[one.connections[4].where].tolist() == [14.0, 15.0]


def test_too_many_gap_junctions_are_refused_before_they_are_made():
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
    with pytest.raises(InputError, match="1000000000 gap junctions; expected at most 20000000"):
        net.gap(np.broadcast_to(0, 10**9), 1, 0.1)


def test_a_clamp_without_a_duration_warns():
    net = Network(discretise(ring_cell(2, 0.9, 2, seed=1)))
    with pytest.warns(UserWarning, match="without dur: it is 0 ms, so no current flows"):
        net.add("iclamp", at=net.soma, amp=1.0)
