"""Loops around fadvance, with the switch off and on: ``loops_program.py WHAT ENGINE``."""

import json
import sys
import tempfile
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.kept_program import Net, h, worst

import clhines
from clhines.neuron import enable
from clhines.neuron.read.hooks import standard

STOP = 8.0
CHANGED = 2.0
h.load_file("stdrun.hoc")
h("objref seen\nseen = new Vector()")
h("proc hoc_loop() { while (t < $1) { fadvance()  seen.append(t) } }")
h("proc hoc_steps() { while (t < $1) { steprun()  seen.append(t) } }")
h("objref near, clamp, s0, s1, d1")
h("""proc hoc_reading() {
    while (t < $1) {
        fadvance()
        seen.append(s0.sec.v(0.5), s0.sec.m_hh(0.5), d1.sec.i_pas(0.3), near.g, clamp.i)
        if (t > $2 && t < $2 + 1.5 * dt) { clamp.amp = 0.15  s1.sec.v(0.5) = -60 }
    }
}""")
h("""proc hoc_executing() {
    while (t < $1) {
        fadvance()
        if (t > 4 && t < 4 + 1.5 * dt) {
            execute("seen.append(s1.sec.h_hh(0.5), s1.sec.ik(0.5))")
            fcurrent()
            seen.append(s1.sec.ina(0.5))
        }
    }
}""")
h("objref python")
h("proc hoc_pointer() { while (t < $1) { fadvance()  seen.append($&2) } }")
h("objref along, profile\nprofile = new Vector()")
h("""proc hoc_along() {
    while (t < $1) { fadvance()  along.to_vector(profile)  seen.append(profile.sum()) }
}""")
h("proc hoc_vother() { fadvance()  seen.append(near.vother) }")
h("proc hoc_current() { while (t < $1) { fadvance()  seen.append(near.i, s0.sec.v(0.5)) } }")
h("objref shown")
h("proc hoc_drawing() { while (t < $1) { fadvance()  shown.plot(t)  seen.append(s0.sec.v(0.5)) } }")
h("func hoc_m() { return s0.sec.m_hh(0.5) }")
h("proc hoc_last() { seen.append(s0.sec.n_hh(0.5), near.g, d1.sec.v(0.3), hoc_m()) }")
h("proc hoc_by_python() { while (t < $1) { python.step()  hoc_last() } }")
h("""proc hoc_reads_file() {
    while (t < $1) { fadvance() }
    xopen($s2)
    if ($1 < 2) hoc_reads_file($1 + 1, $s2)
}""")
LATER = """
while (t < 2.99) { fadvance() }
{hoc_last()}
while (t < 3.99) { fadvance() }
{seen.append(s1.sec.h_hh(0.5), s1.sec.ik(0.5))}
"""
h("""begintemplate Named
public s, other
objref s
proc init() { s = $o1 }
endtemplate Named
begintemplate Unnamed
public other
proc init() { other = 1 }
endtemplate Unnamed
objref named, own, wires, wire""")
ADVANCE = """proc advance() {
    fadvance()
    seen.append(d1.sec.v(0.3), s0.sec.m_hh(0.5), near.g, t, own.x[own.size() - 1])
    if (%s) { wire = wires.o(1)  wire.weight[0] *= 1.1  wire = wires.o(0)
        clamp.amp += 0.001  s1.sec.v(0.5) = -60  s0.sec { v(0.5) += 0.1 } %s }
}"""
OWN = "proc continuerun() { while (t < $1) { step()  seen.append(t) } }"


