"""Random networks of mechanisms that come with NEURON, run by NEURON and by this package.

``neuron_random.py FIRST COUNT STOP ENGINE`` prints a line of JSON for each seed: how many spikes,
and the first that differs.
"""

import json
import sys

import numpy as np
from neuron import h

h.load_file("stdrun.hoc")


def network(seed):
    """Return what must live on, and the vectors of spike times and of their sources."""
    rng = np.random.default_rng(seed)
    h.celsius, h.dt, h.steps_per_ms = float(rng.choice([6.3, 16.0])), 0.025, 40
    kept, cells, sources, targets = [], [], [], []
    for c in range(int(rng.integers(2, 5))):
        cells.append(_cell(rng, c, kept, targets))
        sources.append((cells[-1](0.5)._ref_v, cells[-1]))
    for _ in range(int(rng.integers(1, 5))):
        stim = h.NetStim()
        stim.interval, stim.number = rng.uniform(5, 30), int(rng.choice([7, 1e9]))
        stim.start, stim.noise = rng.uniform(0, 20), float(rng.choice([0, 0.4, 1]))
        stim.ranvar.set_ids(seed, len(kept), int(rng.integers(2**32)))
        sources.append((stim, None))
        kept.append(stim)
    for _ in range(int(rng.integers(1, 4))):
        fire = _artificial(rng)
        sources.append((fire, None))
        targets.append((fire, rng.uniform(0.2, 0.7)))
        kept.append(fire)
    spikes, numbers, pc = h.Vector(), h.Vector(), h.ParallelContext()
    pc.gid_clear()
    for gid, (source, sec) in enumerate(sources):
        pc.set_gid2node(gid, 0)
        pc.cell(gid, h.NetCon(source, None, sec=sec) if sec else h.NetCon(source, None))
        for k in rng.choice(len(targets), int(rng.integers(1, 4))):
            target, weight = targets[k]
            made = pc.gid_connect(gid, target)
            made.delay, made.weight[0] = rng.uniform(0.3, 8), weight * rng.uniform(0.3, 1.5)
            if "IntFire" in str(source) and "IntFire" in str(target):  # else they run away
                made.weight[0] *= -1
            kept.append(made)
    pc.spike_record(-1, spikes, numbers)
    return [kept, cells, pc], spikes, numbers


def _cell(rng, number, kept, targets):
    soma = h.Section(name=f"soma{number}")
    soma.L = soma.diam = rng.uniform(10, 30)
    soma.insert("hh")
    dendrite = h.Section(name=f"dendrite{number}")
    dendrite.L, dendrite.diam, dendrite.nseg = rng.uniform(50, 300), rng.uniform(0.5, 3), 3
    dendrite.insert("pas")
    dendrite.g_pas, dendrite.e_pas = 2e-4, -65
    dendrite.connect(soma(1))
    kept.append(dendrite)
    for _ in range(2):
        where = dendrite(rng.uniform())
        synapse = h.ExpSyn(where) if rng.uniform() < 0.5 else h.Exp2Syn(where)
        if hasattr(synapse, "tau"):
            synapse.tau = rng.uniform(0.5, 4)
        else:
            synapse.tau1, synapse.tau2 = rng.uniform(0.2, 1), rng.uniform(2, 6)
        synapse.e = float(rng.choice([0, -75]))
        targets.append((synapse, rng.uniform(0.001, 0.02)))
        kept.append(synapse)
    if rng.uniform() < 0.5:
        clamp = h.IClamp(soma(0.5))
        clamp.delay, clamp.dur, clamp.amp = rng.uniform(0, 50), rng.uniform(50, 500), 0.2
    else:
        clamp = h.SEClamp(dendrite(0.9))
        clamp.rs, clamp.dur1, clamp.amp1 = rng.uniform(5, 50), rng.uniform(50, 200), -50
    kept.append(clamp)
    return soma


def _artificial(rng):
    kind = int(rng.integers(3))
    if kind == 0:
        fire = h.IntFire1()
        fire.tau, fire.refrac = rng.uniform(5, 20), rng.uniform(1, 5)
    elif kind == 1:
        fire = h.IntFire2()
        fire.taum, fire.taus, fire.ib = rng.uniform(5, 15), rng.uniform(16, 30), rng.uniform(0, 0.9)
    else:
        fire = h.IntFire4()
        fire.taue, fire.taum = rng.uniform(1, 4), rng.uniform(20, 40)
    return fire


def compared(seed, stop, engine):
    """Return how many spikes there are, and the first that differs by more than 1e-9 ms."""
    import clhines

    kept, spikes, numbers = network(seed)
    found = []
    for run in (h.continuerun, lambda t: clhines.neuron.run(t, engine=engine)):
        for stim in kept[0]:
            if "NetStim" in str(stim):
                stim.ranvar.set_seq(0)
        h.finitialize(-65)
        run(stop)
        order = np.lexsort((np.array(numbers), np.round(np.array(spikes), 6)))
        found.append((np.array(spikes)[order], np.array(numbers)[order]))
    (t, n), (u, m) = found
    size = min(len(t), len(u))
    wrong = np.flatnonzero((np.abs(t[:size] - u[:size]) > 1e-9) | (n[:size] != m[:size]))
    first = float(t[wrong[0]]) if len(wrong) else None
    if first is None and len(t) != len(u):
        first = float((t if len(t) > len(u) else u)[size])
    return {"seed": seed, "spikes": len(t), "ours": len(u), "differs": first}


if __name__ == "__main__":
    first, count, stop, engine = sys.argv[1:]
    for seed in range(int(first), int(first) + int(count)):
        print(json.dumps(compared(seed, float(stop), engine)), flush=True)
