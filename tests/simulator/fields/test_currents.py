"""Currents of fields, against NEURON's `extracellular` and by linearity."""

import numpy as np
import pytest
from networks import layered_network

from clhines import InputError, Mechanism, Network, Simulation, discretise, sample_cells
from clhines.fields import Medium, line_matrix, point_potential

STOP = 6.0  # ms
ELECTRODE = [40.0, -30.0, 60.0]  # µm
TIMES = [0.0, 0.5, 0.5, 1.3, 1.3, 2.0, 3.1, 9.0]  # ms
WAVEFORM = (TIMES, [0.0, 0.0, -40.0, -25.0, 10.0, 10.0, 0.0, 0.0])  # ms, µA
# NEURON's potential outside is off by the membrane's current over xg, twice: 2e-9 mV for each
# mA/cm² with its own xg of 1e9 S/cm². With XG it is a thousandth of this.
XG, EXACT, OWN = 1e12, 1e-9, 1e-8  # S/cm², mV, mV


def in_neuron(cable, potential, dt, celsius, xg):
    """Return (steps, n) voltages of a cell in a field."""
    import test_simulation_neuron as with_neuron

    h = with_neuron.h
    sections, _, segments = with_neuron.neuron_cell(cable)
    t, y = (h.Vector(values) for values in WAVEFORM)
    kept = []
    for section in sections:
        section.insert("extracellular")
    for node, segment in segments.items():
        segment.xg[0] = segment.xg[1] = xg
        kept.append(y.c().mul(float(potential[node])))
        kept[-1].play(segment._ref_e_extracellular, t, True)
    with_neuron.initialise(0)
    h.celsius, h.dt = celsius, dt
    h.finitialize(with_neuron.V_INIT)
    rows = []
    for _ in range(round(STOP / dt)):
        h.fadvance()
        rows.append([segments[node].v for node in segments])
    return list(segments), np.array(rows)


@pytest.mark.neuron
@pytest.mark.parametrize(
    ("engine", "dt", "celsius", "xg"),
    [
        ("reference", 0.025, 6.3, XG),
        ("steps", 0.05, 18.5, XG),
        ("epochs", 0.025, 6.3, XG),
        ("epochs", 0.005, 18.5, XG),
        ("epochs", 0.1, 30.0, XG),
        ("epochs", 0.025, 6.3, 1e9),
    ],
)
def test_a_field_is_neurons_extracellular(double_queue, engine, dt, celsius, xg):
    """Compare all nodes of a spiking cell with branches in every step."""
    pytest.importorskip("neuron", reason="NEURON is not installed: pip install neuron")
    import test_simulation_neuron as with_neuron

    (cable,) = with_neuron.branching_cells(1)
    net = with_neuron.our_network(cable)
    net.celsius = celsius
    potential = point_potential(net.geometry(), ELECTRODE)
    net.field(potential, WAVEFORM)
    options = {"queue": double_queue, "engine": engine, "v_init": with_neuron.V_INIT}
    sim = Simulation(net, dt, **options)
    number = sim.record("v", np.arange(cable.num_nodes))
    ours = sim.run(STOP)[number][1:]
    nodes, theirs = in_neuron(cable, potential, dt, celsius, xg)
    assert theirs.max() > 0 or celsius > 20
    assert np.ptp(theirs[: round(1.2 / dt)]) > 20  # the field acts
    assert np.abs(ours[:, nodes] - theirs).max() < (EXACT if xg == XG else OWN)


def chain(n=6, cells=2):
    rng = np.random.default_rng(3)
    parent = np.concatenate([np.arange(n) - 1 + n * c for c in range(cells)])
    parent[::n] = -1
    size = n * cells
    arrays = {"area": np.full(size, 100.0), "g_axial": rng.uniform(0.01, 0.1, size),
              "capacitance": np.full(size, 1e-3)}  # fmt: skip
    return Network.from_arrays(parent, n * np.arange(cells + 1), **arrays)


def currents_of(net, potential):
    group = net.field(potential, ([0.0], [1.0]))
    amp = np.zeros((np.atleast_2d(potential).shape[0], net.forest.num_nodes))
    amp[0, group.nodes] = group.parameters["amp"]
    return amp[0]


