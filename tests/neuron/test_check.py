"""`check` lists refusals before anything runs, and the constructs of the page."""

from types import SimpleNamespace

import forked
import pytest
from forked import found_by
from processes import output_of, run_python

from clhines import InputError
from clhines.core.arrays import half_steps
from clhines.neuron.back.states import step_of

pytestmark = pytest.mark.neuron

REJECTED = """
loaded()
soma = make_section("soma", "hh", "extracellular")
soma(0.5).xc[0] = -1
h.load_file("stdlib.hoc")
h('''
objref channel
channel = new KSChan()
channel.add_hhstate("t")
channel.trans(0).set_f(0, 3, new Vector(3, 1))
channel.trans(0).set_f(1, 3, new Vector(3, 1))
channel.name("built")
begintemplate Built
public soma
create soma
proc init() { soma { insert pas insert built } }
endtemplate Built
objref cell
cell = new Built()
''')
other = h.vec_c(soma(0.5))
h.finitialize(-65)
before = soma(0.5).v, h.t
lines = listed()
message = refusal(clhines.neuron.run, 5, engine="reference")
found = {"lines": lines, "message": message, "same": before == (soma(0.5).v, h.t)}
"""


def test_everything_rejected_is_named_in_one_message_and_nothing_changes():
    result = found_by(REJECTED)
    assert result["same"]
    for name in (
        "extracellular",
        "built: KSChan with a name that NMODL has for something else: 't'",
        "vec_c: VERBATIM",
    ):
        assert any(name in line for line in result["lines"]), (name, result["lines"])
        assert name in result["message"]
    lines = [line for line in result["lines"] if "VERBATIM" in line]
    assert all(".mod:" in line for line in lines)  # file and line


WEIGHTS = """
import numpy as np
soma = make_section("soma", "pas")
synapse, stim = h.ExpSyn(soma(0.5)), h.NetStim()
netcon = h.NetCon(stim, synapse, 0, 1, 0.03)
h.finitialize(-65)
clhines.neuron.run(0.1, dtype=np.float32, engine="steps")
found = {"weight": netcon.weight[0], "t": h.t}
"""


def test_mechanisms_that_cannot_be_loaded_are_rejected(tmp_path):
    script = tmp_path / "model.py"
    script.write_text("from neuron import h\nsoma = h.Section(name='soma')\n")
    command = ["-m", "clhines.cli", "simulate", script, "--check"]
    library = tmp_path / "libnrnmech.so"
    done = run_python(*command, "--mechanisms", library)
    assert done.returncode == 2 and done.stdout == ""
    expected = f"clhines: --mechanisms {library}: NEURON cannot load it; expected the library"
    assert done.stderr.splitlines()[-1].startswith(expected)


def test_a_run_in_float32_leaves_weights_as_they_were():
    result = found_by(WEIGHTS)
    assert result["weight"] == 0.03 and result["t"] > 0.05


