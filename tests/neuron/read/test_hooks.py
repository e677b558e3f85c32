"""Callbacks and objects that act in each step of NEURON, outside the model, are refused by name."""

import numpy as np
import pytest
from forked import printed_by

pytestmark = pytest.mark.neuron
STEPPING = """
soma, child = h.Section(name="soma"), h.Section(name="child")
child.connect(soma(1))
for section in (soma, child):
    section.L = section.diam = 20
    section.insert("hh")
clamp, v = with_values(h.IClamp(soma(0.5)), amp=0.1, dur=1e3), h.Vector().record(soma(0.5)._ref_v)
stim, synapse = with_values(h.NetStim(), start=0.3, number=1), h.ExpSyn(soma(0.5))
netcon = h.NetCon(stim, synapse, 0, 0.1, 1e-3)
cvode = h.CVode()
plain = None
found = {}

def look(name):
    global plain
    h.finitialize(-65)
    lines = listed()
    message = refusal(clhines.neuron.run, 1, engine="reference")
    assert (h.t == 0) == bool(lines), name
    h.finitialize(-65)
    h.continuerun(1)
    differs = plain is not None and not np.array_equal(plain, np.array(v))
    if plain is None:
        plain = np.array(v)
    found.setdefault(name, []).append([lines, message, differs])

def between(name, begin, end):
    begin()
    look(name)
    end()
    look("plain")

def redefine(text):
    return lambda: h(text)

def transit():
    global states, source
    states = h.StateTransitionEvent(2)

def forget():
    global states
    states = None

look("plain")
between("advance() of the model's own",
        redefine("proc advance() { fadvance() forall { v = v + 0.1 } }"),
        redefine("proc advance() { fadvance() }"))
h("objref shown, other")
h("shown = new Graph(0)")
h("other = new Shape(0)")
h("objref third")
h("third = new Graph(0)")
for changed in ("shown.plot(t)\\n v = v + 0.1", "shown.plot(v = v + 0.1)"):
    between("advance() of the model's own",
            redefine("proc advance() {\\n fadvance()\\n " + changed + "\\n}"),
            redefine("proc advance() {\\n fadvance()\\n shown.plot(t)\\n shown.flush()\\n}"))
for drawing in ("shown.plot(t)", "shown.plot(t)\\n shown.fastflush()\\n doNotify()"):
    redefine("proc advance() {\\n fadvance()\\n " + drawing + "\\n}")()
    look("plain")
for drawn in ("shown.plot(t)\\n fadvance()\\n shown.flush()\\n doNotify()",
              "fadvance()\\n shown.plot(t)\\n shown.flush()\\n other.flush()\\n doNotify()",
              "fadvance()\\n shown.plot(t)\\n third.plot(t)\\n third.flush()\\n other.flush()"):
    redefine("proc advance() {\\n " + drawn + "\\n}")()
    look("plain")
redefine("proc advance() { fadvance() }")()
for taken in ("advance", "fadvance"):
    redefine("proc step() {\\n " + taken + "()\\n shown.plot(t)\\n shown.flush()\\n}")()
    look("plain")
def kept(change, undo):
    # a model that has run goes on only as long as its procedures do nothing else
    for line, said in ("", ""), (change, "step() of the model's own"):
        h(line)
        h.finitialize(-65)
        message = refusal(clhines.neuron.run, 1, engine="reference")
        assert said in message and bool(said) == bool(message), (line, message)
    h(undo)
kept("nstep_steprun = 3", "nstep_steprun = 1")
h("begintemplate Drawer\\n public plot, flush\\n proc flush() {}\\n"
  "proc plot() { execute(\\"forall v = v + 0.1\\") }\\n endtemplate Drawer")
kept("shown = new Drawer()", "shown = new Graph(0)")
own = "if (using_cvode_) { advance() } else for i=1,nstep_steprun { advance() } Plot()"
between("step() of the model's own", redefine("proc step() { advance() forall { v = v + 0.1 } }"),
        redefine("proc step() { local i " + own + " }"))
between("nrn_netrec_state_adjust", lambda: setattr(h, "nrn_netrec_state_adjust", 1),
        lambda: setattr(h, "nrn_netrec_state_adjust", 0))
between("StateTransitionEvent", transit, forget)
def gather():
    raise RuntimeError("a gather is CVode's")
cvode.extra_scatter_gather(1, gather)
look("plain")
cvode.extra_scatter_gather_remove(gather)
def stimulate():
    h.fstim(2)  # the last one stays without values
    h.fstim(0, 0.5, 0.2, 0.5, 0.3, sec=soma)

def excite():
    h.fsyn(1)
    h.fsyn(0, 0.5, 0.2, 0.1, 0.5, -10, sec=soma)

between("fstim", stimulate, lambda: h.fstim(0))
between("fsyn", excite, lambda: h.fsyn(0))
h.fclamp(1, 0.5, sec=soma)
found["fclamp"] = [[listed(), "fclamp", True]]
h.fclamp(0, 0.5, sec=soma)
look("plain")
from neuron import nonvint_block_supervisor
look("plain")
calls = [None] * 11
calls[0] = calls[1] = lambda: None  # called at starts
calls[5] = lambda offset: 0  # for variable steps
nonvint_block_supervisor.register(calls)
look("plain")
nonvint_block_supervisor.unregister(calls)
calls[4] = lambda dt: soma(0.5).__setattr__("v", soma(0.5).v + 0.1)
nonvint_block_supervisor.register(calls)
h.finitialize(-65)
found["nonvint_block_supervisor"] = [[listed(), "nonvint", True]]
nonvint_block_supervisor.unregister(calls)
look("plain")
own = nonvint_block_supervisor.nonvint_block_prototype(lambda method, size, a, b, i: 0)
nonvint_block_supervisor.set_nonvint_block(own)  # in place of the module's
found["nonvint"] = [[listed(), "nonvint", True]]
nonvint_block_supervisor.unset_nonvint_block(own)
print(json.dumps(found))
"""


