"""Random numbers that VERBATIM draws from hoc's Random or Random123, compared with NEURON's."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from neuron_scripts import make_section, with_values

import clhines
from bench import nrn
from clhines.neuron.convert import RejectedError
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.streams import PointerStreams
from tests.support import forked, mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron
ENGINES = "reference", "steps", "epochs", "epochs-gpu"


@pytest.fixture(scope="module", autouse=True)
def _mechanisms():
    mod_files.loaded()


def _random(kind, k):
    random = h.Random()
    random.Random123(4, k, 9)
    if kind == "uniform":
        random.uniform(0.05, 0.9)
    else:
        random.negexp(0.6)
    return random


def _model(name, kind):
    """Return objects to keep alive, synapses, and functions that rewind their streams."""
    soma = make_section("soma", "pas")
    kept, synapses, randoms = [soma], [], []
    for k in range(3):
        synapse, stim = getattr(h, name)(soma(0.5)), h.NetStim()
        stim.interval, stim.number, stim.start = 1.7 + 0.3 * k, 1000, 0.5
        wire = h.NetCon(stim, synapse)
        wire.delay, wire.weight[0] = 0.5 + 0.3 * k, 0.001 if k < 2 or kind != "ids" else 0.002
        synapses.append(synapse)
        kept += [stim, wire]
        if kind == "ids":
            synapse.setRNG(11, k, 4000000000)
        else:
            randoms.append(_random(kind, k))
            synapse.setRNG(randoms[-1])
    return kept, synapses, randoms


def _begun(randoms, run):
    """Run from the start to 25 ms; return the positions of the streams."""
    for random in randoms:
        random.seq(0)
    h.dt, h.steps_per_ms = 0.025, 40
    h.finitialize(-65)
    run(25)
    return [random.seq() for random in randoms]


def _run(model, watched, run):
    """Return traces and synapse variables after a run here and some steps of NEURON."""
    kept, synapses, randoms = model
    records = [h.Vector().record(kept[0](0.5)._ref_v)]
    records += [h.Vector().record(synapse._ref_g) for synapse in synapses]
    places = _begun(randoms, run)
    ends = [getattr(synapse, name) for synapse in synapses for name in watched]
    h.continuerun(32)
    return np.array(records), ends, places


def _pieces(stop):
    for until in (7.3, 8.1, stop):
        clhines.neuron.run(until)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ext_release", "ids"), ("ext_release", "uniform"), ("ext_release", "negexp"),
        ("ext_sites", "uniform"), ("ext_sites", "negexp"),
    ],
)  # fmt: skip
def test_draws_as_neuron(name, kind):
    watched = ["released", "drawn", "ready"] if name == "ext_release" else ["occupied", "u", "free"]
    model = _model(name, kind)
    expected, ends, places = _run(model, watched, h.continuerun)
    assert np.ptp(expected[1]) > 3e-4 and np.ptp(expected[0]) > 0.1
    runs = [lambda t, e=e: clhines.neuron.run(t, engine=e) for e in ENGINES]
    for run in (*runs, _pieces):
        traces, own_ends, own_places = _run(model, watched, run)
        np.testing.assert_allclose(traces, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(own_ends, ends, rtol=1e-12)
        assert own_places == places


def test_streams_go_on_where_initial_leaves_them():
    """Compare positions; with again = 0 the second run continues the first one's streams."""
    model = _model("ext_release", "ids")
    for synapse in model[1]:
        synapse.again = 0
    traces = []
    for run in (h.continuerun, _pieces):
        for k, synapse in enumerate(model[1]):
            synapse.setRNG(11, k, 4000000000)
        traces.append([_run(model, ["released"], run)[0] for _ in range(2)])
    assert np.abs(traces[0][0] - traces[0][1]).max() > 1e-4  # the second is another
    np.testing.assert_allclose(traces[1], traces[0], rtol=1e-9, atol=1e-12)


def test_a_random_that_gets_another_generator_between_runs_is_refused():
    model = _model("ext_release", "uniform")
    _run(model, ["released"], _pieces)
    model[2][1].MCellRan4(3)
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match="generator is not Random123"):
        clhines.neuron.run(1)
    model[2][1].Random123(4, 1, 9)
    traces = [_run(model, ["released"], run)[0] for run in (h.continuerun, _pieces)]
    np.testing.assert_allclose(traces[1], traces[0], rtol=1e-9, atol=1e-12)


def _normal(synapse, random):
    random.normal(0, 1)
    synapse.setRNG(random)


def _mcell(synapse, random):
    random.MCellRan4(3)
    synapse.setRNG(random)


