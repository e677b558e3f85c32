"""Compare models in NEURON's memory, run by NEURON and by this package; print the differences.

A process of its own for each case, as NEURON has one memory: ``neuron_program.py CASE ENGINE``.
"""

import json
import sys

import numpy as np
from neuron import h
from support.mod_files import loaded
from support.neuron_scripts import in_turns, make_section, with_values

h.load_file("stdrun.hoc")
KEPT = []
SEEN = []  # pairs of an object and a variable, which hoc reads after a run


def section(name, nseg, length, diam, mechanism="hh"):
    made = make_section(name, mechanism, nseg=nseg, L=length, diam=diam)
    KEPT.append(made)
    return made


def recorded(*references):
    return [h.Vector().record(r) for r in references]


def clamp(segment, amp=0.3):
    made = with_values(h.IClamp(segment), delay=1, dur=100, amp=amp)
    KEPT.append(made)
    return made


def joined():
    """Sections joined at 0, 1 and between, one turned round, two roots."""
    soma = section("soma", 3, 30, 20)
    a, b = section("a", 5, 200, 2), section("b", 2, 100, 1, "pas")
    c, d = section("c", 4, 150, 1.5, "pas"), section("d", 3, 60, 3)
    a.connect(soma(1))
    b.connect(a(0.3), 1)
    c.connect(a(0))
    section("e", 1, 40, 1, "pas").connect(soma(0))
    section("f", 2, 40, 1, "pas").connect(b(0))
    clamp(soma(0.5))
    clamp(d(0.1), 0.2)
    return recorded(*(s(x)._ref_v for s in KEPT if hasattr(s, "nseg") for x in (0, 0.3, 0.5, 1)))


def recorders():
    """Vectors that record in each step, at intervals and at times; currents, states, spikes."""
    soma, dendrite = section("soma", 3, 30, 20), section("dendrite", 5, 200, 2, "pas")
    dendrite.connect(soma(1))
    synapse = h.ExpSyn(dendrite(0.5))
    clamp(soma(0.5))
    netcon = h.NetCon(soma(0.5)._ref_v, synapse, -20, 1.3, 0.002, sec=soma)
    spikes, times = h.Vector(), h.Vector([1, 3.33, 12.5, 19])
    netcon.record(spikes)
    at = soma(0.5)
    fast = h.CVode()
    fast.use_fast_imem(1)
    KEPT.extend([netcon, synapse, times, fast])
    SEEN.extend([(synapse, "i"), (at, "ina"), (at.hh, "gna"), (dendrite(0.1).pas, "i")])
    vectors = recorded(at._ref_i_membrane_, dendrite(0.5)._ref_i_membrane_)
    vectors += recorded(
        at._ref_v, at.hh._ref_m, h._ref_t, synapse._ref_g, synapse._ref_i, at._ref_ina
    )
    vectors += [h.Vector().record(synapse._ref_i, 0.025)]
    vectors += [h.Vector().record(at._ref_v, 0.1), h.Vector().record(dendrite(0.5)._ref_v, times)]
    return [*vectors, spikes]


def named():
    """A mechanism named like its ion, in the second of two sections with the ion."""
    loaded()
    soma, dendrite = section("soma", 1, 30, 20), section("dendrite", 3, 100, 2, "pas")
    dendrite.insert("na")
    dendrite.connect(soma(1))
    clamp(soma(0.5))
    first, at = soma(0.5), dendrite(0.5)
    SEEN.extend([(at.na, "g"), (at.na, "m"), (at, "ina"), (first, "ina")])
    vectors = recorded(first._ref_v, first._ref_ina, at._ref_ina, at._ref_ena, first.hh._ref_m)
    return [*vectors, *recorded(at.na._ref_g, at.na._ref_m, at.na._ref_tau, at.na._ref_gbar)]


