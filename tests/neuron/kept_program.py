"""Models that `clhines.neuron.run` advances in pieces, and that change between them."""

import gc
import json
import sys
from functools import partial

import numpy as np
from support.mod_files import loaded
from support.neuron_scripts import make_section, with_values

import clhines
from clhines.neuron import entry, fingerprint, kept

h = loaded()
DT, SEED = 0.025, 7


class Net:
    """Cells in a ring, with objects to change: hh, pas, synapses, a NetStim, a clamp."""

    def __init__(self, count=4):
        self.somas, self.dends, self.synapses, self.netcons = [], [], [], []
        for k in range(count):
            soma, dend = h.Section(name=f"soma{k}"), h.Section(name=f"dend{k}")
            soma.L = soma.diam = 20
            dend.L, dend.diam, dend.nseg = 200, 2, 3
            soma.insert("hh")
            dend.insert("pas")
            dend.connect(soma(1))
            synapse = with_values(h.Exp2Syn(dend(0.5)), tau1=0.5, tau2=2)
            self.somas.append(soma)
            self.dends.append(dend)
            self.synapses.append(synapse)
        for k in range(count):
            source, target = self.somas[k], self.synapses[(k + 1) % count]
            self.netcons.append(h.NetCon(source(0.5)._ref_v, target, -10, 1, 0.05, sec=source))
        self.stim = h.NetStim()
        self.stim.number, self.stim.start, self.stim.interval, self.stim.noise = 99, 1, 3, 0.5
        self.silent = h.NetCon(dend(0.5)._ref_v, self.synapses[0], 1000, 1, 0.05, sec=dend)
        self.off = h.NetCon(self.stim, self.synapses[1], 0, 1, 0.05)
        self.off.active(False)
        self.netcons.append(h.NetCon(self.stim, self.synapses[0], 0, 1, 0.05))
        self.clamp = h.IClamp(self.somas[0](0.5))
        self.clamp.delay, self.clamp.dur, self.clamp.amp = 0, 1e9, 0.2
        self.more, self.late = [], h.Vector()
        self.v = [h.Vector().record(s(0.5)._ref_v) for s in self.somas]
        self.spikes = h.Vector()
        for netcon in self.netcons[:count]:
            netcon.record(self.spikes)

    def taken(self):
        return [np.array(v) for v in (*self.v, self.spikes, self.late)]


class Coupled(Net):
    """A ring with gap junctions of ParallelContext, and APCounts, two with a Vector."""

    def __init__(self, count=4):
        super().__init__(count)
        self.pc, self.gaps = h.ParallelContext(), []
        for k, dend in enumerate(self.dends):
            self.pc.source_var(dend(0.9)._ref_v, k, sec=dend)
            self.gaps.append(h.imp_gap(dend(0.9)))
            self.gaps[-1].g = 0.002
            self.join(k, (k + 1) % count)
        self.pc.setup_transfer()
        self.counts = [h.APCount(soma(0.5)) for soma in self.somas[:3]]
        self.times = [h.Vector(), h.Vector()]
        for one, vector in zip(self.counts, self.times, strict=False):
            one.record(vector)

    def join(self, k, source):
        self.pc.target_var(self.gaps[k], self.gaps[k]._ref_vother, source)

    def taken(self):
        counts = [np.array([c.n, c.time]) for c in self.counts]
        return [*super().taken(), *map(np.array, self.times), *counts]


def other_vector(net):
    """A counter records into another Vector, whose numbers stay until its next spike."""
    net.times.append(h.Vector([1.0, 2.0, 3.0]))
    net.counts[0].record(net.times[-1])


def with_counter(net):
    net.counts.append(h.APCount(net.somas[3](0.5)))
    net.times.append(h.Vector())
    net.counts[-1].record(net.times[-1])


def without_counter(net):
    net.counts.pop(0)
    net.times.pop(0)


def record_elsewhere(net):
    """Spikes go into the other Vector from now on, as BMTK does at the end of a block."""
    net.late, net.spikes = net.spikes, net.late
    for netcon in net.netcons[: len(net.somas)]:
        netcon.record(net.spikes)


def other_source(net):
    net.join(0, 2)
    net.pc.setup_transfer()


def with_gap(net):
    net.gaps.append(h.imp_gap(net.dends[2](0.1)))
    net.gaps[-1].g = 0.01
    net.join(4, 0)
    net.pc.setup_transfer()


