"""Pending events at the start of a run, for NetCons whose weights change with events."""

from contextlib import nullcontext

import mod_files
import numpy as np
import pytest
from neuron_scripts import by_both, make_section, with_values

import clhines
from clhines.core.errors import InputError

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron

STOP = 14.0  # ms


@pytest.fixture
def model():
    """Synapses with sources that send before the run begins: early, late, and by a spike."""
    mod_files.loaded()
    rng = np.random.default_rng(11)
    soma = make_section("soma", "hh", L=20, diam=20)
    clamp = with_values(h.IClamp(soma(0.5)), delay=0, dur=1, amp=0.5)
    stims = [h.NetStim() for _ in range(2)]
    for k, stim in enumerate(stims):
        stim.start, stim.interval, stim.number = 0.3 * k, 2.5, 4
    synapses = [h.nmplast(soma(0.5)), h.nmplast(soma(0.5)), h.ExpSyn(soma(0.5))]
    netcons = [h.NetCon(stim, to) for stim in stims for to in synapses for _ in range(2)]
    netcons += [h.NetCon(soma(0.5)._ref_v, to, sec=soma) for to in synapses]
    netcons += [h.NetCon(None, to) for to in synapses]
    for netcon, delay in zip(netcons, rng.uniform(0.1, 6, len(netcons)), strict=True):
        netcon.delay, netcon.weight[0], netcon.threshold = delay, 1e-4 * (1 + delay), -20
    for netcon in netcons[-6:-4]:
        netcon.weight[0] = -1  # a spike in the cell changes all other weights
    yield synapses, netcons
    h.delete_section(sec=soma)
    del clamp, stims, soma


def results(synapses, netcons, parts, engine):
    vectors = [h.Vector().record(synapse._ref_g) for synapse in synapses]
    h.finitialize(-65)
    for k, netcon in enumerate(netcons[-3:]):
        for t in (0.7, 3.2 + k, 9.4):
            netcon.event(t)
    for ours, until in parts:
        clhines.neuron.run(until, engine=engine) if ours else h.continuerun(until)
    weights = [netcon.weight[k] for netcon in netcons for k in range(int(netcon.wcnt()))]
    return np.array([*map(np.array, vectors)]), np.array(weights)


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs"])
@pytest.mark.parametrize("begin", [0.0, 0.5, 2.6])
def test_events_on_their_way_change_weights_as_in_neuron(model, engine, begin):
    """Compare with NEURON; at 2.6 ms only some connections of a source have delivered its event."""
    before = [(False, begin)] if begin else []
    expected, weights = results(*model, [(False, STOP)], engine)
    got, got_weights = results(*model, [*before, (True, STOP)], engine)
    assert np.ptp(expected, axis=1).min() > 1e-4
    # about 600 steps with some 10 roundings each; the values do not grow
    assert np.abs(got - expected).max() < 1e-9 * np.abs(expected).max()
    assert np.abs(got_weights - weights).max() < 1e-9 * np.abs(weights[weights > -1e8]).max()


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs"])
def test_events_of_connections_that_are_not_active_any_more_come(model, engine):
    """NEURON checks `active` when it sends an event; FOR_NETCONS includes inactive NetCons."""
    synapses, netcons = model
    silent = [h.NetCon(None, synapse) for synapse in synapses]
    for netcon in silent:
        netcon.weight[0] = 1e-4
    every, outcomes = [*silent, *netcons], []
    for ours in (False, True):
        for netcon in netcons:
            netcon.active(1)
        vectors = [h.Vector().record(synapse._ref_g) for synapse in synapses]
        h.finitialize(-65)
        h.continuerun(2.6)
        for netcon in netcons[:-4:2]:
            netcon.active(0)
        clhines.neuron.run(STOP, engine=engine) if ours else h.continuerun(STOP)
        weights = [netcon.weight[k] for netcon in every for k in range(int(netcon.wcnt()))]
        outcomes.append((np.array([*map(np.array, vectors)]), np.array(weights)))
    on_all = results(synapses, netcons, [(False, STOP)], engine)[0]
    (expected, weights), (got, got_weights) = outcomes
    assert np.abs(on_all - expected).max(axis=1).min() > 1e-5
    assert np.abs(got - expected).max() < 1e-9 * np.abs(expected).max()
    assert np.abs(got_weights - weights).max() < 1e-9 * np.abs(weights[weights > -1e8]).max()


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs"])
def test_events_on_their_way_have_weights_that_for_netcons_alone_sets(engine):
    mod_files.loaded()
    soma = make_section("soma", "pas", L=20, diam=20)
    synapse, stim = h.ext_fades(soma(0.5)), h.NetStim()
    stim.start, stim.interval, stim.number = 0.5, 2.1, 5
    netcons = [h.NetCon(stim, synapse), h.NetCon(None, synapse)]
    netcons[0].delay, g, results = 5, h.Vector().record(synapse._ref_g), []
    for run in (h.continuerun, lambda until: clhines.neuron.run(until, engine=engine)):
        netcons[0].weight[0], netcons[1].weight[0] = 1e-2, 5e-3
        h.finitialize(-65)
        h.continuerun(3)  # two events are on their way
        run(STOP)
        results.append([np.array(g), [netcon.weight[0] for netcon in netcons]])
    for expected, got in zip(*results, strict=True):
        assert np.max(expected) > 1e-4
        # about 600 steps with some 10 roundings each; the values do not grow
        assert np.abs(np.array(got) - expected).max() < 1e-9 * np.max(expected)


