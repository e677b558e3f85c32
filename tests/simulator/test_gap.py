"""Gap junctions against NEURON's ParallelContext and a closed formula; refusals."""

import mod_files
import numpy as np
import pytest

from clhines import InputError, Network, Simulation
from clhines.simulator.model import compile

STOP, DT, G = 40.0, 0.025, [0.004, 0.002]  # ms, ms, µS
A, B = [5, 0], [9, 6]  # a dendrite's end to the middle of another one; somas
ENGINES = ["reference", "steps", "epochs-cpu", "epochs-gpu"]


def in_neuron():
    """Return v and half-gap currents of two cells, each a soma and a dendrite (five segments)."""
    h = mod_files.loaded()
    cells = []
    for c in range(2):
        soma, dend = h.Section(name=f"soma{c}"), h.Section(name=f"dend{c}")
        dend.connect(soma(0.5))
        soma.L = soma.diam = 20 - 4 * c
        dend.L, dend.diam, dend.nseg = 200, 2, 5
        for section in (soma, dend):
            section.Ra, section.cm = 120, 1.1
            section.insert("hh")
        cells.append((soma, dend))
    segments = [s for soma, dend in cells for s in (soma(0.5), *dend)]
    clamp = h.IClamp(segments[0])
    clamp.delay, clamp.dur, clamp.amp = 2.0, 30.0, 0.35
    pc, halves = h.ParallelContext(), []
    for k, (here, there) in enumerate(zip(A + B, B + A, strict=True)):
        pc.source_var(segments[there]._ref_v, k, sec=segments[there].sec)
        half = h.imp_gap(segments[here])
        half.g = G[k % 2]
        pc.target_var(half, half._ref_vother, k)
        halves.append(half)
    pc.setup_transfer()
    v = [h.Vector().record(s._ref_v) for s in segments]
    i = [h.Vector().record(half._ref_i) for half in halves]
    h.cvode.active(0)
    h.celsius, h.dt, h.secondorder, h.usetable_hh = 6.3, DT, 0, 0
    pc.set_maxstep(10)
    h.finitialize(-65)
    pc.psolve(STOP)
    area = np.array([s.area() for s in segments])
    g_axial = np.array([0 if k % 6 == 0 else 1 / s.ri() for k, s in enumerate(segments)])
    result = (area, g_axial), np.array(v).T, np.array(i).T
    pc.gid_clear()
    del halves, clamp
    return result


def network(area, g_axial):
    parent = np.array([*range(-1, 5), *range(5, 11)])
    parent[[0, 6]] = -1
    net = Network.from_arrays(parent, [0, 6, 12], area, g_axial, 1.1e-5 * area)
    net.insert("hh", np.arange(12))
    net.add("iclamp", at=0, delay=2.0, dur=30.0, amp=0.35)
    return net, net.gap(A, B, G)


@pytest.fixture(scope="module")
def truth():
    return in_neuron()


@pytest.mark.neuron
@pytest.mark.parametrize("engine", ENGINES)
def test_as_in_neuron(truth, double_queue, engine):
    """Compare voltages and currents of all half gaps with `target_var` and `source_var`.

    NEURON adds the same numbers in another order: 1600 steps, each some units in the last place,
    that spikes amplify by less than a hundredfold.
    """
    arrays, v, i = truth
    net, halves = network(*arrays)
    sim = Simulation(net, DT, queue=double_queue, engine=engine)
    of_v, of_i = sim.record("v", np.arange(12)), sim.record("i", halves)
    result = sim.run(STOP)
    assert sim.engine == engine and set(result.spike_cell) == {0, 1}  # the junctions excite cell 1
    np.testing.assert_allclose(result[of_v], v, 0, 1e-9 * np.abs(v).max())
    np.testing.assert_allclose(result[of_i][1:], i[1:], 0, 1e-9 * np.abs(i).max())


@pytest.mark.parametrize("engine", ENGINES)
def test_two_compartments_reach_each_other(double_queue, engine):
    """The difference shrinks by (1 - r)/(1 + r) per step, r = g*dt/c; the sum stays."""
    c, g = 0.01, 0.004
    net = Network.from_arrays([-1, -1], [0, 1, 2], [500.0] * 2, [0.0] * 2, [c] * 2)
    net.gap(0, 1, g)
    sim = Simulation(net, DT, v_init=[-60.0, -70.0], queue=double_queue, engine=engine)
    number = sim.record("v", [0, 1])
    v, r = sim.run(20 * DT)[number], g * DT / c
    # each step rounds some numbers of 100 mV by 2**-53
    eps = 20 * 10 * 100 * 2.0**-53
    expected = 10 * ((1 - r) / (1 + r)) ** np.arange(21)
    np.testing.assert_allclose(v[:, 0] - v[:, 1], expected, 0, eps)
    np.testing.assert_allclose(v.sum(axis=1), -130, 0, eps)


def test_what_it_becomes(tmp_path):
    arrays = np.full(12, 500.0), np.full(12, 0.1)
    net, halves = network(*arrays)
    assert len(halves) == 4 and list(halves.nodes) == A + B
    net.save(tmp_path / "net.npz")
    for model in (compile(net), compile(Network.load(tmp_path / "net.npz"))):
        ((k, name),) = model.pointers
        assert name == "vgap" and "pointers" in model.needs
        order = np.argsort(model.instances[halves.number][1])
        assert list(model.kinds[k].node[np.argsort(order)]) == A + B
        assert list(model.pointers[k, name][np.argsort(order)]) == B + A
    sim = Simulation(net, DT, v_init=np.arange(-70.0, -58.0), engine="reference")
    number = sim.record("i", halves)
    first = sim.run(DT)[number][-1]
    sim.set(halves, g=0.0)
    assert np.any(first != 0) and not np.any(sim.run(DT)[number][-1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0, 0, 1.0), r"gap junction 0 joins node 0 to itself; expected another node$"),
        (([0, 1], 2, [1.0, -1.0]), r"g of gap junction 1 is -1 uS; expected 0 or more$"),
        (([0, 1], [0, 1, 2], 1.0), r"a \(2,\), b \(3,\), g \(1,\) do not broadcast"),
        ((0, 12, 1.0), r"b\[0\]: there is no node 12; expected 0 to 11"),
        (("soma", 1, 1.0), "a is 'soma'; expected whole numbers of nodes"),
        ((0, 1, np.nan), r"g\[0\] is nan; expected a finite number"),
    ],
)
def test_refusals(given, message):
    net, _ = network(np.full(12, 500.0), np.full(12, 0.1))
    with pytest.raises(InputError, match=message) as error:
        net.gap(*given)
    assert "\n" not in str(error.value) and len(net.groups) == 3
