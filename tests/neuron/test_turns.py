"""Several instances that draw from NEURON's one generator in turn: its numbers, bit by bit."""

import numpy as np
import pytest

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron
ENGINES = ["reference", "steps", "epochs", "epochs-gpu"]


def both(run, records):
    """What NEURON and what `run` leave of two runs: records, and numbers that are drawn next."""
    found = []
    for go in (h.continuerun, run):
        h.sow_nmfluct(321)
        turns = []
        for _ in range(2):
            h.finitialize(-65)
            go(1.3)
            go(4)
            h.continuerun(4.5)
            go(6)
            turns.append([np.array(x) for x in records] + [np.array(next_numbers())])
        found.append(turns)
    return found


def runs(engine):
    return lambda t: clhines.neuron.run(t, engine=engine)


def next_numbers():
    return [h.draw_nmfluct() for _ in range(3)]


@pytest.mark.parametrize("engine", ENGINES)
def test_draws_of_steps(engine):
    """Of two mechanisms, in branches, in INITIAL, PROCEDURE and DERIVATIVE; two runs in pieces."""
    mod_files.loaded()
    cells = [h.Section(name=name) for name in "abc"]
    for k, cell in enumerate(cells):
        cell.L = cell.diam = 20
        cell.nseg = 1 + 2 * (k == 1)
        cell.insert("nmfluct")
        for segment in cell:
            segment.nmfluct.rare = k == 1
    cells[2].connect(cells[0](1))
    jolts = [h.nmjolts(cell(0.5)) for cell in cells]
    segments = [segment for cell in cells for segment in cell]
    exact = [h.Vector().record(jolt._ref_drawn) for jolt in jolts]
    exact += [h.Vector().record(s.nmfluct._ref_jumps) for s in segments]
    near = [h.Vector().record(s._ref_v) for s in segments]
    near += [h.Vector().record(s.nmfluct._ref_g) for s in segments]
    (truth, found) = both(runs(engine), exact + near)
    for expected, own in zip(truth, found, strict=True):
        assert (own[-1] == expected[-1]).all()
        assert len({*expected[0]}) > 200 and (expected[0] != expected[1]).any()
        for k, (a, b) in enumerate(zip(expected[:-1], own[:-1], strict=True)):
            # both sides do the same operations in another order: 1e-16 of the largest, 240 steps
            assert (a == b).all() if k < len(exact) else np.abs(a - b).max() < 1e-9 * np.ptp(a)


@pytest.mark.parametrize("engine", ["reference", "steps"])
def test_draws_in_both_branches_that_set_by_pointers(engine):
    """As often in each step, whatever the time is: generators that set what synapses have."""
    mod_files.loaded()
    cells = [h.Section(name=name) for name in "ab"]
    for cell in cells:
        cell.L = cell.diam = 20
        cell.insert("pas")
    synapses = [h.ext_heard(cell(0.5)) for cell in cells for _ in range(2)]
    generators = [h.ext_poisson(synapse.get_segment()) for synapse in synapses]
    for k, generator in enumerate(generators):
        h.setpointer(synapses[k]._ref_stim, "out", generator)
        generator.on, generator.off = 0.8 + k / 2, 3
    exact = [h.Vector().record(generator._ref_drawn) for generator in generators]
    near = [h.Vector().record(synapse._ref_g) for synapse in synapses]
    near += [h.Vector().record(cell(0.5)._ref_v) for cell in cells]
    truth, found = both(runs(engine), exact + near)
    for expected, own in zip(truth, found, strict=True):
        assert len({*expected[0]}) > 200 and (own[-1] == expected[-1]).all()
        for k, (a, b) in enumerate(zip(expected[:-1], own[:-1], strict=True)):
            # as above; steps in which synapses have been set are many
            assert (a == b).all() if k < len(exact) else np.abs(a - b).max() < 1e-9 * np.ptp(a)