def with_netcon(net):
    """Add a NetCon, and remove one without pending events, which would end NEURON."""
    soma = net.somas[1]
    net.more.append(h.NetCon(soma(0.5)._ref_v, net.synapses[3], -10, 1, 0.03, sec=soma))
    net.silent = None


def with_section(net):
    net.more.append(h.Section(name="more"))
    net.more[-1].L, net.more[-1].diam = 100, 2
    net.more[-1].connect(net.somas[2](0))


def with_vector(net):
    net.more += [h.Vector([0.0, 0.1, 0.3]), h.Vector([0.0, 10.0, 20.0])]
    net.more[0].play(net.clamp._ref_amp, net.more[1], True)


def assign(where, name, value):
    setattr(where, name, value)


def set_weight(net):
    net.netcons[0].weight[0] = 0.001


def set_globals(name, value, net):
    setattr(h, name, value)


CHANGES = {
    "gnabar": lambda net: assign(net.somas[1](0.5).hh, "gnabar", 0.1),
    "celsius": lambda net: assign(h, "celsius", 9),
    "dt": lambda net: [assign(h, "dt", DT / 2), assign(h, "steps_per_ms", 2 / DT)],
    "nseg": lambda net: assign(net.dends[1], "nseg", 5),
    "diam": lambda net: assign(net.dends[1](0.5), "diam", 3),
    "section": with_section,
    "netcon": with_netcon,
    "netcon on": lambda net: net.off.active(True),
    "netcon off": lambda net: net.netcons[0].active(False),
    "netcon gone": lambda net: assign(net, "silent", None),
    "delay": lambda net: assign(net.netcons[0], "delay", 2.5),
    "threshold": lambda net: assign(net.netcons[0], "threshold", 10),
    "mechanism": lambda net: net.dends[2].insert("hh"),
    "usetable": partial(set_globals, "usetable_hh", 0),
    "secondorder": lambda net: assign(h, "secondorder", 2),
    "weight": set_weight,
    "play": with_vector,
    "record": lambda net: net.late.record(net.somas[0](0.5)._ref_v),
    "spikes": record_elsewhere,
    "voltage": lambda net: assign(net.dends[0](0.5), "v", -20),
    "state": lambda net: assign(net.somas[2](0.5).hh, "m", 0.5),
    "reversal": lambda net: assign(net.somas[2](0.5), "ena", 20),
    "clamp": lambda net: assign(net.clamp, "amp", 0.4),
    "event": lambda net: net.netcons[2].event(h.t + 0.7),
    "capacitance": lambda net: assign(net.somas[2](0.5), "cm", 2),
    "stimulus": lambda net: assign(net.stim, "interval", 1),
    "nothing": lambda net: None,
}  # fmt: skip
OF_COUPLED = {
    "thresh": lambda net: assign(net.counts[0], "thresh", 1000),
    "n": lambda net: assign(net.counts[0], "n", 7),
    "firing": lambda net: assign(net.counts[1], "firing", 1),
    "vector": other_vector,
    "vector off": lambda net: net.counts[1].record(),
    "counter": with_counter,
    "counter gone": without_counter,
    "gap": lambda net: assign(net.gaps[1], "g", 0.02),
    "gap source": other_source,
    "gap more": with_gap,
    "gap not set up": lambda net: net.join(0, 2),
    "nothing coupled": lambda net: None,
}
CHANGES |= OF_COUPLED
BASES = "nothing", "nothing coupled"


def in_pieces(net, way, change, step=2.0, stop=16.0):
    """Advance by pieces; half way, change the model."""
    h.celsius, h.secondorder, h.usetable_hh, h.dt, h.steps_per_ms = 6.3, 0, 1, DT, 40
    net.spikes.resize(0)
    h.finitialize(-65)
    net.stim.ranvar.set_seq(0)
    for k in range(int(stop / step)):
        if k == int(stop / step) // 2:
            change(net)
        way((k + 1) * step)
    return net.taken()


def fresh(name="nothing"):
    """Make a ring for a change; its NetStim gives the same numbers each time."""
    h.ParallelContext().gid_clear(4)  # transfers of an earlier one
    net = Coupled() if name in OF_COUPLED else Net()
    net.stim.ranvar.set_ids(1, 2, SEED)
    return net


