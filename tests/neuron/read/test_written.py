"""POINTERs through which events set weights of other NetCons: compared with NEURON, or refused."""

import mod_files
import numpy as np
import pytest

import clhines
from clhines.core.errors import InputError

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron

ENGINES = "reference", "steps", "auto"
STOP = 40.0  # ms
WEIGHT = 0.01  # µS


@pytest.fixture
def model():
    """Three cells, each with synapses of four sources; other instances set the weights."""
    mod_files.loaded()
    cells = [h.Section(name=f"steered{k}") for k in range(3)]
    sources = [h.NetStim() for _ in range(4)]
    for k, source in enumerate(sources):
        source.number, source.start, source.interval, source.noise = 1e9, 1 + 1.3 * k, 4.1 + k, 0
    made = []
    for k, cell in enumerate(cells):
        cell.L = cell.diam = 20
        cell.insert("hh")
        for n, source in enumerate(sources):
            synapse, rule = h.ExpSyn(cell(0.5)), h.ext_steer(cell(0.5))
            wire, before = h.NetCon(source, synapse), h.NetCon(source, rule)
            after = h.NetCon(cell(0.5)._ref_v, rule, sec=cell)
            wire.delay, before.delay, after.delay = 1 + 0.37 * n + 0.1 * k, 0.613 + 0.2 * n, 0.5
            before.weight[0], after.weight[0], after.threshold = -1, 1, 0
            h.setpointer(wire._ref_weight[0], "w", rule)
            made.append((synapse, rule, wire, before, after))
    yield cells, sources, made
    for cell in cells:
        h.delete_section(sec=cell)


def pieces(run, cells, made):
    """Return voltages, conductances and changes over time, and weights between pieces."""
    vectors = [h.Vector().record(cell(0.5)._ref_v) for cell in cells]
    vectors += [h.Vector().record(s._ref_g) for s, *_ in made]
    vectors += [h.Vector().record(rule._ref_change) for _, rule, *_ in made]
    results = []
    for turn in range(2):
        for _, _, wire, *_ in made:
            wire.weight[0] = WEIGHT
        h.finitialize(-65 + turn)
        for until in (STOP / 3, STOP):
            run(until)
            results.append(np.array([wire.weight[0] for _, _, wire, *_ in made]))
        results += [np.array(v) for v in vectors]
    return results


def ours(engine):
    return lambda until: clhines.neuron.run(until, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_are_those_of_neuron(model, engine):
    """Compare weights with NEURON's; the operations and their order are equal.

    Only exp(x) may differ, by an ulp of 2e-16, and voltages by eps in each of 1600 steps, amplified
    by e^5 in an upstroke.
    """
    cells, _, made = model
    expected = pieces(h.continuerun, cells, made)
    ours_here = pieces(ours(engine), cells, made)
    assert np.ptp(expected[1]) > 1e-4 and (expected[0] != WEIGHT).all()
    for a, b in zip(expected, ours_here, strict=True):
        assert np.abs(a - b).max() <= 1600 * 2.2e-16 * 148 * np.abs(a).max()


def test_events_are_taken_with_weights_that_were_set_before(model):
    """Events pending at the start of a run come with their NetCon's present weight."""
    cells, _, made = model

    def mixed(until):
        (h.continuerun if until < STOP else clhines.neuron.run)(until)

    expected, results = (pieces(run, cells, made) for run in (h.continuerun, mixed))
    for a, b in zip(expected, results, strict=True):
        assert np.abs(a - b).max() <= 1600 * 2.2e-16 * 148 * np.abs(a).max()


def test_times_that_leave_the_order_open(model):
    _, sources, made = model
    _, rule, wire, before, _ = made[0]
    before.delay = wire.delay
    h.finitialize(-65)
    with pytest.raises(
        InputError, match="w points to a weight of a connection that has the source"
    ):
        clhines.neuron.run(STOP)
    before.delay, extra = 0.613, h.NetCon(sources[1], rule)
    extra.weight[0] = 1
    second = sources[0].start + sources[0].interval + wire.delay  # the synapse's second event
    extra.delay = second + 1e-3 - sources[1].start  # another source's, later in its step
    for engine in ENGINES:
        h.finitialize(-65)
        said = "ExpSyn: an event comes at the time, or before in the same step, at which another's"
        with pytest.raises(InputError, match=said):
            clhines.neuron.run(STOP, engine=engine)


def test_what_is_rejected(model):
    cells, _, made = model
    h.setpointer(made[0][2]._ref_weight[0], "w", made[1][1])
    h.finitialize(-65)
    with pytest.raises(InputError, match="pointer w points to a weight to which another pointer"):
        clhines.neuron.run(STOP)
    h.setpointer(cells[0](0.5)._ref_v, "w", made[1][1])
    h.finitialize(-65)
    [said] = map(str, clhines.neuron.check())
    assert "POINTER w, which NET_RECEIVE writes, points to no weight of a NetCon" in said
    h.setpointer(made[1][2]._ref_weight[0], "w", made[1][1])
    h.finitialize(-65)
    with pytest.raises(InputError, match="copies of a model with POINTER w"):
        clhines.from_neuron(copies=2)
    with pytest.raises(InputError, match="takes no pointers by which events set weights of others"):
        clhines.neuron.run(STOP, engine="epochs")
    saved = clhines.from_neuron().simulation.network
    with pytest.raises(InputError, match="events set weights by a POINTER cannot be saved"):
        saved.save("none.npz")