class Read(Net):
    """What is read of it in each step."""

    def __init__(self):
        super().__init__()
        h.CVode().use_fast_imem(1)
        self.numbers = h.Vector()
        self.netcons[0].record(h.Vector(), self.numbers)
        self.by_hand = h.NetCon(None, self.synapses[2], 0, 0, 0.1)
        self.rows = []
        h.s0, h.s1, h.d1 = (h.SectionRef(x) for x in (*self.somas[:2], self.dends[1]))
        self.file = Path(tempfile.mkdtemp(), "batch")

    def read(self):
        soma, dend, synapse = self.somas[0], self.dends[1], self.synapses[2]
        near = soma(0.5)
        self.rows.append([
            h.t, near.v, near.ina, near.ik, near.ena, near.hh.m, near.hh.h, near.hh.minf,
            near.hh.gna, near.i_membrane_, near.i_cap, near.hh.il, soma(0).v, soma(1).v,
            dend(0.1).v, dend(1).v, dend(0.5).pas.i, synapse.g, synapse.i, synapse.A,
            self.synapses[0].g, self.clamp.i,
            len(self.v[0]), self.v[0][-1], len(self.spikes), len(self.numbers),
            sum(self.spikes) if len(self.spikes) else 0.0,
        ])  # fmt: skip

    def start(self, v=-65):
        self.stim.ranvar.set_ids(1, 2, 3)
        self.stim.ranvar.set_seq(0)
        h.finitialize(v)
        self.rows.append([0.0] * 27)

    def loop(self, stop, do=lambda: None, at=CHANGED):
        done = False
        while h.t < stop - 0.5 * h.dt:
            h.fadvance()
            self.read()
            if not done and h.t > at - 0.5 * h.dt:
                done = True
                do()


def reads(net):
    net.start()
    net.loop(STOP)


def amp(net):
    net.start()
    net.loop(STOP, lambda: setattr(net.clamp, "amp", 0.1))
    net.clamp.amp = 0.2


def voltage(net):
    net.start()
    net.loop(STOP, lambda: setattr(net.somas[1](0.5), "v", -50))


def weight(net):
    net.start()
    for netcon in net.netcons:
        net.loop(h.t + 1.5, lambda n=netcon: n.weight.__setitem__(0, 0.04), h.t + 0.5)
    for netcon in net.netcons:
        netcon.weight[0] = 0.05


def wires(net):
    """Delays and thresholds, by attributes of a class that is not that of all other objects."""
    known = [(n, n.delay, n.threshold) for n in net.netcons]
    net.start()
    net.loop(1.5, lambda: [setattr(n, "delay", d + 1) for n, d, _ in known], 0.8)
    net.loop(STOP, lambda: [setattr(n, "threshold", -40) for n, *_ in known], 2.5)
    for netcon, delay, threshold in known:
        netcon.delay, netcon.threshold = delay, threshold


def sends(net):
    """Events of a NetCon: in the present, and in the middle of a step to come."""
    net.start()
    net.loop(STOP, lambda: [net.by_hand.event(t) for t in (h.t, h.t + 1.0125, h.t + 3)])


def longer(net):
    """A step of another length, and back."""
    net.start()
    net.loop(4, lambda: setattr(h, "dt", 0.05))
    net.loop(STOP, lambda: setattr(h, "dt", 0.025), 6)
    h.dt = 0.025


def often(net):
    """Events in the second half of steps, one after the other, and a change behind them."""
    stim = h.NetStim()
    stim.start, stim.interval, stim.number, stim.noise = 0.021, 0.025, 1e9, 0
    netcon = h.NetCon(stim, net.synapses[2], 0, 0.5, 1e-4)
    net.start()
    net.loop(STOP, lambda: setattr(net.clamp, "amp", 0.1), 5)
    net.clamp.amp = 0.2
    assert netcon.active()


def diameter(net):
    net.start()
    net.loop(STOP, lambda: setattr(net.dends[0](0.5), "diam", 3))
    for segment in net.dends[0]:
        segment.diam = 2


def again(net):
    """Initialised in the middle of a loop."""
    net.start()
    net.loop(4, lambda: net.start(-60), 3)
    net.loop(STOP)


def breaks(net):
    """A loop that ends early, another one, and runs of NEURON's own calls."""
    net.start()
    net.loop(3)
    net.loop(3.5)
    h.continuerun(5)
    net.read()
    net.loop(6)
    h.ParallelContext().set_maxstep(10)
    h.ParallelContext().psolve(7)
    net.read()
    net.loop(STOP)
    h.tstop = 2
    h.run()
    net.read()


