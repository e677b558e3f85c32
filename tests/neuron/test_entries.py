"""`entries.json` classifies every name that hoc knows, and every member of its classes.

A group says whether its entries run, are refused, or have no effect on a run, and which test shows
it. An entry of the installed NEURON that the table lacks fails here.
"""

import json
from pathlib import Path

import pytest
from forked import result_of

pytestmark = pytest.mark.neuron
ROOT = Path(__file__).parents[2]
TABLE = json.loads((Path(__file__).parent / "entries.json").read_text("utf-8"))
VERDICTS = {"runs", "refused", "no effect"}


def _words(by_group):
    return [word for words in by_group.values() for word in words.split()]


def test_the_table_has_all_that_the_installed_neuron_has():
    program = Path(__file__).with_name("neuron_entries.py")
    installed = result_of(program)
    assert len(installed) > 50 and len(installed[""]) > 300 and "play" in installed["Vector"]
    for name, members in installed.items():
        words = _words(TABLE["entries"].get(name, {}))
        assert not {*members} - {*words}, f"of {name or 'hoc'}: not in entries.json"
        assert len(words) == len({*words}), f"of {name or 'hoc'}: classified twice"
    assert {*installed} <= {*TABLE["entries"]}


def test_groups_name_the_test_that_shows_them():
    used = {group for groups in TABLE["entries"].values() for group in groups}
    assert used == {*TABLE["groups"]}
    for name, group in TABLE["groups"].items():
        assert group["verdict"] in VERDICTS, name
        file, test = group["shown by"].split("::")
        assert f"\ndef {test}(" in (ROOT / file).read_text("utf-8"), name


NO_EFFECT = '''
soma = make_section("soma", "hh", L=20, diam=20)
clamp, v = h.IClamp(soma(0.5)), h.Vector().record(soma(0.5)._ref_v)
clamp.delay, clamp.dur, clamp.amp = 1, 5, 0.3
stim, synapse = h.NetStim(), h.ExpSyn(soma(0.2))  # spikes at random
stim.interval, stim.number, stim.noise, stim.start = 1, 1e9, 1, 0
netcon = h.NetCon(stim, synapse, 0, 1, 1e-3)
found = []

def look():
    h.finitialize(-65)
    lines = listed()
    clhines.neuron.run(8, engine="reference")
    ours = list(v)
    h.finitialize(-65)
    h.continuerun(8)
    found.append([lines, ours, list(v)])

look()
# functions
h("x = sin(1) + exp(2) + abs(-3) + int(2.5) + log(3) + log10(4) + sqrt(5) + tanh(1) + erf(0.5)")
h('strdef text\\nsprint(text, "%g", x)\\nif (strcmp(text, "a") < 0) { x = 2 } else { x = 3 }')
h("proc nothing() {local i for i=0,3 { x = x + i } while (x > 3) { x = x - 1 } }\\nnothing()")
h("objref list\\nlist = new List()\\nfunc twice() { return 2*$1 }\\nx = twice(3)")
h("begintemplate Holds\\npublic a\\na = 1\\nendtemplate Holds\\nobjref held\\nheld = new Holds()")
a = h.Vector([3, 1, 2, 5]).sort().mul(2).add(1)
a.fft(h.Vector(4), 1), a.hist(h.Vector([1, 2]), 0, 2, 1), a.mean(), a.interpolate(a.c(), a.c(), a)
b = h.Vector([3, 1, 2, 5])
b.indwhere("==", 3), b.median(), b.stdev(), b.rotate(1), b.where(">", 1)
m = h.Matrix(2, 2)
m.ident(), m.inverse(), m.mulv(h.Vector([1, 2])), m.transpose(), m.det(h.ref(0))
random = h.Random(3)
random.Random123(1, 2, 3), random.uniform(0, 1), random.repick(), random.negexp(1), random.repick()
assert h.use_mcell_ran4() == 0
h.use_mcell_ran4(1), h.mcell_ran4_init(7), h.mcell_ran4(h.ref(5.0), h.ref(0.0), 1)
assert h.use_mcell_ran4() == 1
h("""first = second = 0
proc equations() {
    eqinit()
    depvar first, second
    first = second = 0
    eqn first:: first + second = 5
    eqn second:: first - second = 1
    solve()
}
equations()""")
assert (h.first, h.second) == (3, 2)
words = h.StringFunctions()
words.len("text"), words.head("text", "e", h.ref(""))
z = h.Impedance()
z.loc(0.5, sec=soma), z.compute(10), z.input(0.5, sec=soma)
h.nrnversion(), h.startsw(), h.stopsw(), h.issection("soma"), h.secname(sec=soma)
h.nernst(1, 2, 1), h.ghk(-65, 1, 2, 1), h.area(0.5, sec=soma), h.ri(0.5, sec=soma)
h.use_exp_pow_precision(0), h.nrn_feenableexcept(0), h.name_declared("soma"), h.units("v")
pc, cvode = h.ParallelContext(), h.CVode()
pc.id(), pc.nhost(), pc.time(), pc.step_time(), pc.integ_time(), pc.timeout(0), pc.wait_time()
cvode.structure_change_count(), cvode.spike_stat(h.Vector()), cvode.poolshrink(0)
cvode.cache_efficient(1), cvode.debug_event(0), cvode.print_event_queue(h.Vector())
look()
# variable steps, which are off
cvode.atol(1e-5), cvode.rtol(1e-3), cvode.maxorder(3), cvode.minstep(0), cvode.maxstep(1)
cvode.stiff(2), cvode.jacobian(0), cvode.condition_order(2), cvode.use_long_double(0)
look()
# graphics
graphs = [h.Graph(0) for _ in range(3)]
for graph in graphs:
    graph.size(0, 8, -80, 40), graph.beginline(), graph.line(1, 2), graph.flush(), graph.erase()
shape, plot, box = h.Shape(0), h.PlotShape(0), h.VBox()
box.intercept(1)
h.xpanel("panel"), h.xlabel("label"), h.xbutton("button", "x = 1"), h.xpanel()
box.intercept(0)
h.doNotify(), h.doEvents()
rows = h.RangeVarPlot("v")
look()
print(json.dumps(found))
'''


def test_what_has_no_effect():
    """Call some of each family before a run: it stays the same to the bit, as in NEURON."""
    (lines, ours, theirs), *others = result_of(NO_EFFECT)
    assert lines == [] and max(theirs) > 0  # it spikes
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-9 * 80  # `test_run`'s
    assert len(others) == 3 and all(other == [[], ours, theirs] for other in others)