def both(name, engine, unchanged):
    """Compare a model that changes in a run with NEURON; also return the effect of the change."""
    if name == "gap not set up":  # NEURON's next step would raise
        truth = unchanged
    else:
        truth = in_pieces(fresh(name), h.continuerun, CHANGES[name])
    try:
        got = in_pieces(fresh(name), partial(clhines.neuron.run, engine=engine), CHANGES[name])
    except clhines.InputError as error:
        return {"refused": str(error)}
    return {
        "lengths": [[len(a), len(b)] for a, b in zip(truth, got, strict=True)],
        "worst": max(worst(a, b) for a, b in zip(truth, got, strict=True)),
        "effect": most(truth, unchanged),
    }


def most(found, other):
    """Return the largest difference of some vectors; 1e9 if their numbers differ."""
    return max(map(worst, found, other)) if len(found) == len(other) else 1e9


def worst(a, b):
    """Return the largest difference of two vectors; 1e9 if their lengths differ."""
    return float(np.abs(a - b).max(initial=0)) if len(a) == len(b) else 1e9


def pieces(engine):
    """Compare pieces of several lengths with one call, bit by bit, as JSON."""
    results = [
        in_pieces(fresh(), partial(clhines.neuron.run, engine=engine), CHANGES["nothing"], step)
        for step in (16.0, 4.0, 1.0, 0.5, 2 * DT)
    ]
    return [[worst(a, b) for a, b in zip(results[0], other, strict=True)] for other in results[1:]]


def numbers(net):
    """Names of numbers that a user can set, with functions that read and set them."""
    rows = []

    def add(name, thing, attribute):
        rows.append((name, lambda: getattr(thing, attribute), partial(setattr, thing, attribute)))

    for k, (soma, dend) in enumerate(zip(net.somas, net.dends, strict=True)):
        for segment in (*soma, *dend):
            for attribute in ("v", "cm", "diam"):
                add(f"{segment}.{attribute}", segment, attribute)
            for mechanism in segment:
                if mechanism.is_ion():
                    continue
                for variable in mechanism:
                    ways = variable.__getitem__, variable.__setitem__
                    name = f"{segment}.{variable.name()}"
                    rows.append((name, *(partial(way, 0) for way in ways)))
        for attribute in ("ena", "ek"):
            add(f"soma{k}.{attribute}", soma(0.5), attribute)
        for attribute in ("tau1", "tau2", "e", "A", "B"):
            add(f"synapse{k}.{attribute}", net.synapses[k], attribute)
    for k, netcon in enumerate(net.netcons):
        for attribute in ("delay", "threshold"):
            add(f"netcon{k}.{attribute}", netcon, attribute)
        rows.append((f"netcon{k}.weight", partial(netcon.weight.__getitem__, 0),
                      partial(netcon.weight.__setitem__, 0)))  # fmt: skip
    for attribute in ("delay", "dur", "amp"):
        add(f"clamp.{attribute}", net.clamp, attribute)
    for attribute in ("start", "interval", "number", "noise"):
        add(f"stim.{attribute}", net.stim, attribute)
    for attribute in ("celsius", "usetable_hh", "dt", "secondorder"):
        add(attribute, h, attribute)
    return rows


def writes(count):
    """Return the random writes into NEURON's memory that the fingerprint misses, as JSON."""
    net = Net()
    in_pieces(net, clhines.neuron.run, lambda net: None, stop=4.0)
    generator, values, unseen = np.random.Generator(np.random.Philox(SEED)), numbers(net), []
    (model,) = kept._kept
    print_ = model.fingerprint
    assert print_.structure_is_same()
    assert print_.values_are_same()
    chosen = [values[int(k)] for k in generator.integers(len(values), size=int(count))]
    for name, read, write in chosen:
        before = read()
        write(
            np.nextafter(before, np.inf)
            if name not in ("secondorder", "usetable_hh")
            else 1 - before
        )
        same = print_.structure_is_same() and print_.values_are_same()
        if read() != before and same and not print_.take_parameters():
            unseen.append(name)
        write(before)
        print_.take_parameters()
        if not print_.structure_is_same():  # a diameter, set back, still counts as a new shape
            print_ = fingerprint.Fingerprint(model.model)
    return {"unseen": unseen, "names": len({name for name, *_ in chosen})}