def every_step(net):
    """A body that changes the model in each step, for some time."""
    net.start()
    while h.t < STOP - 0.5 * h.dt:
        h.fadvance()
        net.clamp.amp = 0.2 + 0.01 * np.sin(h.t)
        net.read()
    net.clamp.amp = 0.2


def empties(net):
    """A Vector that the body empties in each step."""
    net.start()
    kept = []
    while h.t < STOP - 0.5 * h.dt:
        h.fadvance()
        net.read()
        if len(net.v[1]) > 50:
            kept += list(net.v[1])
            net.v[1].resize(0)
    net.rows.append([sum(kept)] + 26 * [0.0])


def samples(net):
    """Vectors at intervals and at given times; one of them goes in mid-run."""
    near, times = net.somas[1](0.5), h.Vector([0, 0.5, 0.51, 2.9833, 3.3333, 5.0125, 7, 9])
    read = near._ref_v, near._ref_m_hh, net.synapses[2]._ref_i, h._ref_t
    kept = [h.Vector().record(x, how) for x in read for how in (0.025, 0.1, 0.0333, times)]
    gone = [h.Vector().record(near._ref_v)]  # NEURON ends where one at intervals goes
    net.start()
    for until, amp in ((2.5, 0.2), (3, 0.1), (5, 0.15), (STOP, 0.2)):
        while h.t < until - 0.5 * h.dt:
            h.fadvance()
            net.read()
            ends = [x for one in kept for x in (len(one), one[-1])]
            net.rows += [ends[:27], (ends[27:] + 27 * [0.0])[:27]]
            if abs(h.t - 1) < 1e-9:
                gone.clear()
        net.clamp.amp = amp
    h.continuerun(STOP + 2)
    net.rows += [[x] + 26 * [0.0] for one in kept for x in one]


def removes(net):
    """A clamp and a NetCon that go in mid-run; one more clamp goes behind the loop, and a Vector.

    No event of the NetCon is on its way, for which NEURON would end.
    """
    dend = net.dends[2]
    clamps = [h.IClamp(dend(0.5)) for _ in range(2)]
    for clamp in clamps:
        clamp.dur, clamp.amp = 1e9, 0.02
    more = [h.NetCon(net.stim, net.synapses[3], 0, 0.1, 0.03), h.Vector().record(dend(0.5)._ref_v)]
    net.start()
    net.loop(4, clamps.pop, 2)
    more.pop(0)
    net.loop(STOP + 2, lambda: None)
    more.clear()
    clamps.clear()
    net.loop(STOP + 4)


def by_hoc(net):
    net.start()
    h.seen.resize(0)
    for stop in (2, 3.01, STOP):
        h.hoc_loop(stop)
        net.read()
    net.rows += [[t] + 26 * [0.0] for t in h.seen]


def hoc_reads(net):
    """hoc reads variables of segments and of an object, and changes what it reads at one step."""
    h.near, h.clamp = net.synapses[2], net.clamp
    net.start()
    h.seen.resize(0)
    h.hoc_reading(STOP, CHANGED)
    net.clamp.amp = 0.2
    net.read()
    net.rows += [[x] + 26 * [0.0] for x in h.seen]


def hoc_executes(net):
    """hoc runs code that nobody has seen before, and works out currents."""
    net.start()
    h.seen.resize(0)
    h.hoc_executing(STOP)
    net.read()
    net.rows += [[x] + 26 * [0.0] for x in h.seen]


def by_steprun(net):
    h.seen.resize(0)
    h.stdinit()
    net.start()
    h.hoc_steps(STOP)
    net.read()
    net.rows += [[t] + 26 * [0.0] for t in h.seen]


def own_continuerun(net):
    h(OWN)
    h.seen.resize(0)
    h.tstop = STOP
    net.start()
    h.continuerun(STOP)
    net.read()
    h.run()
    net.read()
    net.rows += [[t] + 26 * [0.0] for t in h.seen]
    h(standard(h, "continuerun"))