def test_what_acts_in_each_step_is_rejected_by_name():
    result = printed_by(STEPPING)
    plain = result.pop("plain")
    assert len(plain) > 10
    # removed callbacks have no effect
    assert [lines for lines, *_ in plain] == [[]] * len(plain)
    assert not any(differs for *_, differs in plain)
    rows = [(name, *row) for name, several in result.items() for row in several]
    for name, lines, message, differs in rows:
        assert [line.startswith(name) for line in lines] == [True], (name, lines)
        assert name in message or len(message) < 10, name
        # NEURON's own run is another one, but for an object that waits for nothing
        assert differs or name == "StateTransitionEvent", name


THREADS = """
pc, cvode = h.ParallelContext(), h.CVode()
cells = [make_section(name, "hh") for name in "ab"]
found = []
for count in (1, 2, 1):
    pc.nthread(count)
    h.finitialize(-65)
    lines, called = listed(), []
    h.continuerun(0.1)
    found.append([[line.split(";")[0] for line in lines], h.t > 0.09])

def call():
    called.append(h.t)

cvode.extra_scatter_gather(0, call)
h.finitialize(-65)
clhines.neuron.run(1, engine="reference")
found.append(len(called))
print(json.dumps(found))
"""


def test_neuron_steps_several_threads_of_a_model_that_was_read():
    """NEURON cannot step several threads while a list of per-step functions exists."""
    one, several = [[], True], [["threads of NEURON"], True]
    assert printed_by(THREADS) == [one, several, one, 40]


RXD = """
from neuron import rxd
soma = h.Section(name="soma")
h.finitialize(-65)
found = [listed()]  # the module alone does nothing
region = rxd.Region([soma], name="cytosol", nrn_region="i")
calcium = rxd.Species(region, name="ca", charge=2)
found.append(listed())
h.finitialize(-65)
found.append(listed())
print(json.dumps(found))
"""


