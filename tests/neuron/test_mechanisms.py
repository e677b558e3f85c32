"""POINTERs to variables of other mechanisms: compared with NEURON, or refused."""

import forked
import mod_files
import numpy as np
import pytest

import clhines
from clhines.core.errors import InputError
from clhines.neuron.memory import raw
from clhines.neuron.memory.memory import NeuronMemory

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron

STOP = 12.0  # ms
ENGINES = ("auto", "reference", "steps", "epochs", "epochs-gpu")
POINTED = {  # targets for pointers a and b, and whether they may be at other nodes
    "each in its block": ("seen", "late", False),
    "each in the other": ("late", "seen", True),
    "one that events set": ("late", "msg", False),
    "a parameter": ("late", "gain", True),
}


@pytest.fixture
def two_cells():
    """A passive cell, a cell that a clamp makes fire, and the clamp."""
    mod_files.loaded()
    cells = [h.Section(name=f"pointed{k}") for k in range(2)]
    for k, cell in enumerate(cells):
        cell.L, cell.diam, cell.nseg = 60, 10, 3
        cell.insert("hh" if k else "pas")
    clamp = h.IClamp(cells[1](0.5))
    clamp.delay, clamp.dur, clamp.amp = 1, 3, 0.4
    yield cells, clamp
    for cell in cells:
        h.delete_section(sec=cell)


@pytest.fixture
def model(two_cells):
    """Two cells with a source each, and readers that NEURON calls before and after the sources."""
    cells, clamp = two_cells
    sources = [h.ext_msg(cell(x)) for cell in cells for x in (0.2, 0.8)]
    for k, source in enumerate(sources):
        source.gain = 1 + k
    readers = [kind(cell(x)) for kind in (h.ext_ahead, h.ext_reads)
               for cell in cells for x in (0.2, 0.8)]  # fmt: skip
    targets = [*sources, *readers]
    wires = [h.NetCon(cells[1](0.5)._ref_v, to, sec=cells[1]) for to in targets]
    for k, wire in enumerate(wires):
        wire.weight[0], wire.delay, wire.threshold = 0.1, 0.5 + 0.3 * k, 0
    return sources, readers, [clamp, wires]


def point(readers, sources, names, place):
    """Point to the source at the `own` node, at the `other` one of the cell, or at the `next`."""
    for k, reader in enumerate(readers):
        at = {"own": k, "other": k ^ 1, "next": k + 1}[place]
        for pointer, name in zip("ab", names, strict=True):
            to = sources[at % len(sources)]
            h.setpointer(getattr(to, f"_ref_{name}"), pointer, reader)


def seen_by(run, readers, sources):
    """Return voltages, states of the readers and values in their events, all over time."""
    sections = list(h.allsec())
    vectors = [h.Vector().record(s(x)._ref_v) for s in sections for x in (0.2, 0.8)]
    vectors += [h.Vector().record(getattr(r, f"_ref_{n}")) for r in readers for n in ("x", "got")]
    vectors += [h.Vector().record(s._ref_late) for s in sources]
    for _ in range(2):  # readers before the sources get the sources' values from their last INITIAL
        h.finitialize(-65)
    run(STOP / 3)
    run(STOP)
    return np.array(vectors)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("place", ["own", "other", "next"])
@pytest.mark.parametrize("case", POINTED)
def test_variables_of_others_are_those_of_neuron(model, case, place, engine):
    """Compare with NEURON: at the own node any block may read any variable, in NEURON's order.

    At other nodes a block may read only variables that change in another part of the step; epochs
    support this within a cell. Differences are rounding: eps in each of 480 steps, which the
    upstroke amplifies by about e^5.
    """
    sources, readers, _ = model
    a, b, elsewhere = POINTED[case]
    point(readers, sources, (a, b), place)
    expected = seen_by(h.continuerun, readers, sources)

    def run(until):
        clhines.neuron.run(until, engine=engine)

    said = "at another node, which changes in the same part of" * (place != "own" and not elsewhere)
    if place == "next" and engine.startswith("epochs"):
        said = said or "takes no pointers to variables of mechanisms of other cells; expected"
    if said:
        with pytest.raises(InputError, match=said):
            seen_by(run, readers, sources)
        return
    results = seen_by(run, readers, sources)
    assert np.ptp(expected, axis=1).min() > 0.01
    largest = np.abs(expected).max(axis=1, keepdims=True)
    assert (np.abs(results - expected) / largest).max() < 480 * 2.2e-16 * 148