MANY = """
import sys
import numpy as np
soma, dendrite = h.Section(name="soma"), h.Section(name="dendrite")
soma.insert("hh")
dendrite.insert("pas")
dendrite.insert("hh")
dendrite.nseg = 51
dendrite.connect(soma(1))
soma.L, soma.diam, dendrite.L, dendrite.diam = 20, 20, 100, 1
for segment in dendrite:
    segment.pas.g = 1e-4 * (1 + segment.x)
synapse, stim, cell = h.ExpSyn(dendrite(0.5)), h.NetStim(), h.IntFire1()
stim.start, stim.interval, stim.number = 1, 2, 3
netcons = [h.NetCon(stim, synapse), h.NetCon(soma(0.5)._ref_v, synapse, sec=soma),
           h.NetCon(stim, cell), h.NetCon(cell, synapse)]
for netcon, weight in zip(netcons, (0.05, -0.01, 2, 0.02)):
    netcon.weight[0] = weight
h.finitialize(-65)

def spent(copies):
    seen = [0]
    def count(frame, event, argument):
        seen[0] += "clhines" in frame.f_code.co_filename  # PyOpenCL prints what a compiler says
    sys.setprofile(count)
    try:
        model = clhines.from_neuron(engine="steps", copies=copies)
        sim = model.simulation
        sim.run(float(h.dt))
    finally:
        sys.setprofile(None)
    return seen[0]

def run(engine, copies):
    model = clhines.from_neuron(engine=engine, copies=copies)
    sim = model.simulation
    sim.record("v", [model[soma(0.5), copy] for copy in range(copies)])
    sim.record("i", model.groups["ExpSyn"])
    before = sim.run(4)
    sim.set(model.groups["ExpSyn"], tau=np.linspace(0.1, 0.2, copies))
    after = sim.run(4)
    spikes = [s.tolist() for r in (before, after) for s in (r.spike_cell, r.spike_time)]
    # row 0 of a current is of no step, and NaN where no state has it
    return [np.concatenate([before[k][k:], after[k]]) for k in (0, 1)], spikes

spent(500)
found = {"spent": [spent(500), spent(1000), spent(2000)]}
reference, expected = run("reference", 3)
one, _ = run("reference", 1)
rows, model = round(4 / h.dt) + 1, clhines.from_neuron(copies=3)
found["same"] = bool((one[0][:rows] == reference[0][:rows]).all())
found["places"] = reference[0].shape[1], model[synapse, 2][1], model[netcons[1], 1][1]
found["largest_na"] = float(np.abs(reference[1]).max())
for engine in ("steps", "epochs", "epochs-gpu"):
    own, spikes = run(engine, 3)
    found[engine] = {"mv": float(np.abs(own[0] - reference[0]).max()), "top": float(own[0].max()),
                     "na": float(np.abs(own[1] - reference[1]).max()),
                     "differ": float(np.abs(own[0][:, 0] - own[0][:, 2]).max()),
                     "spikes": [len(s) for s in spikes], "cells": spikes[0] == expected[0]}
"""


def test_copies_are_made_at_once_and_do_what_one_and_the_reference_do():
    result = found_by(MANY)
    assert result["same"] and result["places"] == [3, 2, 1]
    few, some, many = result["spent"]
    # less than one call, of Python or of C, per further copy; a kernel of another shape costs some
    assert min((some - few) / 500, (many - some) / 1000) < 1
    # as in `test_run`: 1e-9 of the largest value at the upstroke of a spike
    for ours in (result[engine] for engine in ("steps", "epochs", "epochs-gpu")):
        assert ours["mv"] < 65e-9 and ours["na"] < 1e-9 * max(result["largest_na"], 1)
        assert ours["top"] > 0 and ours["differ"] > 1e-3  # set in each copy
        assert ours["cells"] and ours["spikes"][0] >= 3


