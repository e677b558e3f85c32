"""Models with an `advance()` or `step()` of their own, run by NEURON and by the switch."""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from neuron import h

import clhines
from clhines.neuron.read.hooks import standard

warnings.simplefilter("error")
STOP, SEED = 12.0, 7
MODEL = """
objref soma_clamp, synapse, fast, count, stim, wire, other, times, rec, seen, file, list, acc
objref played, level, mixed, vecs[2], none, drawn, reference, ticks
strdef text, path
create soma, dend
connect dend(0), soma(1)
soma {
    L = 20
    diam = 20
    insert hh
    soma_clamp = new IClamp(0.5)
    count = new APCount(0.5)
}
dend {
    L = 100
    diam = 2
    nseg = 3
    insert pas
    synapse = new Exp2Syn(0.3)
    fast = new ExpSyn(0.7)
    reference = new SectionRef()
}
soma played = new IClamp(0.5)
played.dur = 100
level = new Vector(4)
level.indgen(0, 0.01)
{ level.play(&played.amp, 3) }
soma_clamp.amp = 0.5
soma_clamp.dur = 100
soma_clamp.del = 1
stim = new NetStim()
stim.interval = 2
stim.noise = 1
stim.number = 100
stim.start = 0
wire = new NetCon(stim, synapse)
wire.weight = 0.01
wire.delay = 1.3
other = new NetCon(stim, fast)
other.weight = 0.002
other.delay = 0.7
times = new Vector()
wire.record(times)
rec = new Vector()
{ rec.record(&soma.v(0.5)) }
seen = new Vector()
vecs[0] = new Vector(3)
vecs[1] = new Vector(3)
file = new File()
drawn = new Graph(0)
begintemplate Total
public add, sum, calls, name, own
strdef name
objref own
proc init() {
    sum = 0
    calls = 0
    own = new Vector(2)
}
proc add() {
    sum = sum + $1
    calls = calls + 1
    own.x[1] = sum
    sprint(name, "%d calls", calls)
}
endtemplate Total
acc = new Total()
list = new List()
{ list.append(acc) }
double table[5]
highest = -1000
spikes = 0
ticks = new Vector()
{ ticks.record(&spikes) }
func is_up() { if ($1 >= 0) { return 1 }
    return 0
}
proc note() { local k
    k = int($1) % 5
    table[k] = table[k] + soma.ina(0.5)
    if (k == 2) { vecs[1].x[2] += dend.v(0.5) }
}
"""
BODIES = {  # a step's code, which leaves what it finds in `seen`
    "reads": """proc advance() { local last, k
        last = soma.v(0.5)
        fadvance()
        if (is_up(soma.v(0.5)) && !is_up(last)) { spikes = spikes + 1 }
        if (dend.v(0.5) > highest) highest = dend.v(0.5)
        note(t*10)
        seen.append(soma.m_hh(0.5), synapse.g, count.n, soma_clamp.i, t, dend.v(1), last)
        seen.append(count.time)
        for k = 0, list.count() - 1 { list.o(k).add(synapse.i) }
        forall for (x) { acc.sum += v(x) + diam(x) }
        access dend
        spikes += v(synapse.get_loc())/100
        pop_section()
        seen.append(reference.sec.v(0.1), soma.ik(0.5), soma.ena(0.5), soma.gna_hh(0.5), acc.sum)
        sprint(text, "%.1f", t)
    }""",
    "step": """proc step() {
        seen.append(soma.v(0.5), t)
        advance()
        seen.append(soma.v(0.5), t, dt, soma.L, soma.gnabar_hh, synapse.tau1, soma.cm(0.5))
        soma sprint(text, "%s %g %g", secname(), reference.sec.L, area(0.5))
        drawn.plot(t)
        Plot()
        doNotify()
    }
    proc advance() { fadvance() spikes += 1 }""",
    "plots": """proc Plot() {
        seen.append(t, dend.v(0.5), soma.h_hh(0.5))
        spikes += is_up(soma.v(0.5))
    }
    proc flushPlot() { seen.append(-1, t, soma.v(0.5)) }""",
    "prints": """proc advance() {
        fadvance()
        if (soma.v > -20) { file.printf("%.17g %.6g\\n", t, soma.v) }
        seen.append(spikes)
        if (t > 3.99) { return }
        spikes += soma.v
    }""",
    "stops": """proc advance() {
        seen.append(t)
        spikes = soma.v
        fadvance()
        spikes += soma.v
        if (t > 5.3 && soma.v > -40) { stoprun = 1 }
    }""",
    "stops at the last": """proc advance() {
        fadvance()
        seen.append(t)
        if (t > 11.98) { stoprun = 1 }
    }""",
}
REFUSED = {  # code, and what is said of it
    "v = -60": "sets v", "soma.v(0.5) = -60": "sets v", "soma { v(0.5) = v }": "sets v",
    "dend.v(0:1) = 1:2": "sets v", "t = 0": "sets t", "dt = 0.1": "sets dt",
    "nstep_steprun = 2": "sets nstep_steprun", "celsius = 3": "sets celsius",
    "soma_clamp.amp = 1": "sets IClamp.amp", "soma.gnabar_hh = 1": "sets gnabar_hh",
    "finitialize(-65)": "calls finitialize()", "fcurrent()": "calls fcurrent()",
    "fadvance()": "takes several steps", "forall { v += 1 }": "sets v",
    "execute(\"v = 1\")": "calls execute()", "execute1(\"v = 1\")": "calls execute1()",
    "seen.play(&soma.v(0.5))": "takes the address of v",
    "seen.record(&soma.v(0.5))": "takes the address of v", "none = seen": "sets an objref",
    "none = new Vector()": "makes a new Vector", "seen = none": "sets an objref",
    "rec.append(1)": "uses a Vector that records", "spikes = rec.size()": "a Vector that records",
    "spikes = rec.x[0]": "uses a Vector that records", "times.resize(0)": "a Vector that records",
    "spikes = fast.g": "reads g of ExpSyn, which events of ExpSyn set late in a step",
    "spikes = stim.ispike": "uses NetStim.ispike",
    "wire.weight = 1": "uses NetCon.weight", "spikes = wire.weight": "uses NetCon.weight",
    "spikes = soma.nseg \\n soma.nseg = 3": "sets nseg", "soma.L = 30": "sets L",
    "none = wire \\n none.active(0)": "sets an objref", "other.active(0)": "uses NetCon.active",
    "drawn = wire": "sets an objref", "other = stim": "sets an objref",
    "stim.seed(1)": "calls NetStim.seed()",
    "nrnpython(\"1\")": "calls nrnpython()", "soma insert pas": "inserts pas",
    "spikes = usetable_hh": "reads usetable_hh, which a step may change",
    "seen.x[0] = fast.i + fast.g": "reads g of ExpSyn", "other_step()": "takes several steps",
    "soma_clamp.loc(0.1)": "calls IClamp.loc()", "vecs[0].copy(vecs[1])": "calls Vector.copy()",
    "vecs[0].append(rec)": "uses a Vector that records", "load_file(\"no\")": "calls load_file()",
    "cvode_active(1)": "uses CVode.", "acc.own = seen": "sets Total.own",
    "spikes = played.amp": "reads amp of IClamp, which Vector.play sets",
    "spikes = mixed.o(0).size": "uses List.o() of objects that are Python's",
}  # fmt: skip
OTHERS = {  # whole procedures
    "proc advance() { if (t < 3) { fadvance() } }": "takes a step that depends on a condition",
    "proc advance() { local k  for k = 1, 2 { fadvance() } }": "takes a step that depends",
    "proc advance() { if (t > 3) { return } fadvance() spikes = 1 }": "depends on a condition",
    "proc advance() { spikes = 1 }": "takes no step by fadvance()",
    "proc step() { advance() v = 1 }": "sets v",
    "proc Plot() { soma.gnabar_hh = 1 }": "sets gnabar_hh",
    "proc step() { local i  for i = 1, 1 { advance() } spikes += 1 }": "takes a step that depends",
}
DRAWS = """
objref random, noise, cvode, handler
soma noise = new IClamp(0.5)
noise.dur = 100
random = new Random()
random.Random123(1, 2, 3)
random.uniform(0, 0.04)
{ random.play(&noise.amp) }
cvode = new CVode()
proc kick() {
    spikes = spikes + 1
    seen.append(-spikes)
    cvode.event(t + 1.3, "kick()")
}
handler = new FInitializeHandler("cvode.event(1.1, \\"kick()\\")")
proc advance() {
    fadvance()
    seen.append(t, soma.v(0.5), spikes, soma_clamp.amp)
    if (t > 9 && soma.v > -30) { stoprun = 1 }
}
"""
PLAIN = "proc advance() { fadvance() }"
STEP = "proc step() { local i if (using_cvode_) { advance() } else for i=1,nstep_steprun {"
STEP += " advance() } Plot() }"
BEGIN = """
seen.resize(0)
highest = -1000
spikes = 0
acc.sum = 0
acc.calls = 0
acc.own.fill(0)
acc.name = ""
text = ""
for k = 0, 4 { table[k] = 0 }
for k = 0, 1 { vecs[k].fill(0) }
"""