REFUSED = {
    "normal": (_normal, "whose distribution is not uniform or negexp"),
    "MCellRan4": (_mcell, "a Random whose generator is not Random123"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    change, message = REFUSED[case]
    _kept, synapses, randoms = _model("ext_release", "uniform")
    change(synapses[1], randoms[1])
    h.finitialize(-65)
    [one] = clhines.neuron.check()
    assert (one.mechanism, message in one.construct) == ("ext_release", True)


def test_one_random_for_two_is_refused():
    _kept, synapses, randoms = _model("ext_release", "uniform")
    synapses[1].setRNG(randoms[0])
    h.finitialize(-65)
    [one] = clhines.neuron.check()
    assert "several instances share the random stream" in one.construct


def test_a_random_that_is_played_too_is_refused():
    kept, synapses, randoms = _model("ext_release", "uniform")
    clamp = h.IClamp(kept[0](0.5))
    randoms[1].play(clamp._ref_amp)
    h.finitialize(-65)
    [one] = clhines.neuron.check()
    assert one.mechanism == "ext_release" and "a Random that is played, too" in one.construct
    other = _random("uniform", 7)
    synapses[1].setRNG(other)
    assert clhines.neuron.check() == []


def test_another_global_index_is_refused():
    model = _model("ext_release", "ids")
    index = int(h.Random().Random123_globalindex())
    try:
        h.Random().Random123_globalindex(index + 1)
        [one] = clhines.neuron.check()
    finally:
        h.Random().Random123_globalindex(index)
    assert "another global index" in one.construct and len(model[1]) == 3


# compares a file's synapses with NEURON for each engine: spread of g and v, largest errors
OTHERS = """
h.nrn_load_dll(sys.argv[1])
name, engines = sys.argv[2], sys.argv[3:]
soma = make_section("soma", "pas")
kept, records = [], [h.Vector().record(soma(0.5)._ref_v)]
for k in range(3):
    synapse, stim, random = getattr(h, name)(soma(0.5)), h.NetStim(), h.Random()
    random.Random123(4, k, 9)
    random.uniform(0, 1)
    synapse.setRNG(random)
    synapse.Use, synapse.Dep, synapse.Fac = 0.5, 20 + 30 * k, 10 * k
    stim.interval, stim.number, stim.start = 1.7 + 0.3 * k, 1000, 0.5
    wire = h.NetCon(stim, synapse, 0, 0.5 + 0.3 * k, 1 + k)
    records.append(h.Vector().record(synapse._ref_g))
    kept += [(synapse, stim, random, wire)]

def traces(run):
    for _, _, random, _ in kept:
        random.seq(0)
    h.finitialize(-65)
    run(7.3)
    run(25)
    return np.array(records), [random.seq() for _, _, random, _ in kept]

expected, places = traces(h.continuerun)
errors = {}
for engine in engines:
    found, own = traces(lambda t: clhines.neuron.run(t, engine=engine))
    errors[engine] = [float(np.abs(found - expected).max()), own == places]
print(json.dumps([np.ptp(expected, axis=1).tolist(), errors]))
"""


def _of_others(name):
    """Return the last file with a name below CLHINES_MODELS, with NEURON 9's C types."""
    files = sorted(Path(os.environ["CLHINES_MODELS"]).rglob(f"{name}.mod"))
    text = files[-1].read_text("utf-8", "replace")
    text = re.sub(r"^(double nrn_random_pick|void\* nrn_random_arg)\(.*$", "", text, flags=re.M)
    return text.replace("nrn_random_pick(_p_rng)", "nrn_random_pick((Rand*)_p_rng)")


@pytest.mark.skipif("CLHINES_MODELS" not in os.environ, reason="CLHINES_MODELS names no folder")
@pytest.mark.parametrize("name", ["ProbAMPANMDA_EMS", "ProbGABAAB_EMS"])
def test_files_of_others(tmp_path, name):
    (tmp_path / f"{name}.mod").write_text(_of_others(name))
    library = nrn.compiled(tmp_path)
    moved, errors = forked.result_of(OTHERS, library, name, *ENGINES)
    assert min(moved) > 1e-5
    for error, same in errors.values():  # both do the same in another order, 1e-16 each at 65 mV
        assert error < 1e-9 and same


def test_an_instance_without_a_stream_does_what_its_file_says():
    kept, synapses, randoms = model = _model("ext_release", "negexp")
    synapses[1].setRNG()
    del randoms[1]
    expected, ends, places = _run(model, ["released", "drawn"], h.continuerun)
    traces, own_ends, own_places = _run(model, ["released", "drawn"], clhines.neuron.run)
    np.testing.assert_allclose(traces, expected, rtol=1e-9, atol=1e-12)
    assert own_ends == ends and own_places == places and min(ends) > 0 and kept


def _trains(given):
    """Return objects to keep alive, and cells; some have random streams, the others are regular."""
    soma = make_section("soma", "pas")
    synapse, kept, trains = h.ExpSyn(soma(0.5)), [soma], []
    for k, has_stream in enumerate(given):
        train = with_values(h.ExtTrain(), mean=1.7 + 0.4 * k, noise=0.6 * has_stream)
        if has_stream:
            random = _random("negexp", k)
            train.draw(random)
            kept.append(random)
        wire = h.NetCon(train, synapse, 10, 0.4, 0.002)
        trains.append(train)
        kept += [synapse, wire]
    return kept, trains


@pytest.mark.parametrize("given", [(0, 0), (1, 0, 0), (0, 1, 1)])
def test_instances_without_a_stream_that_draw_nothing_run(given):
    kept, trains = _trains(given)
    record, results = h.Vector().record(kept[0](0.5)._ref_v), []
    randoms = [x for x in kept if hasattr(x, "Random123")]
    for run in (h.continuerun, clhines.neuron.run, _pieces):
        places = _begun(randoms, run)
        results.append([np.array(record), [train.sent for train in trains], places])
    for voltage, *rest in results[1:]:
        np.testing.assert_allclose(voltage, results[0][0], rtol=1e-9, atol=1e-12)
        assert rest == results[0][1:]
    assert all(results[0][1]) and np.ptp(results[0][0]) > 0.1


def test_instances_without_a_stream_that_draw_from_the_one_generator_are_rejected():
    kept, trains = _trains((1, 0, 0))
    trains[2].noise = 0.3
    h.finitialize(-65)
    assert kept and any("shared generator" in str(one) for one in clhines.neuron.check())
    with pytest.raises(clhines.InputError, match="shared generator"):
        clhines.neuron.run(1)


@pytest.mark.parametrize("engine", ENGINES)
def test_static_variables_of_c_have_their_present_values(engine):
    """Also with a macro of one argument, conditional blocks, and a local variable there."""
    sections = [h.Section(name=name) for name in "ab"]
    points = [h.ext_style(section(0.5)) for section in sections]
    for k, point in enumerate(points):
        point.ofStream(3, k)
    records = [h.Vector().record(x) for p in points for x in (p._ref_g, p.get_segment()._ref_v)]
    results = []
    for run in (h.continuerun, lambda t: clhines.neuron.run(t, engine=engine)):
        points[0].setBias(0)
        h.finitialize(-65)
        run(3)
        points[0].setBias(1)  # sets all instances, between runs
        run(9)
        results.append(np.array(records))
    assert (np.ptp(results[0], axis=1) > 1e-4).all()
    np.testing.assert_allclose(results[1], results[0], rtol=1e-9, atol=1e-12)
    random = [_random("negexp", k) for k in range(2)]
    for point, one in zip(points, random, strict=True):
        one.normal(0, 1)
        point.ofRandom(one)
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match="distribution is not uniform"):
        clhines.neuron.run(12, engine=engine)


def test_words_of_earlier_ids_are_refused_and_stay_in_neuron():
    """NEURON keeps using the old stream pointers; the next draw replaces them."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    draws, drawn = h.nmrandom(soma(0.5)), []
    for ask in (False, True):
        draws.first.set_ids(1, 2, 3)
        draws.second.set_ids(4, 5, 6)
        h.finitialize(-65)
        draws.first.set_ids(7, 8, 9)
        if ask:
            [one] = clhines.neuron.check()
            with pytest.raises(clhines.InputError, match="RANDOM first still has random numbers"):
                clhines.neuron.run(1)
            assert "RANDOM first still has random numbers" in one.construct
        drawn.append([draws.first.uniform(0, 1) for _ in range(6)])
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("pointers", "said"),
    [([0], "has no stream of random numbers"), ([16], "points to memory that is no stream")],
)
def test_pointers_to_no_stream_are_refused(pointers, said):
    """A kept model's run reads its POINTERs' targets again."""
    soma = h.Section(name="soma")
    memory, pointers = NeuronMemory(h), np.array(pointers)
    with pytest.raises(RejectedError, match=f"ext_release: POINTER rng {said}"):
        PointerStreams(memory, "ext_release", "rng", pointers, 0, lack=False)
    assert soma is not None