def events():
    """Artificial cells, a chain of pending spikes, an event from hoc, several on one gid."""
    soma = section("soma", 1, 20, 20)
    fire, synapse = h.IntFire1(), h.Exp2Syn(soma(0.5))
    fire.tau, fire.refrac = 8, 1.5
    spikes, gids = h.Vector(), h.Vector()
    pc = h.ParallelContext()
    pc.set_gid2node(7, 0)
    pc.cell(7, h.NetCon(soma(0.5)._ref_v, None, sec=soma))
    pc.set_gid2node(9, 0)
    pc.cell(9, h.NetCon(fire, None))
    pc.spike_record(-1, spikes, gids)
    wires = [(7, fire, 0.7, 1.01), (7, fire, 0.6, 3.2), (9, synapse, 0.03, 0.7), (9, fire, -0.2, 2)]
    for source, target, weight, delay in wires:
        netcon = pc.gid_connect(source, target)
        netcon.weight[0], netcon.delay = weight, delay
        KEPT.append(netcon)
    clamp(soma(0.5), 0.4)
    first = KEPT[-2]
    KEPT.extend([fire, synapse, pc, h.FInitializeHandler(lambda: KEPT[1].event(4.3))])
    assert first.wcnt() == 1
    return [*recorded(soma(0.5)._ref_v, synapse._ref_g, synapse._ref_B), spikes, gids]


def streams():
    """NetStims that draw, some with individual numbers and a global index."""
    soma = section("soma", 1, 20, 20)
    h.Random().Random123_globalindex(3)
    spikes, gids = h.Vector(), h.Vector()
    pc = h.ParallelContext()
    for k in range(8):
        stim, synapse = h.NetStim(), h.ExpSyn(soma(0.5))
        stim.interval, stim.number, stim.start = 1 + 0.3 * k, 1e6 if k % 3 else 4, 0.7 * k
        stim.noise = (0, 1, 0.5)[k % 3]
        if k % 2:
            stim.ranvar.set_ids(k, 7, 2**32 - 1 - k)
        pc.set_gid2node(k, 0)
        pc.cell(k, h.NetCon(stim, None))
        netcon = h.NetCon(stim, synapse, 0, 0.5 + 0.1 * k, 0.001)
        KEPT.extend([stim, synapse, netcon])
    pc.spike_record(-1, spikes, gids)
    KEPT.append(pc)
    return [*recorded(soma(0.5)._ref_v, KEPT[2]._ref_g), spikes, gids]


def played():
    """Vector.play into clamps, interpolated and in steps, and into a variable of a state.

    NEURON plays a value that is due in the second half of a step after the step's states.
    """
    soma = section("soma", 1, 20, 20)
    clamps = [clamp(soma(0.5), 0), clamp(soma(0.5), 0)]
    t, y = h.Vector([0, 3, 7, 12]), h.Vector([0, 0.2, 0.05, 0.3])
    y.play(clamps[0]._ref_amp, t, 1)
    steps = h.Vector([0.0, 0.1, 0.0, 0.05])
    steps.play(clamps[1]._ref_amp, t)
    synapse = h.ExpSyn(soma(0.5))
    due, tau = h.Vector([0, 3.02, 7.024, 12.001]), h.Vector([1, 9, 2, 20])
    tau.play(synapse._ref_tau, due)
    netcon = h.NetCon(soma(0.5)._ref_v, synapse, -60, 0.5, 0.002, sec=soma)
    held = section("held", 1, 20, 20)
    command, voltage = h.VClamp(held(0.5)), h.Vector([-65, -40, -80, -20])
    command.dur[0] = 1e9
    voltage.play(command._ref_amp[0], t, 1)
    KEPT.extend([t, y, steps, synapse, due, tau, netcon, held, command, voltage])
    seen = soma(0.5)._ref_v, soma(0.5).hh._ref_h, synapse._ref_g, synapse._ref_tau
    seen = *seen, clamps[0]._ref_amp, clamps[0]._ref_i
    return recorded(*seen, held(0.5)._ref_v)