CONSTRUCTS = """
import pathlib
cvode, pc = h.CVode(), h.ParallelContext()
found = {}

def rejected(row, before, after):
    soma = make_section("soma", "hh")
    kept = before(soma)
    h.finitialize(-65)
    more = after(soma) if after is not None else None
    found[row] = listed()
    return soma, kept, more

def linear(soma):
    c, g = h.Matrix(1, 1), h.Matrix(1, 1)
    y, y0, b, x = h.Vector(1), h.Vector(1), h.Vector(1), h.Vector([0.5])
    made = h.LinearMechanism(c, g, y, y0, b, h.SectionList([soma]), x)
    return made, c, g, y, y0, b, x

def held(soma):
    clamp, at = h.IClamp(soma(0.5)), h.Vector([0.0, 1, 2])
    y, index = h.Vector([0.0, 1, 1]), h.Vector([1.0])
    y.play(clamp._ref_amp, at, index)
    return clamp, at, y, index

def twice(soma):
    clamp, vectors = h.IClamp(soma(0.5)), [h.Vector([0.0, 1, 2]) for _ in range(3)]
    vectors[1].play(clamp._ref_amp, vectors[0])
    vectors[2].play(clamp._ref_amp, vectors[0], 1)
    return clamp, vectors

def silent(soma):
    clamp = h.IClamp(soma(0.5))
    netcon, times = h.NetCon(clamp, h.ExpSyn(soma(0.5))), h.Vector()
    netcon.record(times)
    h.finitialize(-65)
    clhines.neuron.run(0.1, engine="reference")
    return clamp, netcon, times

def sends(soma):
    stim, synapse = h.NetStim(), h.ExpSyn(soma(0.5))
    netcon, stim.start = h.NetCon(stim, synapse, 0, 5, 0), 0.01
    return stim, synapse, netcon

def calls(soma):
    stim = h.NetStim()
    netcon = h.NetCon(stim, None)
    netcon.record("t = t")
    return stim, netcon

def set_back(soma):  # as older networks do, to begin in a steady state
    for _ in range(3):
        h.fadvance()
    h.t = 0

nothing = lambda soma: None
rejected("plain", nothing, silent)  # a source that never sends
rejected("threads of NEURON", lambda soma: pc.nthread(2), None)
pc.nthread(1)
rejected("CVode's variable steps", lambda soma: cvode.active(1), None)
cvode.active(0)
rejected("CVode.queue_mode", lambda soma: cvode.queue_mode(0, 1), None)
cvode.queue_mode(1, 0)
rejected("CVode.queue_mode(1, 0) after t was set", sends, set_back)
cvode.queue_mode(0, 0)
def charged(soma):
    soma.insert("extracellular")
    soma(0.5).xc[0] = -1

rejected("`extracellular` with `xg` or `xc` below 0", charged, None)
def branches(soma):
    soma.rallbranch = 1.5

rejected("rallbranch", branches, None)
point = lambda soma: h.IClamp(soma(0.5))
rejected("CVode.event with a point process", point,
         lambda soma: cvode.event(3, "x = 1", h.List("IClamp").o(0), 0))
rejected("Vector.play", held, None)
rejected("NetCon.record of a statement", calls, None)
rejected("two Vectors, or a Vector and a Random, played into one variable", twice, None)
rejected("LinearMechanism", linear, None)
"""


def test_constructs_are_rejected():
    """Each refusal is a sentence of the catalogue, from which docs/refusals.md is printed."""
    result = found_by(CONSTRUCTS)
    assert result.pop("plain") == []
    for name, lines in result.items():
        assert lines, name
        assert not any("cannot be read" in line for line in lines), name


VARIABLE = """
from neuron import h
import clhines
h.load_file("stdrun.hoc")
soma = h.Section(name="soma")
soma.insert("hh")
h.CVode().active(True)
h.finitialize(-65)
for call in (lambda: None, clhines.neuron.check, clhines.from_neuron):
    soma.nseg += 2
    try:
        print(call())
    except clhines.neuron.RejectedError as error:
        print(error.rejected)
    h.continuerun(h.t + 1)
    print(h.t > 0)
"""


def test_variable_steps_are_rejected_before_changed_sections_are_read():
    """NEURON ended the process in its next step."""
    lines = output_of("-c", VARIABLE, timeout=200).splitlines()[-6:]
    assert lines[0] == "None" and lines[1::2] == ["True"] * 3
    for line in lines[2::2]:
        assert line.count("Rejected(") == 1 and "CVode: variable time steps" in line


@pytest.mark.parametrize("t", [-50.01, 0.26])
def test_times_that_no_step_has(t):
    assert step_of(SimpleNamespace(t=round(t, 1)), 0.025) == round(40 * round(t, 1))
    with pytest.raises(InputError, match="where no step of h.dt = 0.025 ms begins"):
        step_of(SimpleNamespace(t=t), 0.025)


def test_times_to_which_neurons_steps_do_not_add_up():
    """Four million steps of 0.025 ms do not add up to 1e5 ms, to which a script may set h.t."""
    end = float(half_steps(0.0, 0.025, 8_000_000)[-1])
    assert step_of(SimpleNamespace(t=end), 0.025) == 4_000_000 and abs(end - 1e5) > 1e-5
    with pytest.raises(InputError, match="where no step of h.dt = 0.025 ms begins"):
        step_of(SimpleNamespace(t=1e5), 0.025)


