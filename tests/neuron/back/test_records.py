"""Vectors that sample, at intervals or times, variables that events set, compared with NEURON's."""

import numpy as np
import pytest
from neuron_scripts import by_both, make_section, with_values

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
def test_what_a_watch_sets_is_sampled_as_by_neuron(engine):
    """Compare samples at intervals; rounding decides whether a sample precedes the event."""
    mod_files.loaded()
    soma = make_section("soma", "pas", L=30, diam=20)
    _pulse, resets = with_values(h.IClamp(soma(0.5)), dur=1e9, amp=0.6), h.ext_reset(soma(0.5))
    references = [getattr(resets, f"_ref_{name}") for name in ("when", "seen")] + [soma(0.5)._ref_v]
    each = [h.Vector().record(one) for one in references]
    vectors = [h.Vector().record(one, dt) for one in references for dt in (0.025, 0.1)]
    neuron, ours = by_both(lambda: [np.array(v) for v in vectors], 10, 30, engine=engine)
    steps = np.array(each[0])
    jumps = np.flatnonzero(np.diff(steps))  # a sample may be one step before a record of each
    early = neuron[0][: len(steps)] != steps[: len(neuron[0])]
    assert len(jumps) > 20 and 0 < early.sum() <= len(jumps)
    for a, b in zip(ours, neuron, strict=True):
        # both sides do the same in another order, 1e-16 each at 65 mV, over 1200 steps
        assert a.shape == b.shape and np.abs(a - b).max() < 1e-9


@pytest.mark.parametrize("what", ["ExpSyn", "ext_reset"])
@pytest.mark.parametrize("interval", [0.025, 0.1])
def test_what_events_of_any_time_set_is_not_sampled(what, interval):
    """Sampling a variable that NetCon events set is refused: rounding orders event and sample."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    synapse, source = getattr(h, what)(soma(0.5)), with_values(h.NetStim(), start=1, number=3)
    _wire = h.NetCon(source, synapse, 10, 0.5, 0.01)
    kept = [h.Vector().record(synapse._ref_g, interval), h.Vector().record(synapse._ref_i, 0.025)]
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match=f"{what}: Vector.record, at intervals.* of g, wh"):
        clhines.neuron.run(1)
    kept[0].play_remove()
    each = h.Vector().record(synapse._ref_g)
    results = by_both(lambda: [np.array(one) for one in (kept[1], each)], 5)
    assert np.ptp(results[0][1]) > 0.005
    for neuron, ours in zip(*results, strict=True):
        assert np.abs(neuron - ours).max() < 1e-9


@pytest.mark.parametrize("numbered", [False, True])
def test_an_event_that_neuron_sends_ahead_is_recorded_once(numbered):
    """NEURON's step at the end of a call records what its net_event sends at a later time."""
    mod_files.loaded()
    _soma = make_section("soma", "pas")
    stim = with_values(h.NetStim(), start=0.3, number=40, interval=0.25, noise=0)
    bursts = [with_values(h.nmburst(), turns=1) for _ in range(2)]
    times, numbers = h.Vector(), h.Vector()
    wires = [h.NetCon(stim, burst, 0, 0.5, 0) for burst in bursts]
    wires += [h.NetCon(burst, None) for burst in bursts]
    for k, wire in enumerate(wires[2:]):
        wire.record(times, numbers, k) if numbered else wire.record(times)
    ends = np.arange(0.8, 15, 0.5).tolist()  # when events arrive
    results = by_both(lambda: (np.array(times), np.array(numbers)), *ends)
    assert len(results[0][0]) == 80
    for neuron, ours in zip(*results, strict=True):
        assert neuron.shape == ours.shape and (np.abs(np.sort(neuron) - np.sort(ours)) < 1e-9).all()