def test_what_is_rejected(model):
    sources, readers, _ = model
    times, values = h.Vector([0, 5]), h.Vector([1, 2])
    values.play(sources[0]._ref_gain, times)
    for name, said in (
        ("gain", "POINTER b points to gain of ext_msg, which is set from outside"),
        (
            "",
            "POINTER b points to nothing; expected a voltage, or a variable of an instance of a m",
        ),
    ):
        point(readers, sources, ("seen", "late"), "own")
        if name:
            point(readers, sources, ("seen", name), "own")
        else:
            readers.append(h.ext_reads(next(h.allsec())(0.5)))
            h.setpointer(sources[0]._ref_seen, "a", readers[-1])
        h.finitialize(-65) if name else None
        lines = [str(r) for r in clhines.neuron.check()]
        assert any(said in line for line in lines), lines
    readers.pop()
    point(readers, sources, ("seen", "late"), "own")
    h.setpointer(next(h.allsec())(0.5)._ref_v, "a", readers[0])
    h.finitialize(-65)
    said = "POINTER a points to v and, in another instance, to seen"
    assert said in str(clhines.neuron.check())
    point(readers, sources, ("msg", "seen"), "own")
    h.finitialize(-65)
    with pytest.raises(InputError, match="a points to msg of ext_msg, and events read and set it"):
        clhines.neuron.run(1)


@pytest.fixture
def heard(two_cells):
    """Two cells with targets, setters that NEURON calls before and after these, and events."""
    cells, clamp = two_cells
    places = [cell(x) for cell in cells for x in (0.2, 0.8)]
    targets = [h.ext_heard(place) for place in places]
    before, after = ([kind(place) for place in places] for kind in (h.ext_assign, h.ext_says))
    wires = [h.NetCon(cells[1](0.5)._ref_v, to, 0, 0.5, 0.1, sec=cells[1]) for to in targets]
    return targets, before, after, [clamp, wires]


def assign(setters, targets, out, level):
    """Let instance k set variables in its target (0), in the cell's other (1), in another cell."""
    for pointer, name, shift in (("out", "stim", out), ("level", "gain", level)):
        for k, setter in enumerate(setters):
            if hasattr(setter, "rate"):
                setter.rate = 0.7 + 0.3 * k
            h.setpointer(getattr(targets[k ^ shift], f"_ref_{name}"), pointer, setter)


def heard_by(run, targets):
    names = "stim", "gain", "g", "got", "i"
    vectors = [h.Vector().record(s(x)._ref_v) for s in h.allsec() for x in (0.2, 0.8)]
    vectors += [h.Vector().record(getattr(to, f"_ref_{n}")) for to in targets for n in names]
    for to in targets:
        to.stim, to.gain = 0, 1
    h.finitialize(-65)
    run(STOP / 3)
    now = [getattr(to, name) for to in targets for name in names]
    targets[0].gain = 2.5
    run(STOP)
    return np.array(vectors), [now, [getattr(to, name) for to in targets for name in names]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("out", "level"), [(0, 0), (0, 1), (0, 2), (1, 1)])