@pytest.mark.filterwarnings("ignore")
def test_rxd_is_rejected_by_its_species():
    before, *after = printed_by(RXD.replace("from neuron import rxd", "warnings.resetwarnings()\n"
                                           "from neuron import rxd"))  # fmt: skip
    assert before == []
    for lines in after:
        assert any(line.startswith("rxd: species ca") for line in lines)


NAMED = """
soma = make_section("soma", "hh")
synapse, stim = h.ExpSyn(soma(0.5)), h.NetStim()
netcon = h.NetCon(stim, synapse)
at = h.Vector([0, 1])
h("mine = 1")
references = [
    ("i_cap", soma(0.5)._ref_i_cap), ("diam", soma(0.5)._ref_diam), ("cm", soma(0.5)._ref_cm),
    ("dt", h._ref_dt), ("celsius", h._ref_celsius), ("mine", h._ref_mine),
]
for reference in (netcon._ref_weight[0], netcon._ref_delay):
    references.append(("a variable of a NetCon or another object", reference))
found = {"names": [name for name, _ in references], "record": [], "play": [], "statement": []}

def look(kind):
    h.dt = 0.025  # a playing Vector has set it to 0
    h.finitialize(-65)
    found[kind].append(listed())

for _, reference in references:
    vector = h.Vector().record(reference)
    look("record")
    vector.play_remove()
    vector = h.Vector([0, 1])
    vector.play(reference, at, 1)
    look("play")
    vector.play_remove()
for words in ((at,), (0.1,), (at, 1)):
    vector = h.Vector([0, 1])
    vector.play("mine = $1", *words)
    look("statement")
    vector.play_remove()
netcon = h.NetCon(soma(0.5).hh._ref_gnabar, synapse, sec=soma)
h.finitialize(-65)
found["source"] = listed()
print(json.dumps(found))
"""


def test_records_and_plays_of_what_is_not_simulated_name_it():
    result = printed_by(NAMED)
    for kind, word in (("record", "of"), ("play", "into")):
        for name, lines in zip(result["names"], result[kind], strict=True):
            assert [line.split(";")[0] for line in lines] == [f"Vector.{kind} {word} {name}"]
    assert result["statement"] == [["Vector.play of a statement; play into a variable"]] * 3
    assert [line.split(";")[0] for line in result["source"]] == ["NetCon of hh.gnabar"]


PIECES = """
pc = h.ParallelContext()
pieces = [h.Section(name=name) for name in "ab"]
for piece in pieces:
    piece.L, piece.diam, piece.nseg = 50, 5, 3
    piece.insert("hh")
clamp = with_values(h.IClamp(pieces[0](0.5)), amp=0.3, dur=3)
v = [h.Vector().record(piece(0.5)._ref_v) for piece in pieces]
found = []

def look():
    h.finitialize(-65)
    lines, ours, message = listed(), [], ""
    try:
        clhines.neuron.run(5, engine="reference")
        ours = [list(values) for values in v]
    except clhines.InputError as error:
        message = str(error)
    h.finitialize(-65)
    h.continuerun(5)
    found.append([lines, message, ours, [list(values) for values in v]])

for end, piece in enumerate(reversed(pieces)):
    pc.multisplit(end, 1, sec=piece)
pc.multisplit()
look()
pc.gid_clear(2)
look()
pc.multisplit(1, 1, sec=pieces[0])  # named, and not set up
look()
print(json.dumps(found))
"""


def test_pieces_joined_by_multisplit_are_rejected():
    """NEURON joins the sections into one cell; without multisplit, the second stays at rest."""
    (lines, message, _, joined), *others = printed_by(PIECES)
    assert [line.split(";")[0] for line in lines] == ["ParallelContext.multisplit"]
    assert "ParallelContext.multisplit" in message and np.ptp(joined[1]) > 50
    for lines, _, ours, theirs in others:  # `gid_clear` takes it out, as the message says
        assert lines == [] and np.ptp(theirs[0]) > 50 > 1 > np.ptp(theirs[1])
        off = np.abs(np.subtract(ours, theirs)).max()
        assert off < 1e-9 * np.abs(theirs).max()  # as in `test_run`