def gaps():
    """Voltages that ParallelContext transfers."""
    loaded()
    a, b = section("a", 3, 40, 10), section("b", 1, 20, 8)
    pc = h.ParallelContext()
    for number, (place, other) in enumerate(((a(0.2), b(0.5)), (b(0.5), a(0.2)))):
        junction = h.imp_gap(place)
        pc.source_var(other._ref_v, number, sec=other.sec)
        pc.target_var(junction, junction._ref_vother, number)
        KEPT.append(junction)
    pc.setup_transfer()
    KEPT.append(pc)
    clamp(a(0.9))
    transferred = KEPT[2]._ref_vother
    vectors = recorded(a(0.2)._ref_v, b(0.5)._ref_v, KEPT[2]._ref_i, transferred)
    return [*vectors, h.Vector().record(transferred, 0.1)]


def crossing():
    """A run that ends in the step in which a voltage crosses its threshold."""
    soma = section("soma", 1, 20, 20)
    synapse = h.ExpSyn(soma(0.5))
    netcon = h.NetCon(soma(0.5)._ref_v, synapse, 0, 0.4, 0.01, sec=soma)
    spikes = h.Vector()
    netcon.record(spikes)
    KEPT.extend([synapse, netcon])
    clamp(soma(0.5), 0.5)
    return [*recorded(soma(0.5)._ref_v, synapse._ref_g), spikes]


def steps_of_crossing(vectors):
    """Runs by NEURON and by this package in turns, which end with a spike's step."""
    voltage, spikes = np.array(vectors[0]), np.array(vectors[2])
    assert len(spikes) > 1
    at = [round(float(s) / h.dt) for s in spikes[:2]]
    assert all(voltage[k - 1] <= 0 < voltage[k] for k in at)
    return [[(first, at[0] * h.dt), (1 - first, at[1] * h.dt), (first, 20)] for first in (0, 1)]


def watched():
    """WATCH conditions, some armed later, with their events; a moved self event."""
    loaded()
    soma = section("soma", 1, 20, 20)
    watches = [h.ext_watch(soma(0.5)) for _ in range(3)]
    for k, watch in enumerate(watches):
        watch.high, watch.low, watch.amp = -40 + 20 * k, -60 - 3 * k, 0.01 * k
    fire, move, stim = h.IntFire4(), h.ext_move(), h.NetStim()
    stim.start, stim.interval, stim.number = 8, 3.1, 10
    spikes = h.Vector()
    for source, target, weight in (
        (stim, fire, 0.6), (watches[0], fire, 0.7), (stim, move, 3.3), (watches[0], move, 2.9),
    ):  # fmt: skip
        netcon = h.NetCon(source, target, 0, 0.5, weight)
        KEPT.append(netcon)
    KEPT.append(h.NetCon(fire, None))
    KEPT[-1].record(spikes)
    KEPT.extend([*watches, fire, move, stim])
    clamp(soma(0.5), 0.5)
    vectors = recorded(soma(0.5)._ref_v, *(w._ref_on for w in watches))
    return [*vectors, *recorded(*(w._ref_when for w in watches), move._ref_last), spikes]