def lifetimes(_):
    """Return whether deleted objects are gone between pieces, as JSON."""
    gc.disable()
    net, count = Net(), [len(list(h.allsec()))]
    in_pieces(net, clhines.neuron.run, lambda net: None, stop=2.0)
    counts = [int(h.List(name).count()) for name in ("NetCon", "Exp2Syn", "Vector")]
    del net
    count.append(len(list(h.allsec())))
    after = [int(h.List(name).count()) for name in ("NetCon", "Exp2Syn")]
    in_pieces(fresh("gap"), clhines.neuron.run, CHANGES["gap"])  # is read twice, and dropped
    in_pieces(fresh(), clhines.neuron.run, CHANGES["nothing"])
    later = [int(h.List(name).count()) for name in ("NetCon", "Exp2Syn")]
    return {"sections": count, "before": counts, "after": after, "later": later}


def noted_calls(*names):
    """Return a list to which each call to these functions in `entry` adds its name."""
    made = []

    def noting(name, own):
        def noted(*given, **named):
            made.append(name)
            return own(*given, **named)

        return noted

    for name in names:
        setattr(entry, name, noting(name, getattr(entry, name)))
    return made


def coupled(engine):
    """Count how often a model with APCounts and gap junctions is read in several runs, as JSON."""
    reads = noted_calls("read_model")
    net, ours = fresh("gap"), partial(clhines.neuron.run, engine=engine)
    truth, again = (in_pieces(net, h.continuerun, CHANGES["nothing"], k) for k in (1.0, 16.0))
    records = [in_pieces(net, ours, CHANGES["nothing"], k) for k in (1.0, 4.0, 16.0)]
    spikes = [len(t) for t in net.times]
    parts = []
    for way in (h.continuerun, ours):
        net.late.resize(0)
        parts.append(in_pieces(net, way, record_elsewhere))
    apart = [most(truth, f) for f in (*records, again)]
    return {"reads": len(reads), "worst": max(*apart, most(*parts)), "spikes": spikes,
            "elsewhere": len(net.late)}  # fmt: skip


def scan(engine):
    """Compare a model with other parameters at each start with NEURON; count the objects made."""
    made = noted_calls("read_model", "Simulation")
    coupled = engine != "auto"  # gap junctions choose other engines
    net, ours = fresh("gap" if coupled else "nothing"), partial(clhines.neuron.run, engine=engine)
    changes = {
        "nothing": CHANGES["nothing"], "gnabar": CHANGES["gnabar"], "clamp": CHANGES["clamp"],
        "tau2": lambda net: assign(net.synapses[1], "tau2", 5.0), "stimulus": CHANGES["stimulus"],
        "el": lambda net: assign(net.somas[3](0.5).hh, "el", -50.0), "again": CHANGES["nothing"],
    }  # fmt: skip
    if coupled:
        changes |= {name: CHANGES[name] for name in ("thresh", "gap")}
    effect, worst, before = {}, [], []
    for name, change in changes.items():
        change(net)
        truth, got = (in_pieces(net, way, CHANGES["nothing"], 4.0) for way in (h.continuerun, ours))
        worst.append(most(truth, got))
        effect[name], before = most(truth, before) if before else 0.0, truth
    return {"made": made, "worst": max(worst), "effect": effect}


def starts(engine):
    """Compare a kept model with NEURON if a start differs, as JSON.

    Starts differ by a clamp beside a played one, by a voltage that a gap junction gets, and by a
    spike in the first step, from a counter whose count is recorded.
    """
    net, ours = fresh("gap"), partial(clhines.neuron.run, engine=engine)
    with_vector(net)
    other = with_values(h.IClamp(net.somas[2](0.5)), delay=1.0, dur=5.0)
    net.counts[0].thresh, numbers = -64.999, h.Vector().record(net.counts[0]._ref_n)
    results, effect, before = [], [], []
    for amp, change in ((0.0, "nothing"), (0.3, "nothing"), (0.3, "voltage"), (0.1, "voltage")):
        other.amp, rows = amp, []
        for way in (h.continuerun, ours):
            rows.append([*in_pieces(net, way, CHANGES[change], 16.0), np.array(numbers)])
        results.append(most(*rows))
        effect.append(most(rows[0], before) if before else 0.0)
        before = rows[0]
    return {"worst": max(results), "effect": effect[1:], "first": list(net.times[0])[:1]}