@pytest.mark.core
def test_currents_are_differences_of_the_potential():
    """A cell's currents add up to 0; an equal potential everywhere causes none."""
    net, rng = chain(), np.random.default_rng(1)
    potential = rng.uniform(-20, 20, 12)
    ours, want = currents_of(net, potential), np.zeros(12)
    g = net._inside.structure.whole("g_axial")
    for i, j in enumerate(net.forest.parent.tolist()):
        if j >= 0:
            want[i] += g[i] * (potential[j] - potential[i])
            want[j] += g[i] * (potential[i] - potential[j])
    np.testing.assert_allclose(ours, want, 0, 1e-14)
    assert abs(ours.reshape(2, 6).sum(axis=1)).max() < 1e-13
    assert len(chain().field(np.full(12, 7.0), ([0.0], [1.0]))) == 0


@pytest.mark.core
def test_waveforms_add_up_and_belong_to_cells():
    """Two fields change v by the sum of their changes (linearity); fields belong to cells."""
    t, y = [0.0, 0.2, 0.2, 1.0], np.array([[0, 1, 2, 0.5], [1, 0, -1, -1.0]])
    potential = np.random.default_rng(2).uniform(-5, 5, (2, 12))

    def change(*fields, **options):
        net = chain()
        net.insert("pas", g=1e-3, e=-65.0)
        for values, waveform in fields:
            net.field(values, waveform, **options)
        sim = Simulation(net, 0.025, engine="reference", v_init=-65.0)
        number = sim.record("v", "all")
        return sim.run(1.5)[number] + 65

    both, one, other = (change((potential, (t, y))), change((potential[0], (t, y[0]))),
                        change((potential[1], (t, y[1]))))  # fmt: skip
    assert np.abs(one).max() > 0.1
    np.testing.assert_allclose(both, one + other, 0, 1e-12)
    twice = change((potential[0], (t, y[0])), (potential[1], (t, y[1])))
    np.testing.assert_allclose(both, twice, 0, 1e-12)
    of_cells = change((potential[0], (t, y)), of_cell=[1, 0])
    second = change((potential[0], (t, y[1])))
    np.testing.assert_allclose(of_cells[:, :6], second[:, :6], 0, 1e-12)
    np.testing.assert_allclose(of_cells[:, 6:], one[:, 6:], 0, 1e-12)
    held = change((potential[0], ([0.1, 0.3], [1.0, -2.0])), continuous=False)
    jumps = change((potential[0], ([0.1, 0.1, 0.3, 0.3], [0.0, 1.0, 1.0, -2.0])))
    np.testing.assert_array_equal(held, jumps)


def test_engines_agree_and_amplitudes_are_set(double_queue):
    potential = np.random.default_rng(2).uniform(-30, 30, 12)
    rows = []
    for engine in ("reference", "steps", "epochs"):
        net = chain()
        net.insert("hh")
        group = net.field(potential, ([0.0, 0.5, 0.5], [1.0, -1.0, 0.0]))
        sim = Simulation(net, 0.025, queue=double_queue, engine=engine)
        number = sim.record("v", "all")
        sim.run(1.0)
        sim.set(group, scale=net.per_cell([2.0, 0.0]))
        sim.reset()
        rows.append(sim.run(4.0)[number])
        assert np.ptp(rows[-1][:, :6]) > 20
    for row in rows[1:]:
        np.testing.assert_allclose(row, rows[0], 0, 1e-9)


def test_currents_through_membranes_count_the_field(double_queue):
    """`i_membrane` includes the field's axial currents; it adds up to 0 over a cell."""
    net = chain()
    net.insert("hh")
    net.field(np.random.default_rng(2).uniform(-30, 30, 12), ([0.0, 9.0], [1.0, -1.0]))
    sim = Simulation(net, 0.025, queue=double_queue)
    number = sim.record("i_membrane", "all")
    rows = sim.run(3.0)[number][1:]
    assert np.abs(rows).max() > 0.05
    assert np.abs(rows.reshape(-1, 2, 6).sum(axis=2)).max() < 1e-12


@pytest.mark.core
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"potential": np.zeros(11)},
            "potential has shape (11,); expected (12,), one for each node",
        ),
        ({"potential": np.zeros((2, 12))}, "potential has 2 rows for 1 waveforms; expected a row"),
        ({"potential": [np.nan] * 12}, "potential[0] is nan; expected a finite number"),
        ({"potential": [1.0 + 1j] * 12}, "potential has dtype complex128; expected real numbers"),
        ({"waveform": ([0.0, 1.0], [0.0])}, "t has shape (2,), y (1,); expected (m,), and (m,) or"),
        ({"waveform": ([1.0, 0.0], [0.0, 0.0])}, "t goes back in time; expected ascending times"),
        ({"waveform": ([0.0, 1.0], np.zeros((0, 2)))}, "t has shape (2,), y (0, 2); expected (m,)"),
        ({"waveform": ([0.0], [np.inf])}, "y[0] is inf; expected a finite number"),
        ({"waveform": [0.0]}, "waveform is [0.0]; expected a tuple of t and y"),
        ({"waveform": (np.arange(9e3), np.zeros(9000))}, "waveforms have 9000 values; expected at"),
        ({"of_cell": [0]}, "of_cell has shape (1,) with 1 potentials; expected (2,) with one"),
        ({"of_cell": [0, 1]}, "of_cell"),
        ({"continuous": "no"}, "continuous"),
    ],
)
def test_refusals(given, said):
    options = {"potential": np.zeros(12), "waveform": ([0.0], [1.0]), **given}
    with pytest.raises(InputError) as error:
        chain().field(**options)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.core