def sources(kind, synapses, **given):
    """Sources with noise, and the NetCons that take them to synapses, more than one from each."""
    made = [kind() if kind is h.nmnoise else kind(s.get_segment()) for s in synapses]
    netcons = []
    for k, one in enumerate(made):
        for name, values in given.items():
            setattr(one, name, values[k])
        netcons += [h.NetCon(one, synapses[j], 0, 0.3 + abs(j), 0.002) for j in (k, k - 1)]
    return made, netcons


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["nmownev", "nmnoise"])
def test_draws_of_sources(engine, name):
    """Of NET_RECEIVE, always or where a parameter asks; times, weights and all variables."""
    mod_files.loaded()
    cells = [h.Section(name=name) for name in "abc"]
    synapses = [h.ExpSyn(cell(0.5)) for cell in cells]
    if name == "nmownev":
        given = {"mean": [0.3, 0.5, 0.7], "seed": [77, -1, -1]}
        variables = ["left"]
    else:
        given = {"interval": [0.3, 0.5, 0.7], "noise": [1, 0, 0.4]}
        variables = ["event", "sent"]
    made, netcons = sources(getattr(h, name), synapses, **given)
    assert netcons
    for cell in cells:
        cell.insert("pas")
    times, numbers = h.Vector(), h.Vector()
    for k, netcon in enumerate(netcons[::2]):
        netcon.record(times, numbers, k)
    records = [times, numbers, *(h.Vector().record(cell(0.5)._ref_v) for cell in cells)]
    variables = [getattr(one, f"_ref_{v}") for one in made for v in variables if hasattr(one, v)]
    truth, found = [], []
    for go, to in ((h.continuerun, truth), (runs(engine), found)):
        h.sow_nmfluct(99)
        for _ in range(2):
            h.finitialize(-65)
            for until, one in ((2, go), (2.025, go), (9, go), (9.5, h.continuerun), (20, go)):
                one(until)
                to.append([np.array(x) for x in records])
                to[-1].append([*next_numbers(), *(x[0] for x in variables)])
    assert len(truth[0][0]) > 8 and {*truth[-1][1]} == {0, 1, 2}
    for (t, n, *v, after), (own_t, own_n, *own_v, own_after) in zip(truth, found, strict=True):
        assert (own_t == t).all() and (own_n == n).all()
        assert own_after == after
        # both sides do the same operations in another order: 1e-16 of 65 mV, 800 steps
        assert max(np.abs(a - b).max() for a, b in zip(v, own_v, strict=True)) < 1e-9


def test_a_run_that_fails_leaves_numbers_and_events():
    mod_files.loaded()
    cells = [h.Section(name=name) for name in "ab"]
    synapses = [h.ExpSyn(cell(0.5)) for cell in cells]
    made, netcons = sources(h.nmownev, synapses, mean=[0.4, 0.6])
    times = h.Vector()
    netcons[0].record(times)
    v = h.Vector().record(cells[0](0.5)._ref_v)
    found = []
    for fails in (False, True):
        h.sow_nmfluct(5)
        h.finitialize(-65)
        h.continuerun(1)
        if fails:
            with pytest.raises(clhines.InputError, match="engine"):
                clhines.neuron.run(5, engine="none")
            assert h.t == pytest.approx(1) and all(netcon.active() for netcon in netcons)
        h.continuerun(9)
        found.append([list(times), list(v), [one.left for one in made], next_numbers()])
    assert found[0] == found[1] and len(found[0][0]) > 5