@pytest.mark.parametrize("setters", [1, 2], ids=["before", "after"])
def test_what_breakpoint_sets_by_pointers_is_that_of_neuron(heard, setters, out, level, engine):
    """Compare with NEURON: mechanisms set in NEURON's order; at other nodes only idle variables.

    Differences are rounding: eps in each of 480 steps, which the upstroke amplifies by about e^5.
    """
    targets = heard[0]
    heard[3 - setters].clear()
    assign(heard[setters], targets, out, level)
    expected, at = heard_by(h.continuerun, targets)

    def run(until):
        clhines.neuron.run(until, engine=engine)

    said = "at another node, which changes in the same part of" * bool(out)
    if level == 2 and engine.startswith("epochs"):
        said = "takes no pointers to variables of mechanisms of other cells; expected"
    if said:
        with pytest.raises(InputError, match=said):
            heard_by(run, targets)
        return
    truth, ours = heard_by(run, targets)
    assert np.ptp(expected[-4:], axis=1).min() > 1e-5
    largest = np.abs(expected).max(axis=1, keepdims=True) + 1e-300
    assert (np.abs(truth - expected) / largest).max() < 480 * 2.2e-16 * 148
    np.testing.assert_allclose(ours, at, 480 * 2.2e-16 * 148, 1e-12)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("a voltage", "POINTER out points to v of a node, and is written"),
        ("its own", "POINTER out points to phase of ext_assign, and is written"),
        ("twice", "POINTER out points to stim of ext_heard, of several instances, and is written"),
        ("played", "POINTER out points to stim of ext_heard, which is set from outside"),
        ("an ion's", "POINTER out points to ena of na_ion"),
        ("both", "expected a variable of another mechanism to which no other pointer leads"),
    ],
)
def test_what_breakpoint_sets_that_is_rejected(heard, case, said):
    targets, before, after, kept = heard
    assign(before, targets, 0, 0)
    if case == "both":
        assign(after, targets, 1, 1)
    after.clear() if case != "both" else None
    place = before[2].get_segment()
    wrong = {"a voltage": place._ref_v, "its own": before[1]._ref_phase, "an ion's": place._ref_ena}
    for one in before if case in wrong else ():
        h.setpointer(wrong[case], "out", one)
    if case == "twice":
        h.setpointer(targets[0]._ref_stim, "out", before[1])
    if case == "played":
        kept += [h.Vector([0, 1]), h.Vector([0, 0])]
        kept[-1].play(targets[0]._ref_stim, kept[-2], 1)
    h.finitialize(-65)
    with pytest.raises(InputError, match=said):
        clhines.neuron.run(1)


def test_what_lies_behind_an_object_that_records_is_not_its_vector(monkeypatch):
    """A heap word behind a recording object, a POINTER's address, is not its vector."""
    mod_files.loaded()
    soma, whole = h.Section(name="soma"), h.Vector(1)
    element, total = whole._ref_x[0], h.ext_total(soma(0.5))
    soma.insert("ext_adds")
    total._ref_whole, total.scale = element, 1e-6
    adds = soma(0.5).ext_adds
    adds._ref_neighbour, adds._ref_total = soma(0.5)._ref_v, total._ref_total
    adds._ref_whole, adds.ri, adds.length = element, 1, soma.L
    kept = h.Vector().record(element)
    h.finitialize(-65)
    inside, words_at = NeuronMemory(h).object_address(whole), raw.words_at

    def with_heap(at, count=raw.SEARCHED):
        words = words_at(at, count)
        return [*words[:9], *[inside] * 7] if count == 16 else words

    monkeypatch.setattr(raw, "words_at", with_heap)
    assert clhines.neuron.check() == []
    h.delete_section(sec=soma)
    assert kept


COMPARED = """
loaded()
soma = make_section("soma", "hh")
synapse, source = h.ExpSyn(soma(0.5)), h.ext_source(soma(0.5))
said = []
for reference in (soma(0.5)._ref_m_hh, synapse._ref_g, source):
    netcon = h.NetCon(reference, synapse, 0.5, 1, 0.01, sec=soma)
    h.finitialize(-65)
    said.append([str(line) for line in clhines.neuron.check()])
print(json.dumps(said))
"""


def test_netcons_of_variables_of_mechanisms_are_refused():
    """NEURON compares such a variable, also a source's variable `x`, with the threshold."""
    expected = "expected a voltage or an object that sends events"
    names = "hh.m", "ExpSyn.g", "ext_source.x"
    assert forked.result_of(COMPARED) == [[f"NetCon of {name}; {expected}"] for name in names]
