"""GLOBALs that each instance sets in turn, so that all see the last value, compared with NEURON."""

import warnings

import numpy as np
import pytest
from neuron_scripts import make_section, with_values

import clhines
from clhines.core.errors import InputError
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron

ENGINES = ["reference", "steps", "epochs", "epochs-gpu"]
OWN = {"nmlast": "half_nmlast", "nmbegun": "size_nmbegun"}


def cells(count, mechanism="nmlast", branched=False):
    """Make `count` cells, each a soma with a dendrite; the mechanism is in all of their segments.

    NEURON's last segment of a branched cell is not the last one by node.
    """
    mod_files.loaded()
    sections = []
    for k in range(count):
        soma, dend = (h.Section(name=f"{name}{k}") for name in ("soma", "dend"))
        soma.L = soma.diam = 20
        dend.L, dend.diam, dend.nseg = 100 + 40 * k, 2, 3
        dend.connect(soma(1))
        sections += [soma, dend]
        if branched:
            inner, other = (h.Section(name=f"{name}{k}") for name in ("inner", "other"))
            inner.nseg = other.nseg = 3
            inner.connect(dend(1))
            other.connect(soma(0.5))
            sections[-1:-1] = [inner, other]
    for k, section in enumerate(sections):
        section.insert(mechanism)
        setattr(section, OWN[mechanism], -50 - 2 * k if mechanism == "nmlast" else 1 + k / 3)
    clamp = with_values(h.IClamp(sections[0](0.5)), delay=0.5, dur=4, amp=0.6)
    return sections, clamp


def pieces(run, sections, clamp):
    """Return voltages and states of two runs, with changes by a user before and within them."""
    results, half = [], sections[-1].half_nmlast
    h.minf_nmlast = h.rise_nmlast[0] = h.rise_nmlast[1] = 0
    v = [h.Vector().record(s(x)._ref_v) for s in sections for x in (0.2, 0.8)]
    for turn in range(2):
        h.finitialize(-62 - turn)
        clamp.amp = 0.6 + 0.1 * turn
        run(3)
        results += [np.array(v), [h.minf_nmlast, *h.rise_nmlast]]
        sections[-1].half_nmlast = -44 - turn
        h.minf_nmlast = 0.3
        run(6)
        results += [np.array(v), [s(0.8).m_nmlast for s in sections], [*h.rise_nmlast]]
    sections[-1].half_nmlast = half
    return results


def clamped(name):
    """A section with a mechanism, and a clamp in it."""
    mod_files.loaded()
    soma = make_section("soma", name, L=20, diam=20)
    clamp = with_values(h.IClamp(soma(0.5)), delay=0.5, dur=4)
    return soma, clamp


@pytest.mark.parametrize("engine", ENGINES)
def test_one_instance_has_its_own(engine):
    soma, clamp = clamped("nmlast")
    expected = pieces(h.continuerun, [soma], clamp)
    _compare(expected, pieces_of(engine, [soma], clamp))


def test_values_that_a_file_without_range_keeps_are_refused():
    soma, _clamp = clamped("ext_ca")
    soma.insert("ext_bare")
    h.finitialize(-40)
    [said] = map(str, clhines.neuron.check())
    assert said.startswith("ext_bare: depth, which is not found in NEURON's memory; declare it")


def test_a_value_that_hoc_has_set_in_a_file_without_range_is_refused():
    soma, _clamp = clamped("nmbare")
    h.setdata_nmbare(soma(0.5))
    h.put_nmbare(3)
    h.finitialize(-65)
    [said] = map(str, clhines.neuron.check())
    assert said.startswith("nmbare: share, which is not found in NEURON's memory; declare it")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_local_of_the_file_that_hoc_has_set(engine):
    soma, clamp = clamped("nmput")
    soma.insert("pas")
    clamp.amp = 0.1
    v = h.Vector().record(soma(0.5)._ref_v)

    def put(run):
        results = []
        for turn in range(2):
            h.put_nmput(3 + turn)
            h.finitialize(-65)
            run(2)
            h.put_nmput(20)
            run(4)
            results.append(np.array(v))
        return results

    _compare(put(h.continuerun), put(lambda t: clhines.neuron.run(t, engine=engine)))