def own_advance(net, when="t > 2 && t < 2 + 1.5 * dt"):
    """An advance() of the model's own that changes it, and names a member that some lack."""
    h.near, h.clamp = net.synapses[2], net.clamp
    h.named, h.own, h.wires, h.wire = h.List(), net.v[0], h.List(), None
    for netcon in net.netcons:
        h.wires.append(netcon)
    weight = net.netcons[1].weight[0]
    h.named.append(h.Unnamed())
    h.named.append(h.Named(h.s0))
    h(ADVANCE % (when, "named.o(1).s.sec.m_hh(0.5) = 0.2"))
    h.seen.resize(0)
    net.start()
    h.continuerun(3)
    net.read()
    h.continuerun(STOP)
    net.read()
    h(standard(h, "advance"))
    net.clamp.amp, net.netcons[1].weight[0] = 0.2, weight
    net.rows += [[x] + 26 * [0.0] for x in h.seen]


def own_advance_often(net):
    own_advance(net, "t > 1")


def plays(net):
    """A body of hoc that reads what a Vector sets at the end of a step."""
    level = h.Vector([0.2, 0.1, 0.3])
    level.play(net.clamp._ref_amp, 1)
    h.clamp = net.clamp
    h("proc hoc_playing() { while (t < $1) { fadvance()  seen.append(clamp.amp) } }")
    net.start()
    h.seen.resize(0)
    h.hoc_playing(STOP)
    net.read()
    level.play_remove()
    h("proc hoc_playing() { }")
    net.clamp.amp = 0.2
    net.rows += [[x] + 26 * [0.0] for x in h.seen]


def points(net):
    """Bodies of hoc that read by pointers: of an argument, a PtrVector, a Pointer."""
    h("objref pointing, into\ninto = new Vector(1)")
    h("proc hoc_argument() { while (t < $1) { fadvance()  seen.append($&2) } }")
    h("proc hoc_gathers() { while (t < $1) { fadvance()  pointing.gather(into)"
      "  seen.append(into.x[0]) } }")  # fmt: skip
    h("proc hoc_points() { while (t < $1) { fadvance()  seen.append(pointing.val) } }")
    h.seen.resize(0)
    place = net.somas[0](0.5).hh._ref_minf
    net.start()
    h.hoc_argument(STOP, place)
    h.pointing = h.PtrVector(1)
    h.pointing.pset(0, place)
    net.start()
    h.hoc_gathers(STOP)
    h.pointing = h.Pointer(place)
    net.start()
    h.hoc_points(STOP)
    h.pointing = None
    net.read()
    net.rows += [[x] + 26 * [0.0] for x in h.seen]


def raises(net):
    """Exceptions in the body, of Python and of the keyboard, after which it goes on."""
    net.start()
    for error in (KeyError, KeyboardInterrupt):

        def fail(error=error):
            raise error

        try:
            net.loop(STOP, fail, h.t + 1)
        except error:
            pass
    net.loop(STOP)


def solves(net):
    """NEURON's own functions that take steps, and a state that is saved and restored."""
    net.start()
    net.loop(3)
    state = h.SaveState()
    state.save()
    net.loop(4)
    state.restore()
    net.read()
    net.loop(5)
    h.batch_run(6, 0.1, str(net.file))
    net.read()
    net.loop(7)
    net.rows += [[float(len(net.file.read_text()))] + 26 * [0.0]]


def variable(net):
    """Variable steps for a while, whose first guess is of the state that the loop has left."""
    net.start()
    net.loop(3)
    h.CVode().active(1)
    h.CVode().solve(4)
    net.rows += [[round(net.somas[0](0.5).v, 3)] + 26 * [0.0]]
    h.CVode().active(0)
    h.dt = 0.025


def sets_t(net):
    """Time that is set, as after a warm-up by steps of the same length."""
    net.start()
    net.loop(2)
    h.t = 0
    h.frecord_init()
    net.loop(4)


class Stepping:
    """An object of Python's, whose step hoc calls."""

    def step(self):
        h.fadvance()