ORDER = """
pc = h.ParallelContext()
soma, *others = sections = [h.Section(name=name) for name in "sabct"]
for section in others[:-1]:  # the last one is a cell of its own
    section.connect(soma(1))
for section in sections:
    section.L, section.diam, section.nseg = 50, 5, 3
    section.insert("hh")
clamp, synapse = with_values(h.IClamp(soma(0.5)), amp=0.3, dur=3), h.ExpSyn(others[1](0.9))
netcon = h.NetCon(soma(0.5)._ref_v, synapse, sec=soma)
netcon.weight[0] = 0.01
v = [h.Vector().record(section(0.9)._ref_v) for section in sections]
found = []
for order in (0, 1, 2, 0):
    pc.optimize_node_order(order)
    for stop in (0, 4, 8):  # NEURON's own run, half of one, and a whole one
        h.finitialize(-65)
        lines = listed()
        clhines.neuron.run(stop, engine="reference") if stop else None
        h.continuerun(8)
        found.append([lines, [list(values) for values in v]])
print(json.dumps(found))
"""


def test_orders_of_nodes_run():
    result = printed_by(ORDER)
    assert len(result) == 12 and not any(lines for lines, _ in result)
    truth, *others = (np.array(v) for _, v in result)
    assert np.ptp(truth[0]) > 50
    for other in others:
        assert np.abs(other - truth).max() < 1e-9 * np.abs(truth).max()  # as in `test_run`


TEMPLATES = """
h('''
begintemplate Pushes
public held
proc initial() { held = 0 }
proc after_step() { held += 1  v($1) += 0.1 }
endtemplate Pushes
begintemplate Hides
public x
x = 1
endtemplate Hides
''')
soma = make_section("soma", "hh", L=20, diam=20)
v = h.Vector().record(soma(0.5)._ref_v)
found = {}

def look(name):
    h.finitialize(-65)
    lines, message = listed(), ""
    message = refusal(clhines.neuron.run, 1, engine="reference")
    same = (h.t > 0) == (not lines)
    h.finitialize(-65)
    h.continuerun(1)
    found[name] = [lines, message, same, list(v)]

look("plain")
h.make_mechanism("pushes", "Pushes", "held")
look("made")
soma.insert("pushes")
look("density")
soma.uninsert("pushes")
look("uninserted")
h.make_pointprocess("Pushes", "held")
look("made, point")
point = h.Pushes(soma(0.5))
look("point")
point = None
look("removed")
h.make_pointprocess("Hides", "x")
look("hides")
print(json.dumps(found))
"""


def test_mechanisms_that_hoc_makes_of_templates_are_rejected_by_name():
    result = printed_by(TEMPLATES)
    assert all(same for _, _, same, _ in result.values())
    plain = result["plain"][-1]
    starts = {
        "density": "pushes: pushes, a mechanism without NMODL, in section soma;",
        "point": "Pushes: Pushes, a mechanism without NMODL;",
        "hides": "Hides: variable x of a make_pointprocess mechanism hides the variable of",
    }
    for name, (lines, message, _, v) in result.items():
        assert [line.startswith(starts.get(name, "?")) for line in lines] == [True] * (
            name in starts
        )
        assert starts.get(name, "") in message
        # an instance changes NEURON's own run, too
        assert (v == plain) == (name not in ("density", "point")), name


UNSEEN = """
from clhines.neuron.read import hooks

soma = make_section("soma", "hh")
seen = hooks.entries_of
hooks.entries_of = lambda name: None if name == "random_play_list_" else seen(name)
found = []
for make in (list, h.Random):
    kept = make()
    h.finitialize(-65)
    try:
        clhines.neuron.run(0.1)
        found.append("runs")
    except clhines.InputError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def test_a_random_that_may_play_is_rejected_where_that_cannot_be_seen():
    without, with_one = printed_by(UNSEEN)
    assert without == "runs"
    assert "Random, which may play: Random.play cannot be seen" in with_one