def build():
    h.load_file("stdrun.hoc")
    assert h(MODEL)
    h.mixed = h.List()
    h.mixed.append(np.ones(1))
    h("proc other_step() { fadvance() }")
    h("proc begin() { local k\n" + BEGIN + "}")
    h.stim.noiseFromRandom123(SEED, 0, 0)
    run(STOP)  # some variables keep what an earlier run has left


def put_back():
    """Make procedures those of stdrun.hoc again."""
    h(PLAIN)
    h(STEP)
    for name in ("Plot", "flushPlot"):
        h(standard(h, name))


def state():
    """Everything that the code and the run have left."""
    cells = [x.v for s in (h.soma, h.dend) for x in s.allseg()]
    cells += [h.soma(0.5).m_hh, h.synapse.A, h.fast.g, h.count.n, h.soma(0.5).ina, h.t, h.stoprun]
    numbers = [h.highest, h.spikes, h.acc.sum, h.acc.calls, *(h.table[k] for k in range(5))]
    vectors = [h.seen, h.rec, h.times, h.vecs[0], h.vecs[1], h.acc.own, h.ticks]
    return [*(np.array(v) for v in vectors), np.array(cells), np.array(numbers)]


def run(*stops):
    h.begin()
    h.stdinit()
    for stop in stops:
        h.continuerun(stop)
    written = ""
    return state(), [h.text, h.acc.name, written]