def by_code(call):
    """Return a case of a loop in which hoc runs some code."""

    def case(net):
        h.near = net.synapses[2]
        h.python = Stepping()
        net.start()
        h.seen.resize(0)
        call(net)
        net.rows += [[x] + 26 * [0.0] for x in h.seen]

    return case


def with_file(call, text):
    """Call it with a file that has a text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "later.hoc")
        file.write_text(text)
        call(str(file))


def with_procedures(step):
    for k in range(4 * 40):
        step()
        h.hoc_last()
        h.seen.append(h.hoc_m() if k % 2 else 0)


CODES = {  # steps of 4 ms
    "pointer": lambda net: h.hoc_pointer(4, net.somas[1](0.5)._ref_ik),
    "by_python": lambda net: h.hoc_by_python(4),
    "text": lambda net: h(LATER),
    "file": lambda net: with_file(h.xopen, LATER),
    "loaded": lambda net: with_file(lambda file: h.load_file(1, file), LATER),
    "in_procedure": lambda net: with_file(lambda file: h.hoc_reads_file(1, file), "hoc_last()\n"),
    "plotted": lambda net: (
        setattr(h, "along", h.RangeVarPlot("v", net.somas[0](0), net.somas[0](1))),
        h.hoc_along(4),
    ),
    "procedures": lambda net: with_procedures(h.fadvance),
    "steprun": lambda net: with_procedures(h.steprun),
}


def codes(engine):
    """Of code that is compiled after the loop's, or that Python calls, as `compared`."""
    net, found = Read(), {}
    for name, call in CODES.items():
        case = by_code(call)
        truth = taken(net, case)
        with enable(engine=engine) as on:
            got = taken(net, case)
        off = max(worst(a, b) for a, b in zip(truth, got, strict=True))
        found[name] = [on.steps, len(h.seen), off]
    return found


CASES = [reads, amp, voltage, weight, wires, sends, often, longer, diameter, again, breaks,
         every_step, empties, samples, removes, by_hoc, hoc_reads, hoc_executes, by_steprun,
         own_continuerun, own_advance, own_advance_often, plays, points, raises, solves, variable,
         sets_t]  # fmt: skip


def taken(net, case):
    net.rows = []
    case(net)
    return [np.array(net.rows), *net.taken(), np.array([h.t])]


def compared(engine):
    """Of each case, how far what is read is from NEURON's, and steps."""
    net, found = Read(), {}
    for case in CASES:
        truth = taken(net, case)
        with enable(engine=engine, fallback="neuron") as on, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = taken(net, case)
            reasons = list(on.reasons)
        again = taken(net, case)
        found[case.__name__] = {
            "steps": on.steps,
            "taken": len(truth[0]),
            "reasons": reasons,
            "worst": max(worst(a, b) for a, b in zip(truth, got, strict=True)),
            "off": max(worst(a, b) for a, b in zip(truth, again, strict=True)),
        }
    return found


def unread(engine):
    """Loops that read nothing, so that NEURON's memory has no voltages of their steps."""
    net = Net()
    charges = h.Vector().record(net.dends[1](0.3)._ref_i_cap)

    def taken():
        net.stim.ranvar.set_ids(1, 2, 3)
        net.stim.ranvar.set_seq(0)
        h.finitialize(-65)
        while h.t < STOP - 0.5 * h.dt:
            h.fadvance()
        return np.array(charges)

    truth = taken()
    with enable(engine=engine) as on:
        got = taken()
    return {"steps": on.steps, "worst": worst(truth, got), "largest": np.abs(truth).max()}


def steps_of(on, *calls):
    """Of each call, steps that were run here in the meantime."""
    found = []
    for call in calls:
        before = on.steps
        call()
        found.append(on.steps - before)
    return found


def ends(engine):
    """The switch is turned off in the middle of a block: NEURON goes on from there."""
    net, found = Read(), {}
    net.start()
    net.loop(STOP)
    truth = [np.array(net.rows), *net.taken()]
    net.rows = []
    net.start()
    with enable(engine=engine) as on:
        own = type(net.somas[0]).__dict__["__getattribute__"]
        net.loop(3.1)
        hooked = type(net.somas[0]).__dict__["__getattribute__"] is not own
    found["hooked"] = [hooked, type(net.somas[0]).__dict__["__getattribute__"] is own]
    net.loop(STOP)
    found["steps"] = on.steps
    got = [np.array(net.rows), *net.taken()]
    found["worst"] = max(worst(a, b) for a, b in zip(truth, got, strict=True))
    return found


