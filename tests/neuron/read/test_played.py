"""Vector.play into unsupported variables is refused by name."""

import pytest
from neuron_scripts import make_section

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
h.load_file("stdrun.hoc")
pytestmark = pytest.mark.neuron


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("name", ["celsius", "pointed_level"])
def test_plays_into_variables_of_hoc_are_refused(name, continuous):
    """NEURON steps these models, since any POINTER may read the variable."""
    mod_files.loaded()
    _soma = make_section("soma", "hh")
    h("pointed_level = 0")
    values, times, before = h.Vector([20, 31]), h.Vector([0, 2]), h.celsius
    values.play(getattr(h, f"_ref_{name}"), times, continuous)
    try:
        h.finitialize(-65)
        said = [str(line) for line in clhines.neuron.check()]
        with pytest.raises(clhines.neuron.RejectedError, match=f"Vector.play into {name}"):
            clhines.neuron.run(1)
    finally:
        values.play_remove()
        h.celsius = before
    assert said == [f"Vector.play into {name}; expected a parameter of a mechanism"]


def clamped(kind):
    """Return a cell with a Vector that plays into a clamp or records at times; and its times."""
    soma = make_section("soma", "hh")
    clamp, times, values = h.IClamp(soma(0.5)), h.Vector([0, 1, 2, 3]), h.Vector([0, 0.1, 0.3, 0.2])
    clamp.delay, clamp.dur = 0, 1e9
    if kind == "record":
        values.record(soma(0.5)._ref_v, times)
    else:
        values.play(clamp._ref_amp, times, 1)
    h.finitialize(-65)
    return soma, clamp, times, values


@pytest.mark.parametrize("kind", ["play", "record"])
def test_times_that_change_before_neuron_reads_them_again_are_refused(kind):
    """NEURON waits for the time before the change; then it interpolates on, or aborts."""
    model = clamped(kind)
    clhines.neuron.run(1.5, engine="reference")
    model[2].x[2] = 1.7
    with pytest.raises(clhines.neuron.RejectedError, match=rf"Vector\.{kind} at times that have"):
        clhines.neuron.run(2, engine="reference")
    model[2].x[2] = 2
    clhines.neuron.run(2, engine="reference")


def test_fewer_values_than_times_are_refused():
    model = clamped("play")
    model[3].resize(3)
    with pytest.raises(clhines.neuron.RejectedError, match="or lack values"):
        clhines.neuron.run(1, engine="reference")


def test_values_behind_the_last_one_that_was_played_are_not_played():
    """NEURON asks for a next time when the time before has come."""

    def end_of(run):
        soma, _, times, values = clamped("play")
        run(3.5)
        times.append(4, 6)
        values.append(-0.3, -0.5)
        run(5)
        return soma(0.5).v

    here = end_of(lambda stop: clhines.neuron.run(stop, engine="reference"))
    assert here == pytest.approx(end_of(h.continuerun), abs=1e-9)


@pytest.mark.parametrize("stops", [[8], [0.31, 4, 8]])
def test_values_at_intervals_come_when_neurons_added_times_say(stops):
    """Half a step before 0.2 ms, a product comes a step later: 7 * 0.025 > 0.175."""
    soma = make_section("soma", "hh")
    clamp, values = h.IClamp(soma(0.5)), h.Vector(range(100))
    clamp.dur, dt = 1e9, h.dt
    values.play(clamp._ref_amp, 0.025)
    amplitudes = h.Vector().record(clamp._ref_amp)

    def played(run):
        h.dt = 0.05
        h.finitialize(-65)
        for stop in stops:
            run(stop)
        return list(amplitudes)

    try:
        here = played(lambda stop: clhines.neuron.run(stop, engine="reference"))
        assert here == played(h.continuerun)
    finally:
        h.dt = dt