def printed(path, *stops):
    h.file.wopen(str(path))
    found = run(*stops)
    h.file.close()
    found[1][-1] = path.read_text()
    return found


def differ(a, b):
    """The largest difference; -1 where lengths or texts differ."""
    if a[1][:2] != b[1][:2] or any(x.shape != y.shape for x, y in zip(a[0], b[0], strict=True)):
        return -1.0
    return max(float(np.abs(x - y).max(initial=0.0)) for x, y in zip(a[0], b[0], strict=True))


def runs(engine):
    build()
    folder, found = Path(tempfile.mkdtemp()), {}
    ways = {"whole": (STOP,), "pieces": (2.3, 7.0, STOP)}
    for name, body in BODIES.items():
        h(body)
        truth = {way: printed(folder / "neuron", *stops) for way, stops in ways.items()}
        with clhines.neuron.enable(engine=engine) as on:
            ours = {way: printed(folder / "here", *stops) for way, stops in ways.items()}
            steps = on.steps
        put_back()
        sizes = [len(x) for x in truth["whole"][0]]
        apart = [differ(truth[way], ours[way]) for way in ways]
        end = truth["whole"][0][-2]
        texts = [sum(t[1][-1].count("\n") for t in x.values()) for x in (truth, ours)]
        taken = [len(truth[way][0][1]) - 1 for way in ways]  # steps that NEURON has recorded
        found[name] = {"apart": apart, "steps": steps, "sizes": sizes, "t": float(end[-2]),
                       "stoprun": float(end[-1]), "lines": texts, "taken": taken}  # fmt: skip
    return found


def asked(code):
    """What is said of a model with some code, by check() and a run; whether all stays."""
    h(code)
    h.stdinit()
    said = [str(r) for r in clhines.neuron.check()]
    try:
        clhines.neuron.run(1, engine="reference")
        message = ""
    except clhines.InputError as error:
        message = str(error)
    put_back()
    return [said, message, h.t]


def refused(_):
    build()
    found = []
    for line, said in REFUSED.items():
        text = f"proc advance() {{\n fadvance()\n {line}\n}}".replace("\\n", "\n")
        found.append([line, said, *asked(text)])
    for text, said in OTHERS.items():
        found.append([text, said, *asked(text)])
    return found