def test_orders_that_the_network_decides_are_rejected():
    mod_files.loaded()
    soma = h.Section(name="soma")
    synapse = h.ExpSyn(soma(0.5))
    made, netcons = sources(h.nmownev, [synapse, synapse])

    def check(what):
        h.finitialize(-65)
        for go in (lambda: clhines.neuron.run(1), clhines.from_neuron):
            with pytest.raises(clhines.InputError, match=what):
                go()
        lines = [str(line) for line in clhines.neuron.check()]
        assert any(what in line for line in lines), lines

    circle = h.NetCon(made[0], made[1])
    check("it gets events of others")
    del circle
    recorded = h.Vector().record(made[0]._ref_left)
    check("Vectors record its variables")
    recorded.play_remove()
    h.CVode().queue_mode(1, 0)
    check("queue_mode")
    h.CVode().queue_mode(0, 0)
    jolts = h.nmjolts(soma(0.5))
    check("in turn with nmownev, whose events draw")
    del made, netcons
    h.finitialize(-65)
    clhines.neuron.run(1)  # one instance alone
    other = h.nmdraws(soma(0.5))
    check("nmdraws: poisrand of several instances in turn, in a loop")
    del other
    jolts = [jolts, h.nmjolts(soma(0.5))]
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match="in turn; use clhines.neuron.run"):
        clhines.from_neuron()
    soma.insert("nmfluct")
    values, knots = h.Vector([0, 1]), h.Vector([0, 5])
    values.play(soma(0.5).nmfluct._ref_rare, knots, 1)
    check("what decides whether it draws is played")
    values.play_remove()
    h.use_mcell_ran4(1)
    try:
        check("use_mcell_ran4")
    finally:
        h.use_mcell_ran4(0)


def _shared(trains, randoms):
    for train in trains:
        train.draw(randoms[0])


DISTRIBUTIONS = {
    "lognormal": lambda trains, randoms: [random.lognormal(1, 0.1) for random in randoms],
    "erlang": lambda trains, randoms: [random.erlang(2, 1) for random in randoms],
    "a Random for two": _shared,
    "two generators": lambda trains, randoms: randoms[1].MCellRan4(7),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_sources_with_randoms_that_only_neuron_draws_from(name):
    """They answer their own events alone, so NEURON runs them ahead, and their Randoms."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    synapse = h.ExpSyn(soma(0.5))
    trains, randoms = [h.ExtTrain(), h.ExtTrain()], [h.Random(), h.Random()]
    netcons = [h.NetCon(train, synapse, 0, 0.3, 0.002) for train in trains]
    times, v = h.Vector(), h.Vector().record(soma(0.5)._ref_v)
    netcons[1].record(times)
    found = []
    for go in (h.continuerun, runs("reference"), runs("auto")):
        for k, (train, random) in enumerate(zip(trains, randoms, strict=True)):
            random.Random123(k, 3, 4)
            random.negexp(1)
            train.draw(random)
            train.noise = 0.7
        DISTRIBUTIONS[name](trains, randoms)
        h.finitialize(-65)
        if found:
            assert clhines.neuron.check() == []
            with pytest.raises(clhines.InputError, match="engine"):
                clhines.neuron.run(5, engine="none")
        go(8.3)
        go(20)
        places = [random.seq() for random in randoms] + [random.repick() for random in randoms]
        found.append([list(times), places, [train.sent for train in trains], np.array(v)])
    assert len(found[0][0]) > 3
    for *own, own_v in found[1:]:
        assert own == found[0][:3]
        # both sides do the same operations in another order: 1e-16 of 65 mV, 800 steps
        assert np.abs(own_v - found[0][3]).max() < 1e-9


def test_a_random_that_another_mechanism_draws_from_is_rejected():
    mod_files.loaded()
    soma = h.Section(name="soma")
    train, random, release = h.ExtTrain(), h.Random(), h.ext_release(soma(0.5))
    random.Random123(1, 2, 3)
    random.normal(1, 0.1)
    train.draw(random)
    release.setRNG(random)
    wire = h.NetCon(train, release)
    h.finitialize(-65)
    assert wire and any("of another distribution" in str(x) for x in clhines.neuron.check())
    with pytest.raises(clhines.InputError, match="of another distribution"):
        clhines.neuron.run(1)