@pytest.mark.parametrize("times", [[7.1], [7.1, 7.1]])
def test_an_event_that_its_source_has_not_sent_to_the_others_is_refused(model, times):
    h.finitialize(-65)
    for t in times:
        # after its source's last event: its other NetCons would deliver it, too
        model[1][0].event(t)
    with pytest.raises(InputError, match="a pending event whose NetCon has weights"):
        clhines.neuron.run(STOP, engine="reference")


def test_an_event_that_its_only_source_would_have_to_send_in_time_to_come_is_refused(model):
    """The source's own event would come after the pending one."""
    stim = with_values(h.NetStim(), start=1, number=1)
    netcon = h.NetCon(stim, model[0][0], 10, 0.5, 0.0001)
    h.finitialize(-65)
    netcon.event(0.4)
    clhines.neuron.run(0.2, engine="reference")  # as if it had been sent before 0 ms
    h.finitialize(-65)
    netcon.event(7.1)
    with pytest.raises(InputError, match="a pending event whose NetCon has weights"):
        clhines.neuron.run(STOP, engine="reference")


def test_an_event_of_a_vecstim_on_its_way_is_told_of_before_a_run(model):
    source, times = h.vec_inside(), h.Vector([0.2, 7])
    source.play(times)
    _netcon = with_values(h.NetCon(source, model[0][0]), delay=5)
    h.finitialize(-65)
    assert clhines.neuron.check() == []
    h.continuerun(1)
    assert "a pending event whose NetCon has weights" in str(clhines.neuron.check()[0])


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
@pytest.mark.parametrize("parts", [[3.7], [0.875, 1.0, 2.3, 3.7]], ids=["whole", "pieces"])
def test_watch_conditions_that_come_true_at_once_are_neurons(engine, parts):
    """Compare WATCH conditions: the first event arms others, which cancel the second."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    bands = [h.ext_bands(soma(0.5)) for _ in range(5)]
    for k, one in enumerate(bands):
        one.tick = 0.31 + 0.11 * k
    names = ("r", "band", "came", "seen")
    vectors = [h.Vector().record(getattr(one, "_ref_" + n)) for one in bands for n in names]

    def left():
        values = [getattr(one, n) for one in bands for n in names]
        return np.array([*map(np.array, vectors)]), values

    (expected, last), (got, got_last) = by_both(left, *parts, engine=engine)
    assert len({*expected[1]}) == 3 and np.ptp(expected[2::4], axis=1).min() > 1
    # NEURON sums dt to step times; the other values result from the same few operations
    assert np.abs(got - expected).max() < 1e-9 * np.abs(expected).max()
    assert np.allclose(got_last, last, rtol=1e-9, atol=0)


def test_overdue_events_are_neurons():
    """SaveState restores a time without the queue: compare the NetStim events that are past due."""
    h.load_file("stdrun.hoc")
    soma = make_section("soma", "hh", L=20, diam=20)
    stim, synapse = with_values(h.NetStim(), start=2, interval=3, number=100), h.ExpSyn(soma(0.5))
    _wire = h.NetCon(stim, synapse, 10, 1, 0.01)
    each, kept, results = h.Vector().record(synapse._ref_i), h.SaveState(), []
    h.finitialize(-65)
    h.continuerun(3)
    kept.save()
    for on in (False, True):
        h.finitialize(-65)
        h.continuerun(1)
        kept.restore(1)
        with clhines.neuron.enable(engine="reference") if on else nullcontext() as switch:
            if on:
                with pytest.raises(InputError, match="an event for t = 2 ms, which is overdue"):
                    clhines.from_neuron()
            h.continuerun(5)
            h.continuerun(8)
        results.append((np.array(each), soma(0.5).v, synapse.g))
        assert not on or (switch.steps, len(switch.reasons)) == (120, 1)
    for neuron, ours in zip(*results, strict=True):
        assert np.shape(neuron) == np.shape(ours) and np.abs(neuron - ours).max() < 1e-9


@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_an_event_sent_at_0_ms_after_finitialize_is_delivered(engine):
    mod_files.loaded()
    soma = h.Section(name="soma")
    synapses = [h.ExpSyn(soma(0.5)), h.nmplast(soma(0.5))]  # events to the latter change weights
    netcons = [h.NetCon(None, synapse) for synapse in synapses]
    rows = []
    for run in (h.continuerun, lambda stop: clhines.neuron.run(stop, engine=engine)):
        h.finitialize(-65)
        for netcon in netcons:
            netcon.weight[0] = 0.01
            netcon.event(0)
        run(1)
        rows.append([synapse.g for synapse in synapses])
    assert min(rows[0]) > 0 and rows[1] == pytest.approx(rows[0], rel=1e-12)