def stopped_between_draws(engine):
    """Runs that code stops, with a Random that plays and a statement of CVode.event; NEURON's."""
    assert h(DRAWS)
    ways = []
    for switch in (False, True):
        with clhines.neuron.enable(engine=engine) if switch else warnings.catch_warnings():
            h.begin()
            h.random.seq(5)
            h.stdinit()
            found = []
            for stop in (15, 15.5):
                h.continuerun(stop)
                found += [np.array(h.seen), np.array([h.t, h.random.seq(), h.soma(0.5).v])]
        ways.append((found, ["", ""]))
    h(PLAIN)
    return [differ(*ways), float(ways[0][0][1][0]), len(ways[0][0][0])]


def read_by_code():
    """Numbers of nodes whose voltages some code reads, and what they should be."""
    from clhines.neuron.reading import read_model

    found = []
    for line in ("soma.v", "dend.v(0.5)", "dend.v(1)", "dend.v(spikes)", "soma.v + dend.v(0.2)",
                 "dend.v(soma.L/100)", "reference.sec.v"):  # fmt: skip
        h(f"proc advance() {{ fadvance() spikes = {line} }}")
        h.stdinit()
        model = read_model(h, {})
        one = {"soma.v": [h.soma(0.5)], "dend.v(0.5)": [h.dend(0.5)], "dend.v(1)": [h.dend(1)],
               "soma.v + dend.v(0.2)": [h.soma(0.5), h.dend(0.2)]}  # fmt: skip
        nodes = sorted({v.number for v in model.stepping.reads.values()})
        of = one.get(line)
        every = list(range(model.tree.num_nodes))
        found.append([line, nodes, every if of is None else sorted(model.tree.at(x) for x in of)])
    return found


def others(engine):
    """What is left of errors, of psolve, of times below 0, and of many steps in blocks."""
    build()
    h("proc advance() {\n fadvance()\n seen.append(soma.v)\n if (t > 3) { vecs[0].x[7] = 1 }\n}")
    found = {"error": []}
    for switch in (True, False):
        with clhines.neuron.enable(engine=engine) if switch else warnings.catch_warnings():
            h.begin()
            h.stdinit()
            try:
                h.continuerun(STOP)
            except RuntimeError:
                found["error"].append([h.t, len(h.seen), h.soma(0.5).v])
    h.stdinit()
    with clhines.neuron.enable(engine=engine):
        found["after"] = bool(h("proc advance() { fadvance() }"))
        h.continuerun(1)
        found["goes on"] = h.t
    h("proc advance() { fadvance() \n v = v \n}")
    pc = h.ParallelContext()
    pc.set_maxstep(10)
    with clhines.neuron.enable(engine=engine) as on:
        h.stdinit()
        pc.psolve(2)
        found["psolve"] = [h.t, on.steps]
    h(BODIES["reads"])
    rows = []
    for switch in (False, True):
        with clhines.neuron.enable(engine=engine) if switch else warnings.catch_warnings():
            h.begin()
            h.stdinit()
            h.t = -0.5
            h.continuerun(1)
            rows.append((state(), ["", "", ""]))
    found["early"] = [differ(*rows), len(rows[0][0][0])]
    try:
        h.stdinit()
        clhines.from_neuron()
    except clhines.InputError as error:
        found["from_neuron"] = str(error)
    from clhines.neuron.read import played

    found["read"] = read_by_code()
    h(BODIES["reads"])
    played._MOST_NUMBERS = 400  # a few steps in a block
    truth = run(STOP)
    with clhines.neuron.enable(engine=engine) as on:
        found["blocks"] = [differ(truth, run(STOP)), on.steps]
    played._MOST_NUMBERS = 1 << 22
    found["draws"] = stopped_between_draws(engine)
    return found


LOOP = """
objref sums
create soma
soma insert pas
total = 0
sums = new Vector()
{ sums.record(&total) }
proc loop() {
    total = 0
    stdinit()
    while (t < 3 - dt/2) {
        fadvance()
        total += soma.v
    }
}
"""


def loop(_):
    """What a Vector has of a number that a loop around ``fadvance`` changes, by NEURON and here."""
    h.load_file("stdrun.hoc")
    assert h(LOOP)
    found = []
    for switch in (False, True):
        with clhines.neuron.enable() if switch else warnings.catch_warnings():
            h.loop()
        found.append(list(h.sums)[1:])
    return found


if __name__ == "__main__":
    parts = {"runs": runs, "refused": refused, "others": others, "loop": loop}
    print(json.dumps(parts[sys.argv[1]](sys.argv[2])))