BINS = """
import warnings
from neuron import h
import clhines
soma = h.Section(name="soma")
synapse, stim, fires = h.ExpSyn(soma(0.5)), h.NetStim(), [h.IntFire1() for _ in range(3)]
netcons = [h.NetCon(stim, synapse), h.NetCon(stim, fires[0]), h.NetCon(fires[0], fires[2])]
h.CVode().queue_mode(1, 0)
def look():
    h.finitialize(-65)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        print([str(x) for x in clhines.neuron.check()], [str(w.message) for w in found])
look()
netcons += [h.NetCon(stim, fires[1]), h.NetCon(fires[1], fires[2])]
look()
netcons[4].active(False)
netcons[1].delay = 0.4 * h.dt
look()
netcons[1].delay = 0.6 * h.dt
start = h.FInitializeHandler(lambda: netcons[0].event(4.3))
look()
"""


def test_what_differs_in_bins_of_events_is_named():
    alike, tied, short, sent = output_of("-c", BINS, timeout=200).splitlines()[-4:]
    assert alike == "[] []"
    assert tied.startswith("[] ['CVode.queue_mode(1, 0)") and "IntFire1" in tied
    assert short.startswith("[] ['CVode.queue_mode(1, 0)") and "IntFire1" in short
    assert "delay below dt/2" in short
    assert "ExpSyn" in sent and "a pending NetCon.event" in sent and sent.endswith(" []")


SHORT = """
loaded()
soma = make_section("soma", "hh")
pulse, stim = h.ext_pulse(soma(0.5)), h.NetStim()
stim.interval, stim.number, stim.start, stim.noise = 2.3, 1e6, 0.2, 1
netcon = h.NetCon(stim, pulse, 0, 0.2 * h.dt, 0.0002)
names = "_ref_g", "_ref_mixed", "_ref_last"
vectors = [h.Vector().record(getattr(pulse, name)) for name in names]
h.CVode().queue_mode(1, 0)
h.finitialize(-65)
h.continuerun(20)
truth = [np.array(v) for v in vectors]
h.finitialize(-65)
clhines.neuron.run(20, engine="reference")
last = truth[2][-1] / h.dt
heard = min(np.abs(v).max() for v in truth) > 0, abs(last - round(last)) > 1e-3
off = max(np.abs(a - b).max() / np.abs(a).max() for a, b in zip(truth, map(np.array, vectors)))
print(json.dumps([*map(bool, heard), off]))
"""


def test_time_of_an_event_within_half_a_step():
    """With bins, NEURON's t is the time when one NetStim sent its last self event."""
    *heard, difference = forked.result_of(SHORT)
    assert heard == [True, True]
    assert difference < 1e-12  # event times are sums over some 1,000 steps


IN_NO_BIN = """
soma = make_section("soma", "pas")
synapse, stim = h.ExpSyn(soma(0.5)), h.NetStim()
stim.number, stim.interval, stim.start = 100, 1, 0.1
netcon = h.NetCon(stim, synapse)
netcon.delay = 1.5  # there is always one of the stim's on its way
h.CVode().queue_mode(1, 0)
said = []
for begin in (h.continuerun, lambda t: clhines.neuron.run(t, engine="reference")):
    h.finitialize(-65)
    begin(2)
    netcon.event(2.7)
    said.append(refusal(clhines.neuron.run, 5, engine="reference"))
print(json.dumps(said))
"""


def test_an_event_in_no_bin_is_told_of_beside_others_and_between_pieces():
    said = forked.result_of(IN_NO_BIN)
    assert len(said) == 2
    assert all("ExpSyn: a pending NetCon.event outside the bins" in s for s in said)