def test_a_field_leaves_the_names_of_other_mechanisms():
    net = chain()
    text = "NEURON { POINT_PROCESS field1 NONSPECIFIC_CURRENT i }\nASSIGNED { i (nA) }"
    net.add(Mechanism.from_nmodl(f"{text}\nBREAKPOINT {{ i = 0.1 }}"), at=[0])
    fields = [net.field(np.ones(12), ([0.0], [1.0])) for _ in range(2)]
    assert [group.mechanism.name for group in fields] == ["field", "field2"]


@pytest.mark.core
def test_a_frozen_network_has_no_new_field():
    net = chain()
    Simulation(net, engine="reference")
    with pytest.raises(InputError, match="the network is frozen"):
        net.field(np.ones(12), ([0.0], [1.0]))


def test_the_potential_of_a_network(double_queue):
    """`lfp` records equal membrane currents times the matrix; a cell's currents add up to 0."""
    cable = discretise(sample_cells()[0], max_length=60)
    net = Network(cable, 2)
    net.insert("hh", at="soma")
    net.insert("pas", at="dendrites", g=5e-5, e=-65.0)
    synapse = net.add("expsyn", at=net.soma, tau=0.5, e=0.0)
    net.add_event(synapse, [0, 1], [0.5, 1.0], 0.15)
    where = net.geometry(shift=[[0, 0, 0], [50.0, 0, 20.0]])
    electrodes = np.array([[300.0, 0, 0], [0, 300.0, 50.0], [0, 0, 900.0]])
    matrix = net.lfp(electrodes, Medium(0.4), where)
    np.testing.assert_array_equal(
        matrix, line_matrix(where.of(net.nodes()), electrodes, Medium(0.4))
    )
    sim = Simulation(net, 0.025, queue=double_queue)
    current, lfp = sim.record("i_membrane", "all"), sim.record("i_membrane", "all", matrix=matrix)
    dipole = sim.record("i_membrane", "all", matrix=where.centre[net.nodes()].T, every=0.1)
    result = sim.run(4.0)
    rows = result[current]
    assert np.abs(rows.sum(axis=1)).max() < 1e-10 * np.abs(rows).max() * rows.shape[1]
    np.testing.assert_allclose(result[lfp], rows @ matrix.T, 0, 1e-12 * np.abs(rows).max())
    assert np.abs(result[dipole]).max() > 1.0 and result[dipole].shape[1] == 3
    with pytest.raises(InputError, match="geometry has 5 nodes; expected"):
        net.lfp(electrodes, geometry=where.of(np.arange(5)))
    with pytest.raises(InputError, match="geometry is int; expected a Geometry"):
        net.lfp(electrodes, geometry=5)


SECLAMP = """NEURON { POINT_PROCESS clamp ELECTRODE_CURRENT i }
ASSIGNED { v (mV) i (nA) }
BREAKPOINT { i = (-40 - v)/5 }"""


def with_current(net, what):
    if what == "gap":
        net.gap([1], [8], 0.001)
    else:
        net.add(Mechanism.from_nmodl(SECLAMP) if what == "seclamp" else what, at=[2])
    return Simulation(net, engine="reference")


@pytest.mark.core
@pytest.mark.parametrize("what", ["vclamp", "seclamp", "gap"])
def test_currents_that_need_the_potential_outside_are_refused(what):
    """NEURON's SEClamp and `source_var` measure v + vext."""
    with_current(chain(), what)
    net = chain()
    net.field(np.arange(12.0), ([0.0], [1.0]))
    with pytest.raises(InputError, match=r"(clamp|half_gap), .* in a field; expected others$"):
        with_current(net, what)
    with pytest.raises(InputError, match="is an electrode that depends|network with extracellular"):
        with_current(layered_network()[0], what)