def asks(engine):
    """What a body reads of all kinds: by name, by pointer, of a GLOBAL variable that steps set.

    A Graph that is to draw such a one reads nothing where there is no window.
    """
    net, found = Read(), {}
    net.somas[1].insert("ext_globals")
    near, pointer = net.somas[2](0.5), net.somas[2](0.5)._ref_m_hh
    name = "ninf_ext_globals"
    net.dends[0].nseg = 81  # more than are recorded alone
    segments = [segment for section in h.allsec() for segment in section.allseg()]
    bodies = {
        "nothing": lambda: 0.0,
        "name": lambda: near.hh.n + near.v,
        "section": lambda: net.somas[2].v,
        "ends": lambda: net.dends[1](0).v + net.dends[1](1).v + net.somas[0](1).v,
        "one by one": lambda: segments[round(h.t / h.dt) // 30].v,
        "all": lambda: sum(segment.v for segment in segments) / len(segments),
        "pointer": lambda: pointer[0],
        "global": lambda: getattr(h, name),
        "now and then": lambda: pointer[0] if round(h.t / h.dt) % 50 == 0 else near.v,
    }

    def values(body):
        net.start()
        got = []
        while h.t < 4 - 0.5 * h.dt:
            h.fadvance()
            got.append(body())
        return np.array(got)

    def drawn():
        net.start()
        h.seen.resize(0)
        h.hoc_drawing(4 - 0.5 * h.dt)
        return np.array(h.seen)

    h.shown = h.Graph(0)
    h.shown.addexpr(name, 1, 1)
    ways = {what: partial(values, body) for what, body in bodies.items()} | {"graph": drawn}
    for what, taken in ways.items():
        truth = taken()
        with enable(engine=engine) as on:
            got = [taken() for _ in range(2)]
        found[what] = [on.steps, max(worst(truth, one) for one in got)]
    return found


def refusals(engine):
    """What is raised at the first step of a loop, and where the model is taken apart in one."""
    net, found = Net(), {"said": []}

    def said(call):
        try:
            call()
        except clhines.InputError as error:
            found["said"].append(str(error))

    with enable(engine=engine):
        h.finitialize(-65)
        h.fadvance()
        net.more.append(h.IClamp(net.somas[0](0.5)))  # NEURON's memory is settled before
        h.fadvance()
        net.more.clear()
        h.fadvance()
        found["made"] = round(h.t / h.dt)
        h.finitialize(-65)
        found["after"] = steps_of(enable(engine=engine), lambda: [h.fadvance() for _ in range(9)])
    with enable(engine=engine, fallback="neuron"):  # NEURON cannot go on either
        h.s0, h.clamp = h.SectionRef(net.somas[0]), net.clamp
        h("proc hoc_moving() { fadvance()  s0.sec clamp.loc(0.9)  fadvance() }")
        h.finitialize(-65)
        said(h.hoc_moving)
    with enable(engine=engine):
        h.finitialize(-65)
        h.dt = 0.05  # the first steps with it are run here alone
        h("proc orders() { fadvance() fadvance() secondorder = 2 fadvance() }")
        said(h.orders)
        h.secondorder, h.dt = 0, 0.025
    other = h.Section(name="other")
    other.insert("extracellular")
    other(0.5).xc[0] = -1
    with enable(engine=engine):
        h.finitialize(-65)
        said(h.fadvance)
        said(lambda: h.hoc_loop(1))
        found["t"] = h.t
    with warnings.catch_warnings(record=True) as caught, enable(fallback="neuron") as on:
        warnings.simplefilter("always")
        h.finitialize(-65)
        h.hoc_loop(1)
        found["fallback"] = [h.t, on.steps, [str(w.message).split(":")[0] for w in caught]]
    h.delete_section(sec=other)
    h.CVode().active(1)
    with enable(engine=engine):
        h.finitialize(-65)
        said(h.fadvance)
    h.CVode().active(0)
    h.dt = 0.025
    return found


def plastic(engine):
    """Weights that events change, and events that send: what is read, in Python and hoc."""
    net, found = Net(), {}
    h.s0 = h.SectionRef(sec=net.somas[0])
    plain = h.nmplast(net.dends[1](0.5)), h.nmplast(net.dends[2](0.3))
    delayed, netcons = h.ext_nmda(net.dends[2](0.7)), []
    for k, post in enumerate((*plain, *plain, delayed)):
        source = net.somas[k % 3]
        netcons.append(h.NetCon(source(0.5)._ref_v, post, sec=source))
        netcons[-1].delay, netcons[-1].weight[0] = 1.0125, -1 if k in (2, 3) else 0.02
    netcons[4].weight[1] = 0.5
    h.near = plain[0]

    def loop(until, read):
        rows = []
        while h.t < until - 0.5 * h.dt:
            h.fadvance()
            rows.append(read())
        return rows

    def now():
        return [n.weight[k] for n in netcons for k in (0, 1)] + [plain[0].g, delayed.g]

    def by_python():
        rows = loop(6, lambda: [plain[0].i, delayed.i, net.dends[1](0.5).v])
        kept = now()
        net.clamp.amp = 0.3
        rows += loop(10, lambda: [plain[1].i, delayed.i, net.dends[2](0.5).v])
        net.clamp.amp = 0.2
        return [*np.ravel(rows), *kept, *now()]

    def by_hoc():
        h.hoc_current(10)
        return [*h.seen, *now()]

    def by_names():
        return np.ravel(loop(10, now))

    for case in (by_python, by_hoc, by_names):
        got = []
        for on in (False, True):
            net.stim.ranvar.set_seq(0)
            h.seen.resize(0)
            with enable(engine=engine) if on else nullcontext() as switch:
                h.finitialize(-65)
                got.append(np.array(case()))
        found[case.__name__] = [switch.steps, worst(*got), float(np.ptp(got[0]))]
    return found


def coupled(engine):
    """Gap junctions of ParallelContext: what they have in each step, and voltages that are set."""
    from support.kept_program import Coupled

    net, found = Coupled(), {}
    net.counts.clear()  # APCounts, of which a loop is given nothing

    def values(change, by_hoc):
        rows, near = [], net.gaps[1]
        h.finitialize(-65)
        h.seen.resize(0)
        h.near = near
        while h.t < 4 - 0.5 * h.dt:
            h.hoc_vother() if by_hoc else h.fadvance()
            rows.append([near.vother, near.i, net.dends[1](0.9).v, net.somas[2](0.5).v])
            if change and round(h.t / h.dt) in (60, 120):
                net.dends[0](0.9).v += 5
                near.g = 0.003 - near.g / 2
        net.gaps[1].g = 0.002
        return np.array([*np.ravel(rows), *h.seen])

    for change, by_hoc in ((False, False), (True, False), (True, True)):
        truth = values(change, by_hoc)
        with enable(engine=engine) as on:
            got = values(change, by_hoc)
        found[f"{change} {by_hoc}"] = [on.steps, worst(truth, got)]
    return found


def not_given(engine):
    """Models of which a loop's body cannot be given all: NEURON takes the steps, and says why."""
    from support.kept_program import Coupled

    from clhines.neuron import switch

    net, found = Coupled(), {}
    with warnings.catch_warnings(record=True) as caught, enable(fallback="neuron") as on:
        warnings.simplefilter("always")
        h.finitialize(-65)
        h.hoc_loop(1)
        found["counts"] = [on.steps, [str(w.message) for w in caught], list(on.reasons)]
        found["left"] = not switch._switch[0]._loops.taken.is_on  # until finitialize()
        h.finitialize(-65)
        found["left"] = [found["left"], not switch._switch[0]._loops.taken.is_on]
    with warnings.catch_warnings(record=True) as caught, enable(engine=engine) as on:
        warnings.simplefilter("always")
        h.finitialize(-65)
        h.hoc_loop(1)
        found["silent"] = [on.steps, [str(w.message) for w in caught]]
    del net
    return found


def reseeded(engine):
    """A body in hoc that sets where the stream of a NetStim is: times of spikes of two runs."""
    h("objref train")
    h("proc hoc_seeds() { while (t < $1) { fadvance()  if (t > 5 && t < 5 + dt) train.seed(77) } }")
    soma = h.Section(name="reseeded")
    soma.insert("hh")
    soma.L = soma.diam = 20
    synapse, train, v = h.ExpSyn(soma(0.5)), h.NetStim(), h.Vector().record(soma(0.5)._ref_v)
    h.train, train.interval, train.number, train.noise = train, 1, 1e9, 1
    netcon, found, steps = h.NetCon(train, synapse), [], []
    netcon.weight[0], netcon.delay = 0.005, 0.3
    for begin in (nullcontext, lambda: enable(engine=engine)):
        with begin() as on:
            train.noiseFromRandom123(1, 2, 3)
            h.finitialize(-65)
            h.hoc_seeds(20)
            found.append(np.array(v))
            steps = [on.steps] if on is not None else []
    h("objref train")
    return {"worst": float(np.abs(found[0] - found[1]).max()), "steps": steps}


def writes(engine):
    """Names of numbers whose change is not seen before a step, with what hoc's loops compare.

    Where hoc has a pointer all is compared, and else what it names, and the rest after a block.
    """
    from support.kept_program import SEED, numbers

    from clhines.neuron import switch

    net, unseen, chosen, late = Net(), [], [], 0
    with enable(engine=engine):
        for by_pointer in (True, False):
            h.finitialize(-65)
            if by_pointer:
                h.hoc_pointer(1, net.somas[1](0.5)._ref_v)
            else:
                h.hoc_loop(1)
            loops = switch._switch[0]._loops
            run, loops._asked.on = loops._run, False
            same = run.is_same() and run._watch.rest_is_same()
            known = numbers(net)
            generator = np.random.Generator(np.random.Philox(SEED))
            chosen = [known[int(k)] for k in generator.integers(len(known), size=300)]
            for name, read, write in chosen:
                before = read()
                is_switch = name in ("secondorder", "usetable_hh")
                write(1 - before if is_switch else np.nextafter(before, np.inf))
                if read() != before and run.is_same():
                    late += not by_pointer
                    if by_pointer or run._watch.rest_is_same():
                        unseen.append(name)
                write(before)
                run._watch.take()
        net.somas[1](0.5).hh.gnabar *= 2
        try:
            h.hoc_loop(2)
        except clhines.ClhinesError as error:
            said = str(error)
        h.finitialize(-65)
        h.hoc_loop(2)
    return {"same": same, "unseen": unseen, "names": len({name for name, *_ in chosen}),
            "late": late, "said": said, "t": h.t}  # fmt: skip


def gone(engine):
    """A function's model, gone where the switch is turned off; then one beside another section."""

    def run():
        soma = h.Section(name="local")
        soma.insert("hh")
        h.finitialize(-60)
        while h.t < 1 - 0.5 * h.dt:
            h.fadvance()
        return soma(0.5).v

    truth, own = run(), type(h).__call__
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with enable(engine=engine) as on:
            found = run()
        silent, steps, other = len(said), on.steps, h.Section(name="other")
        with enable(engine=engine):
            again = run()
    assert other.nseg
    told = [str(one.message) for one in said]
    return {"v": [truth, found, again], "steps": steps, "silent": silent, "said": told,
            "own": type(h).__call__ is own}  # fmt: skip


if __name__ == "__main__":
    what, engine = sys.argv[1:]
    cases = (
        compared,
        unread,
        codes,
        coupled,
        plastic,
        ends,
        asks,
        refusals,
        not_given,
        reseeded,
        writes,
        gone,
    )
    every = {f.__name__: f for f in cases}
    print(json.dumps(every[what](engine)))