MANY_ON_THEIR_WAY = """
loaded()
soma = make_section("soma", "hh")
pulse = with_values(h.ext_pulse(soma(0.5)), dur=30)
stims, netcons = [h.NetStim() for _ in range(6)], []
for k, stim in enumerate(stims):
    stim.interval, stim.number, stim.start = 4 + 0.3 * k, 1e6, 0.2 + 0.1 * k
    netcons.append(h.NetCon(stim, pulse))
    netcons[-1].delay, netcons[-1].weight[0] = 1, 1e-6
vectors = [h.Vector().record(getattr(pulse, n)) for n in ("_ref_g", "_ref_mixed")]
h.finitialize(-65)
h.continuerun(40)
truth = np.array(vectors)
differences = []
for engine in sys.argv[1:]:
    h.finitialize(-65)
    for stop in (20, 40):
        clhines.neuron.run(stop, engine=engine)
    differences.append(float(np.abs(np.array(vectors) - truth).max()))
print(json.dumps([float(truth[0].max() / 1e-6), differences]))
"""


def test_an_instance_with_many_self_events_under_way():
    """Older models' AMPA_S and NMDA_S have more than 16 if several connections lead to one."""
    most, differences = forked.result_of(MANY_ON_THEIR_WAY, "reference", "steps")
    assert most > 32
    assert max(differences) < 1e-12  # sums over some dozens of weights


ENDS = """
soma, other, child = (h.Section(name=name) for name in ("soma", "other", "child"))
for section in (soma, other, child):
    section.L = section.diam = 3
    section.insert("pas")
child.connect(other(0))
clamp, stim = h.IClamp(soma(0.5)), h.IClamp(child(1))
clamp.amp, clamp.dur, stim.amp, stim.dur = 1e-4, 100, 1e-4, 100
vectors = [h.Vector().record(s(x)._ref_v) for s in (soma, other, child) for x in (0, 0.5, 1)]
found = []
for way in (h.continuerun, lambda stop: clhines.neuron.run(stop, dtype="float32")):
    h.finitialize(-65)
    way(2.0)
    found.append(np.array([v.to_python() for v in vectors]))
h.finitialize(-65)
model = clhines.from_neuron()
sim = model.simulation
places = [model[s(x)] for s in (soma, other, child) for x in (0, 0.5, 1)]
print(json.dumps([places, float(np.abs(found[0][:3] - found[1][:3]).max()), found[1].shape]))
"""


def test_ends_where_nothing_is_have_no_node():
    """Ends without mechanisms have no node, which would round a short segment's membrane away.

    A float32 step rounds v and the terms of its equation by at most four ulps of 65 mV, so 80 steps
    are off by 80 * 4 * 65 * 6e-8 mV; with nodes at its ends such a soma is off by 0.2 mV.
    """
    places, difference, shape = forked.result_of(ENDS)
    # an end that is joined or has a point process is a node; other ends are the segment's node
    soma, joined, middle, away, far = 0, 1, 2, 3, 4
    assert places == [soma, soma, soma, joined, middle, middle, joined, away, far]
    assert shape == [9, 81]
    assert 0 < difference < 80 * 4 * 65 * 6e-8


HIDDEN = """
h("ref = 1")
h("allsec = 2")
h("cas = 3")
h("Section = 4")
h("create soma")
h("soma { insert hh  L = 20  diam = 20 }")
clamp = with_values(h.IClamp(h.soma(0.5)), amp=0.2, dur=5)
v = h.Vector().record(h.soma(0.5)._ref_v)
found = []
for way in (h.continuerun, clhines.neuron.run):
    h.finitialize(-65)
    way(5)
    found.append(np.array(v))
hidden = [h.ref, h.allsec, h.cas, h.Section]
print(json.dumps([hidden, float(np.abs(found[0] - found[1]).max()), float(found[0].max())]))
"""


def test_variables_of_hoc_may_have_the_names_of_functions_of_python():
    """A hoc variable `ref`, as in ModelDB's 118098, replaces `h.ref`; reading still works."""
    hidden, difference, highest = forked.result_of(HIDDEN)
    assert hidden == [1, 2, 3, 4]
    assert difference < 1e-9 * 65 and highest > 0