def reset():
    """WATCH and NetCon events that set voltages, also at a compared threshold."""
    loaded()
    references, sampled = [], []
    for k in range(3):
        soma, dendrite = section("soma", 1, 30, 20, "pas" if k else "hh"), section("d", 3, 200, 2)
        dendrite.connect(soma(1))
        far, late = h.ext_reset(dendrite(0.5)), h.ext_late(dendrite(0.9))
        synapse, here, stim = h.ExpSyn(soma(0.5)), h.ext_reset(soma(0.5)), h.NetStim()
        here.reset, far.high = -60 - k, -56
        stim.start, stim.interval, stim.number = 1 + 0.37 * k, 2.03, 20
        for source, target, weight, delay in (
            (stim, here, 0.01, 1), (stim, far, 0.002, 0.5), (stim, late, 0, 0.7),
            (far, synapse, 0.001, 0.01), (soma(0.5)._ref_v, synapse, 0.002, 0.3),
        ):  # fmt: skip
            netcon = h.NetCon(source, target, -52, delay, weight, sec=soma)
            KEPT.append(netcon)
        current = clamp(soma(0.5), (0.15, 0.1, -0.2)[k])
        current.dur = 12
        KEPT.extend([far, late, synapse, here, stim])
        SEEN.extend([(soma(0.5), "v"), (dendrite(0.5), "v"), (here, "g"), (here, "when")])
        references += [soma(0.5)._ref_v, dendrite(0.5)._ref_v, dendrite(0.9)._ref_v]
        references += [
            here._ref_seen,
            here._ref_lost,
            far._ref_when,
            late._ref_seen,
            synapse._ref_g,
        ]
        at_times = h.Vector(np.linspace(0.3, 19.9, 1500))
        sampled += [h.Vector().record(soma(0.5)._ref_v, at_times)]
        sampled += [h.Vector().record(s._ref_v, 0.025) for s in (soma(0.5), dendrite(0.5))]
        KEPT.append(at_times)
    return [*recorded(*references), *sampled]


def added():
    """POINTERs to a sum of several instances: in a mechanism, in a Vector, and in hoc."""
    loaded()
    references = []
    for k in range(3):
        soma, dendrite = section("soma", 1 + 2 * (k % 2), 30, 20), section("d", 5, 200, 2, "pas")
        dendrite.connect(soma(1))
        whole = h.Vector(k + 1)
        element = whole._ref_x[k]
        totals = [h.ext_total(s(1)) for s in (soma, dendrite)]
        for part, total in zip((soma, dendrite), totals, strict=True):
            part.insert("ext_adds")
            total._ref_whole, total.scale = element, 1e-6 * (k + 1)
            for one in part:
                one.ext_adds.ri, one.ext_adds.length = one.ri(), part.L / part.nseg
                one.ext_adds._ref_neighbour = part(0)._ref_v
                one.ext_adds._ref_total, one.ext_adds._ref_whole = total._ref_total, element
        clamp(soma(0.5), 0.3 + 0.2 * k)
        KEPT.extend([whole, element, *totals])
        SEEN.extend([(totals[0], "total"), (totals[1], "kept"), (soma(0.5).ext_adds, "moment")])
        moment = dendrite(0.5).ext_adds._ref_moment
        references += [soma(0.5)._ref_v, dendrite(0.9)._ref_v, element, moment]
        references += [t._ref_total for t in totals] + [t._ref_kept for t in totals]
    return recorded(*references)