def train(engine):
    """Change the Vector of a VecStim between pieces; compare with NEURON, as JSON."""
    net, times, stim = fresh(), h.Vector(), h.vec_pointer()
    _netcon = h.NetCon(stim, net.synapses[2], 0, 0.1, 0.02)

    def change(_):
        times.x[4] = 10.5  # behind the one that is on its way

    def runs(way):
        results = []
        for do in (CHANGES["nothing"], change, CHANGES["nothing"]):
            times.from_python([1.0, 3.0, 5.0, 9.0, 12.0])
            stim.play(times)
            results.append(in_pieces(net, way, do))
        return results

    truth, got = runs(h.continuerun), runs(partial(clhines.neuron.run, engine=engine))
    return {"worst": max(map(most, truth, got)), "effect": most(*truth[:2])}


def stays(engine):
    """Count reads of a model whose GLOBALs and played vector change in each run, as JSON."""
    net, reads = Net(), noted_calls("read_model")
    for soma in net.somas:
        soma.insert("ext_globals")
        soma.insert("nmagain")
    net.late.record(net.somas[1](0.5).nmagain._ref_start)  # INITIAL sets it, to cai
    with_vector(net)
    net.more += [h.IClamp(net.somas[1](0.5)), h.Vector([0.3, 0.6]), h.Vector([1.0, 2.0])]
    net.more[-3].dur = 1e9
    net.more[-2].play(net.more[-3]._ref_amp, net.more[-1])  # in steps: the last one stays
    h.finitialize(-65)
    h.continuerun(3.0)
    worst, moved, stayed = [], [], []
    for until, begin in ((3.0, 5e-5), (4.0, 1e-4), (3.0, 2e-4)):
        h.cai0_ca_ion, records = begin, []
        for way in (h.continuerun, partial(clhines.neuron.run, engine=engine)):
            h.finitialize(-65)
            before = h.ninf_ext_globals
            way(until)
            moved.append(h.ninf_ext_globals != before)
            stayed.append({*net.late} == {begin})
            records.append(net.taken())
        worst.append(max(float(np.abs(a - b).max()) for a, b in zip(*records) if len(a)))
    return {"reads": len(reads), "worst": max(worst), "moved": all(moved), "stayed": all(stayed),
            "lengths": [[len(a), len(b)] for a, b in zip(*records)]}  # fmt: skip


def changes(engine):
    """Compare models that change in a run with NEURON, by name of the change, as JSON."""
    unchanged = {of: in_pieces(fresh(of), h.continuerun, CHANGES[of]) for of in BASES}
    base = {name: unchanged[BASES[name in OF_COUPLED]] for name in CHANGES}
    return {name: both(name, engine, base[name]) for name in CHANGES}


def recorded(engine):
    """Return NetCon.record's times by NEURON, and here in pieces that end on and beside events."""
    soma = make_section("soma", "hh", L=10, diam=10)
    synapse, fire, stim = h.ExpSyn(soma(0.5)), h.IntFire1(), h.NetStim()
    stim.interval, stim.number = 0.5, 40
    _clamp = with_values(h.IClamp(soma(0.5)), delay=0, dur=1e9, amp=0.2)
    netcons = [h.NetCon(stim, synapse, 0, 0.3, 1e-5), h.NetCon(stim, fire, 0, 0.2, 2.0)]
    netcons += [h.NetCon(fire, None), h.NetCon(soma(0.5)._ref_v, None, 0, 1, 0, sec=soma)]
    vectors = [h.Vector() for _ in netcons[1:]]  # both of the NetStim record the same
    for netcon, vector in zip(netcons[1:], vectors, strict=True):
        netcon.record(vector)
    results = []
    for start, stops in ((1.0, (2.5, 3, 7.2, 20)), (0.99, (1, 2.5, 3, 20)), (1.012, (2, 9, 20))):
        stim.start, times = start, []
        for way in (h.continuerun, partial(clhines.neuron.run, engine=engine)):
            h.finitialize(-65)
            for stop in stops:
                way(stop)
            times.append([list(vector) for vector in vectors])
        results.append(times)
    return results


def moved(engine):
    """Return spike times by NEURON, and here, after scripts have set h.t, as JSON."""
    results = []
    for way in (h.continuerun, partial(clhines.neuron.run, engine=engine)):
        net = fresh()
        h.finitialize(-65)
        for begin, stop in ((1.2, 3.0), (3.00000000000003, 12.0)):
            h.t = begin
            way(stop)
        results.append(list(net.spikes))
    return results


ASKED = (moved, recorded, changes, writes, lifetimes, scan, starts, train, coupled, stays, pieces)

if __name__ == "__main__":
    what, argument = sys.argv[1:]
    print(json.dumps({f.__name__: f for f in ASKED}[what](argument)))