def test_the_time_at_given_times():
    """NEURON records the previous step's time, even if a step ends just behind the sample time."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    times = h.Vector([0.5, 0.51, 3.3333, 7, 9.99, 20])
    records = [h.Vector().record(one, times) for one in (h._ref_t, soma(0.5)._ref_v)]
    results = by_both(lambda: [np.array(one) for one in records], 5, 12)
    assert len(results[0][0]) == 5
    assert all(map(np.array_equal, *results))


def test_times_that_do_not_ascend_are_due_at_once():
    """NEURON records for a past time as soon as the preceding sample is delivered."""
    h.load_file("stdrun.hoc")
    soma = make_section("soma", "hh", L=20, diam=20)
    _pulse = with_values(h.IClamp(soma(0.5)), dur=1e9, amp=0.3)
    lists = [0, 1, 1, 0.5, 2, 2, 7], [3, 1, 2, 4.5, 4, 5], [-1, 0, 2.01, 1.99, 2.02], [9, 1]
    times = [h.Vector(one) for one in lists]
    vectors = [h.Vector().record(ref, t) for t in times for ref in (soma(0.5)._ref_v, h._ref_t)]
    results = by_both(lambda: [np.array(v) for v in vectors], 1.2, 4.6, 6)
    assert [len(v) for v in results[0][::2]] == [6, 6, 5, 0]
    for truth, ours in zip(*results, strict=True):
        # both sides do the same in another order, 1e-16 each at 65 mV, over 240 steps
        assert truth.shape == ours.shape and (np.abs(ours - truth) < 1e-9).all()


def test_a_vector_of_values_and_of_times_is_rejected():
    soma, times = h.Section(name="soma"), h.Vector()
    netcon = h.NetCon(soma(0.5)._ref_v, None, sec=soma)
    netcon.record(times)
    times.record(soma(0.5)._ref_v)
    h.finitialize(-65)
    [said] = map(str, clhines.neuron.check())
    assert "Vector.record into a Vector of NetCon.record; use two Vectors" in said


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("way", ["at intervals", "at times"])
def test_what_is_played_is_not_sampled(way, continuous):
    """Sampling a played variable is refused: NEURON's order of both depends on its event queue."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    clamp, values, times = h.IClamp(soma(0.5)), h.Vector([0, 0.1, 0.3, 0.2]), h.Vector([0, 1, 2, 3])
    clamp.dur = 1e9
    played = values.play(clamp._ref_amp, times, *[True] * continuous)
    how = 0.25 if way == "at intervals" else h.Vector([0.5, 1, 2.01])
    sampled, each = h.Vector().record(clamp._ref_amp, how), h.Vector().record(clamp._ref_amp)
    h.finitialize(-65)
    said = "IClamp: Vector.record, at intervals or times, of amp, which Vector.play sets"
    assert [str(r).partition(";")[0] for r in clhines.neuron.check()] == [said]
    with pytest.raises(clhines.InputError, match=said):
        clhines.neuron.run(4)
    sampled.play_remove()
    results = by_both(lambda: np.array(each), 4)
    # a line between two values below 0.3, which is rounded once or twice in another order
    assert played and np.abs(np.subtract(*results)).max() < 1e-15 and np.ptp(results[0]) > 0.29


@pytest.mark.parametrize("arguments", [(0.1,), (np.array([0.3, 1.5, 1.7, 2.0, 2.4]),)])
@pytest.mark.parametrize("kept", [False, True])
def test_a_recorder_made_within_a_run_records_after_frecord_init(arguments, kept):
    """NEURON has it in no list until finitialize(), but an event drives it."""
    mod_files.loaded()
    soma = make_section("soma", "hh")
    _clamp = with_values(h.IClamp(soma(0.5)), dur=9, amp=3)

    def recorded(run):
        h.finitialize(-65)
        run(1)
        where = [h.Vector(x) if np.ndim(x) else x for x in arguments]
        v = h.Vector().record(soma(0.5)._ref_v, *where)
        if kept:  # a model that has been read before
            run(1.2)
            assert not v
        h.frecord_init()
        run(2)
        values = [np.array(v)]
        run(3)
        return [*values, np.array(v)]

    expected = recorded(h.continuerun)
    found = recorded(lambda t: clhines.neuron.run(t, engine="reference"))
    assert len(expected[0]) > 2 and np.ptp(expected[1]) > 1
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9)