@pytest.mark.parametrize("count, branched", [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("engine", ENGINES)
def test_several_instances_have_the_last_ones(engine, count, branched):
    sections, clamp = cells(count, branched=branched)
    expected = pieces(h.continuerun, sections, clamp)
    _compare(expected, pieces_of(engine, sections, clamp))


def pieces_of(engine, *model):
    return pieces(lambda t: clhines.neuron.run(t, engine=engine), *model)


def _compare(expected, found):
    assert np.ptp(expected[0]) > 1
    for a, b in zip(expected, found, strict=True):
        # both sides do the same operations in another order, 1e-16 each at 65 mV, over 240 steps
        assert np.abs(np.array(a) - np.array(b)).max() < 1e-9


@pytest.mark.parametrize("branched", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_initial_sets_is_the_last_ones(engine, branched):
    sections, _clamp = cells(2, "nmbegun", branched)

    def begun(run):
        v = [h.Vector().record(s(x)._ref_v) for s in sections for x in (0.2, 0.8)]
        voltages = []
        for turn in range(2):
            for k, section in enumerate(sections):
                section.size_nmbegun = 1 + k / 3 + turn
            h.finitialize(-62 - turn)
            sections[-1].size_nmbegun = 5  # values that INITIAL has set stay
            run(2)
            sections[-1].size_nmbegun = 7 + turn
            run(5)
            voltages += [np.array(v), [s(0.8).m_nmbegun for s in sections], [h.shift_nmbegun]]
        return voltages

    expected = begun(h.continuerun)
    _compare(expected, begun(lambda t: clhines.neuron.run(t, engine=engine)))
    with pytest.raises(InputError, match="expected the same GLOBAL value"):
        clhines.from_neuron(engine="reference", copies=2)
    h.finitialize(h.v_init)
    model = clhines.from_neuron(engine=engine)  # whose INITIAL has the parameters of now
    record = model.simulation.record("v", [model[s(0.8)] for s in sections])
    model.simulation.reset()
    voltages = model.simulation.run(5)[record]
    v = [h.Vector().record(s(0.8)._ref_v) for s in sections]
    h.finitialize(h.v_init)
    h.continuerun(5)
    _compare([np.array(v).T], [voltages])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reset_gives_ions_the_concentrations_that_finitialize_gives(engine):
    """By ``ion_style``, these are the ion's defaults, or the present ones."""
    soma, clamp = clamped("hh")
    dend = h.Section(name="dend")
    dend.connect(soma(1))
    dend.insert("hh")
    clamp.amp = 0.1
    for ion in ("na_ion", "k_ion"):
        h.ion_style(ion, 1, 2, 1, 0, 1, sec=soma)
        h.ion_style(ion, 1, 2, 1, 0, 0, sec=dend)
    v = [h.Vector().record(section(0.5)._ref_v) for section in (soma, dend)]
    h.finitialize(h.v_init)
    h.nai0_na_ion = 20
    for section in (soma, dend):
        section.nai, section.ko, section.ena = 15, 4, 45
    try:
        model = clhines.from_neuron(engine=engine)
        sim = model.simulation
        record = sim.record("v", [model[section(0.5)] for section in (soma, dend)])
        voltages = [sim.run(5)[record]]
        sim.reset()
        voltages.append(sim.run(5)[record])
        expected = []
        h.continuerun(5)
        for _ in voltages:
            expected.append(np.array(v).T)
            h.finitialize(h.v_init)
            h.continuerun(5)
        _compare(expected, voltages)
    finally:
        h.nai0_na_ion = 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [1, 2])
def test_spikes_at_the_start_are_in_the_first_result(engine, count):
    """NEURON records them after its first step, at 1e-10 ms."""
    soma = h.Section(name="soma")
    soma.insert("pas")
    times = h.Vector()
    netcon = h.NetCon(soma(0.5)._ref_v, None, -70, 1, 0, sec=soma)
    netcon.record(times)
    h.finitialize(-65)
    h.fadvance()
    assert times.to_python() == [1e-10]
    h.finitialize(-65)
    sim = clhines.from_neuron(engine=engine, copies=count).simulation
    for _ in range(2):
        assert sim.run(1.0).spike_time.tolist() == [0.0] * count
        sim.reset()


@pytest.mark.parametrize("engine", ENGINES)
def test_locals_of_a_thread_safe_file_stay_when_parameters_change(engine):
    """INITIAL sets `kept` and `hidden`, which NEURON keeps in a thread, as qt of NetPyNE's M1."""
    soma, clamp = clamped("nmexpr")
    dend = h.Section(name="dend")
    dend.connect(soma(1))
    dend.insert("nmexpr")
    dend.nseg, clamp.amp = 3, 0.1
    for section in (soma, dend):
        section.g_nmexpr = 1e-3
    v = [h.Vector().record(section(0.5)._ref_v) for section in (soma, dend)]

    def kept(run):
        results, h.base_nmexpr = [], 2
        for turn in range(2):
            h.finitialize(-60)
            h.base_nmexpr = 5 + turn
            run(1)
            h.base_nmexpr = 9
            run(2)
            results.append(np.array(v))
        return results

    expected = kept(h.continuerun)
    _compare(expected, kept(lambda t: clhines.neuron.run(t, engine=engine)))


@pytest.mark.parametrize("mechanism, name", [("nmbegun", "depth"), ("nmexpr", "kept")])
def test_locals_that_are_not_found_are_refused(monkeypatch, mechanism, name):
    soma, _clamp = clamped(mechanism)
    assert soma
    h.finitialize(-65)
    for reader in ("local_at", "thread_locals_at"):
        monkeypatch.setattr(f"clhines.neuron.importer.{reader}", lambda *_: None)
    with pytest.raises(InputError, match=f"{mechanism}: LOCAL {name}, which is not found"):
        clhines.neuron.run(1)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_events_set_is_there_in_the_next_initial(engine):
    mod_files.loaded()
    soma = make_section("soma", "pas")
    one, wire = h.nmseen(soma(0.5)), None
    wire = h.NetCon(None, one)
    wire.weight[0] = 0.3

    def seen(run):
        v, results, h.seen_nmseen = h.Vector().record(soma(0.5)._ref_v), [], 0.02
        for turn in range(3):
            wire.weight[0] = 0.3 + turn
            h.finitialize(-65)
            wire.event(1.1)
            run(2)
            run(4)
            results += [np.array(v), [one.m, h.seen_nmseen]]
        return results

    _compare(seen(h.continuerun), seen(lambda t: clhines.neuron.run(t, engine=engine)))


def shifted():
    """Cells in a ring: each one's tables depend on the voltage of the next, and on a parameter."""
    mod_files.loaded()
    sections = [h.Section(name=f"cell{k}") for k in range(3)]
    for k, section in enumerate(sections):
        section.L, section.diam, section.nseg = 20, 20, 1 + k % 2
        section.insert("hh")
        section.insert("ext_shift")
        section.g_ext_shift = 3e-4
        for segment in section:
            h.setpointer(sections[k - 1](0.3)._ref_v, "mu", segment.ext_shift)
    clamp = with_values(h.IClamp(sections[0](0.5)), delay=0.5, dur=2, amp=0.5)
    return sections, clamp


def test_tables_that_neuron_makes_again_are_refused():
    """NEURON fills tables again if each step sets a DEPEND variable from a POINTER."""
    sections, _clamp = shifted()
    h.finitialize(-62)
    [said] = clhines.neuron.check()
    assert sections and said.id == "mod.table"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loop_sends_events(engine):
    """Compare events that a VERBATIM loop sends, some before the run, with NEURON's."""
    soma, _clamp = clamped("hh")
    cells = [h.nmburst() for _ in range(3)]
    train, synapses = h.NetStim(), [h.ExpSyn(soma(0.5)) for _ in cells]
    train.start, train.number, train.interval = 1, 2, 7
    sent, wires = [h.Vector() for _ in cells], []
    for k, (cell, synapse, vector) in enumerate(zip(cells, synapses, sent, strict=True)):
        cell.turns = (1.9, 5, 8)[k]
        wires += [h.NetCon(train, cell, 0, 0.3, 1 - k % 2), h.NetCon(cell, synapse)]
        wires[-1].delay, wires[-1].weight[0] = 0.2 + k, 0.001 * (k + 1)
        wires[-1].record(vector)
    v = h.Vector().record(soma(0.5)._ref_v)

    def bursts(run):
        h.finitialize(-65)
        run(3)
        run(20)
        return [np.array(v), *(np.sort(x) for x in sent), [cell.seen for cell in cells]]

    expected = bursts(h.continuerun)
    assert [len(x) for x in expected[1:4]] == [2, 8, 14]
    _compare(expected, bursts(lambda t: clhines.neuron.run(t, engine=engine)))


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_reset_sends_the_events_of_0_ms_once(engine, copies):
    """Events that sources send at 0 ms are on their way when the model is read."""
    soma, _clamp = clamped("hh")
    synapse, ampa, cell = h.ExpSyn(soma(0.5)), h.tsodyks_markram(soma(0.5)), h.IntFire1()
    stim, vector_stim, times = h.NetStim(), h.vec_pointer(), h.Vector([0, 2])
    stim.start, stim.number, stim.interval = 0, 2, 2
    vector_stim.play(times)
    late = h.NetCon(None, synapse, 0, 0, 1e-3)
    wires = [h.NetCon(stim, cell, 0, 0, 2), h.NetCon(cell, synapse, 0, 1, 1e-3), late]
    wires += [h.NetCon(source, ampa, 0, 1, 1e-3) for source in (stim, vector_stim)]
    wires += [h.NetCon(soma(0.5)._ref_v, synapse, -70, 1, 1e-3, sec=soma)]
    handler = h.FInitializeHandler(lambda: late.event(1.5))
    v = h.Vector().record(soma(0.5)._ref_v)
    h.finitialize(-65)
    h.continuerun(5)
    expected = np.tile(np.array(v)[:, None], copies)
    h.finitialize(-65)
    model = clhines.from_neuron(engine=engine, copies=copies)
    sim = model.simulation
    record = sim.record("v", [model[soma(0.5), k] for k in range(copies)])
    for _ in range(2):
        _compare([expected], [sim.run(5)[record]])
        sim.reset()
    h.continuerun(5)  # no event may be left for objects that are gone
    del handler


def test_values_that_reset_does_not_restore_are_named():
    soma, _clamp = clamped("hh")

    def told():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            v_init = clhines.from_neuron(engine="reference").simulation.network.settings["v_init"]
        return v_init, [str(w.message).partition(" will differ after reset()")[0] for w in caught]

    h.t, h.v_init = 0, -72
    assert told() == (-72, ["v"])  # before h.finitialize() sections have -65 mV
    h.v_init = -65
    h.finitialize(-70)
    assert told() == (-70, [])
    soma.ena = 40
    h.finitialize(-70)
    assert told() == (-70, [])
    soma(0.5).hh.n = 0.5
    assert told() == (-70, ["n of hh"])
    other = h.Section(name="other")
    handler = h.FInitializeHandler(0, lambda: setattr(other, "v", -50))
    h.finitialize(-65)
    assert told() == (h.v_init, ["v"])
    stim, synapse = h.NetStim(), h.ExpSyn(soma(0.5))
    wire = h.NetCon(stim, synapse, 0, 1, 1e-3)
    handler = h.FInitializeHandler(lambda: wire.event(1.5))
    h.finitialize(-65)
    assert told() == (h.v_init, ["events on their way"])
    del handler