def trains():
    """Events at the times in Vectors: one in place of a variable, one behind a POINTER."""
    loaded()
    soma = section("soma", 1, 20, 20)
    vectors = recorded(soma(0.5)._ref_v)
    for k, stim in enumerate((h.vec_inside(), h.vec_pointer(), h.vec_inside(), h.vec_pointer())):
        times = h.Vector([0.7, 2.3, 2.3, 4.4875, 9, 14.1 + k, 18.3, 25][: 8 - 3 * (k // 2)])
        stim.play(times)
        synapse, spikes = h.ExpSyn(soma(0.5)), h.Vector()
        netcon = h.NetCon(stim, synapse, 0, 0.1 + 0.6 * k, 0.002 + 0.001 * k)
        netcon.record(spikes)
        KEPT.extend([stim, times, synapse, netcon])
        vectors += [*recorded(synapse._ref_g), spikes]
    return vectors


def lone():
    """Artificial cells that send to each other, in a model without sections."""
    cells = [(h.IntFire1, h.IntFire2, h.IntFire4)[k % 3]() for k in range(9)]
    stims = [h.NetStim() for _ in range(3)]
    for k, stim in enumerate(stims):
        stim.interval, stim.number, stim.start, stim.noise = 3, 1e9, 1, 1
        stim.noiseFromRandom123(k, 1, 2)
    spike_vectors = []
    for k in range(36):
        netcon = h.NetCon((stims + cells)[k % 12], cells[5 * k % 9], 0, 0.1 + 0.13 * k, 0.6)
        KEPT.append(netcon)
    for cell in cells:
        netcon, spikes = h.NetCon(cell, None), h.Vector()
        netcon.record(spikes)
        KEPT.extend([cell, netcon])
        spike_vectors.append(spikes)
    KEPT.extend(stims)
    return spike_vectors


def hidden():
    """Arrays and numbers that hoc does not see; self events that pending events send."""
    loaded()
    soma = section("soma", 1, 20, 20)
    synapses, stim = [h.ext_array(soma(0.5)) for _ in range(2)], h.NetStim()
    stim.start, stim.interval, stim.number = 1, 2, 100
    for k, synapse in enumerate(synapses):
        netcon = h.NetCon(stim, synapse, 0, 2.3 + k, 0.01 * (k + 1))
        KEPT.append(netcon)
    KEPT.extend([stim, *synapses])
    return recorded(soma(0.5)._ref_v, *(s._ref_g for s in synapses))


def second(order=1):
    """Secondorder: methods that take half a step, and ion currents, which only 2 changes."""
    loaded()
    h.secondorder = order
    soma = section("soma", 1, 20, 20)
    soma.insert("ext_second")
    at = soma(0.5)
    clamp(at)
    names = ("open", "closed", "begun")
    return recorded(
        at._ref_v, at._ref_ina, *(getattr(at.ext_second, f"_ref_{name}") for name in names)
    )


def late():
    """Events due in the last half step before a run ends; an ion style in one segment."""
    loaded()
    soma = section("soma", 2, 30, 20)
    for name in ("ext_ca", "ext_cad"):
        soma.insert(name)
    h.ion_style("ca_ion", 3, 2, 1, 0, 0, sec=soma)
    synapse, spikes = h.ext_sum(soma(0.75)), h.Vector()
    for start in (4.467, 10.993, 12.99, 19.967):
        stim = with_values(h.NetStim(), start=start, number=1)
        netcon = h.NetCon(stim, h.ExpSyn(soma(0.2)), 0, 1, 0.001)
        netcon.record(spikes)
        KEPT.extend([stim, netcon, netcon.syn()])
    KEPT.append(synapse)
    return [*recorded(soma(0.2)._ref_eca, soma(0.8)._ref_eca, soma(0.8)._ref_v), spikes]


def half():
    return second(2)


def common():
    """GLOBALs that INITIAL sets; from NEURON also with later changes."""
    loaded()
    soma = section("soma", 3, 30, 20)
    soma.insert("ext_common")
    clamp(soma(0.5))
    KEPT.append(h.FInitializeHandler("rinf_ext_common = 0.6"))
    return recorded(soma(0.2)._ref_v, soma(0.5).ext_common._ref_r, soma(0.5).ext_common._ref_i)


def clamped():
    """VClamps, one of them stiff; APCounts, with Vectors; values in hoc after a run."""
    soma, dendrite = section("soma", 1, 20, 20), section("dendrite", 5, 200, 2, "pas")
    dendrite.connect(soma(1))
    stiff, soft = h.VClamp(soma(0.5)), h.VClamp(dendrite(0.7))
    soft.gain, soft.rstim, soft.tau1, soft.tau2, soft.fac = 10, 5, 0.05, 0.01, 0.5
    for k, (dur, amp) in enumerate([(2, -65), (3.1, -20), (1.02, -70)]):
        stiff.dur[k], stiff.amp[k], soft.dur[k], soft.amp[k] = dur, amp, 3 * dur, amp + 5 * k
    synapse, current = h.ExpSyn(soma(0.5)), h.IClamp(soma(0.5))
    current.delay, current.dur, current.amp = 7, 100, 0.5
    stim = with_values(h.NetStim(), start=1, interval=3)
    netcon = h.NetCon(stim, synapse, 0, 1, 0.001)
    counts, vectors = [h.APCount(soma(0.5)) for _ in range(3)], [h.Vector(3), h.Vector()]
    counts[1].thresh, counts[2].thresh = 0, -50
    for count, vector in zip(counts, vectors, strict=False):
        count.record(vector)
    KEPT.extend([stiff, soft, synapse, current, stim, netcon, *counts])
    SEEN.extend([(count, name) for count in counts for name in ("n", "time")])
    SEEN.extend([(soft, "i"), (soft, "vo0"), (synapse, "i"), (synapse, "g"), (current, "i")])
    SEEN.extend([(soma(0.5), name) for name in ("v", "ina", "gna_hh", "il_hh", "m_hh", "i_cap")])
    SEEN.extend([(dendrite(0.7), "i_pas"), (soma(0.5), "ena")])
    at = soma(0.5)._ref_v, dendrite(0.7)._ref_v, soft._ref_i, soft._ref_e0, counts[0]._ref_n
    return [*recorded(*at), *vectors]


def patterns():
    """PatternStim for absent gids and a present one; IntFire2."""
    soma, pc = section("soma", 1, 20, 20), h.ParallelContext()
    netcon = h.NetCon(soma(0.5)._ref_v, None, sec=soma)
    pc.set_gid2node(3, pc.id())
    pc.cell(3, netcon)
    rng, stim, spikes = np.random.default_rng(3), h.PatternStim(), h.Vector()
    netcon.record(spikes)
    times = np.sort(rng.uniform(0, 20, 300)).round(3)
    stim.play(h.Vector(times), h.Vector(rng.integers(0, 4, 300)))
    synapses = [h.ExpSyn(soma(0.5)) for _ in range(3)]
    for k, synapse in enumerate([*synapses, synapses[0]]):
        KEPT.append(pc.gid_connect(k % 3, synapse))
        KEPT[-1].delay, KEPT[-1].weight[0] = 0.3 + 0.7 * k, 0.001 * (k + 1)
    fires, sent = [h.IntFire2(), h.IntFire2()], h.Vector()
    fires[0].ib, fires[1].ib = 2, 0.5
    for source, target, weight in ((fires[0], fires[1], 2.1), (fires[1], fires[0], -0.4)):
        KEPT.append(h.NetCon(source, target))
        KEPT[-1].weight[0] = weight
    KEPT.append(h.NetCon(fires[1], None))
    KEPT[-1].record(sent)
    KEPT.extend([netcon, stim, *synapses, *fires])
    SEEN.extend([(fire, name) for fire in fires for name in ("i", "m")])
    return [*recorded(soma(0.5)._ref_v, *(s._ref_g for s in synapses)), spikes, sent]


def seen():
    return [np.array([float(getattr(thing, name))]) for thing, name in SEEN]


def compared(case, engine):
    """Return all vectors' largest differences, for a run in one piece and in turns with NEURON."""
    vectors = globals()[case]()
    stop, results = 20.0, {}
    h.finitialize(-65)
    h.continuerun(stop)
    truth, end = [np.array(v) for v in vectors] + seen(), h.t
    ways = {"whole": [(1, 20)], "turns": [(0, 4.5), (1, 11.025), (0, 13), (1, 20)]}
    if case == "crossing":
        first, second = steps_of_crossing(vectors)
        ways = {"neuron first": first, "neuron last": second}
    for name, parts in ways.items():
        in_turns(parts, engine)
        got = [np.array(v) for v in vectors] + seen()
        results[name] = {
            "lengths": [[len(a), len(b)] for a, b in zip(truth, got, strict=True)],
            "differences": [
                float(np.abs(a - b).max(initial=0)) if len(a) == len(b) else None
                for a, b in zip(truth, got, strict=True)
            ],
            "scales": [float(np.abs(a).max(initial=0)) for a in truth],
            "t": h.t - end,
        }
    return results


if __name__ == "__main__":
    print(json.dumps(compared(*sys.argv[1:])))
