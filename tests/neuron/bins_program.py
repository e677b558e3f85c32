"""Compare a network with ``CVode.queue_mode(1, 0)`` with NEURON; print the differences.

``bins_program.py ENGINE DT``: an engine of `Simulation`, and the step. With "epochs-gpu"
there are no artificial cells.
"""

import json
import sys

import numpy as np
from support.mod_files import loaded
from support.neuron_scripts import in_turns, make_section, with_values

SEED, STOP = 3, 24.0


def built(h, rng, artificial):
    """Make cells that excite each other by pulses, with delays between steps; return Vectors."""
    kept, vectors, sources = [], [], []
    for k in range(4):
        soma = make_section(f"soma{k}", "hh", L=20, diam=20)
        clamp = with_values(h.IClamp(soma(0.5)), delay=0.3 * k, dur=100, amp=0.22 + 0.05 * (k // 2))
        kept += [soma, clamp]
        sources.append((soma(0.5)._ref_v, soma))
    targets = [h.ext_pulse(soma(0.5)) for soma in kept[::2] for _ in range(2)]
    if artificial:
        fire, still, noisy = with_values(h.IntFire1(), tau=8, refrac=1.5), h.NetStim(), h.NetStim()
        still.interval, still.number, still.start = 1.75, 1e6, 1
        noisy.interval, noisy.number, noisy.start, noisy.noise = 2.3, 1e6, 0.2, 1
        sources += [(fire, None), (still, None), (noisy, None)]
        kept += [fire, still, noisy]
    delays = np.array([0.613, 1.0, 1.0125, 2.3, 0.9, 0.6125])
    for number, target in enumerate(targets):
        for source, owner in sources:
            for _ in range(int(rng.integers(1, 3))):
                netcon = h.NetCon(source, target, sec=owner) if owner else h.NetCon(source, target)
                netcon.delay = float(rng.choice(delays)) if number % 3 else 1.0
                netcon.weight[0] = float(rng.uniform(0, 0.0004))
                kept.append(netcon)
    if artificial:
        for source, owner in sources[:4]:
            netcon = h.NetCon(source, fire, 10, 0.613, float(rng.normal(0.4, 0.5)), sec=owner)
            kept.append(netcon)
    for source, owner in sources:
        netcon = h.NetCon(source, None, sec=owner) if owner else h.NetCon(source, None)
        vectors.append(h.Vector())
        netcon.record(vectors[-1])
        kept.append(netcon)
    for target in targets:
        names = ("_ref_g", "_ref_mixed", "_ref_last", "_ref_crossed")
        vectors += [h.Vector().record(getattr(target, name)) for name in names]
    vectors += [h.Vector().record(reference) for reference, _ in sources[:4]]
    return vectors, [kept, targets]


def compared(engine, dt, mode=1):
    """Return all Vectors' largest differences, for a run in one piece and in turns with NEURON."""

    h = loaded()
    h.dt, h.steps_per_ms = dt, 1 / dt
    vectors, kept = built(h, np.random.default_rng(SEED), engine != "epochs-gpu")
    h.CVode().queue_mode(mode, 0)
    h.finitialize(-65)
    h.continuerun(STOP)
    truth, sources = [np.array(v) for v in vectors], 4 if engine == "epochs-gpu" else 7
    result = {"events": sum(len(v) for v in vectors[:sources])}
    h.CVode().queue_mode(0, 0)  # the same run without bins
    h.finitialize(-65)
    h.continuerun(STOP)
    result["plain"] = same(truth, [np.array(v) for v in vectors])
    h.CVode().queue_mode(mode, 0)
    ways = {"whole": [(1, STOP)], "turns": [(0, 4.5), (1, 11), (0, 13), (1, STOP)]}
    for name, parts in ways.items():
        in_turns(parts, engine)
        result[name] = same(truth, [np.array(v) for v in vectors])
    del kept
    return result


def same(truth, got):
    """Return the largest difference over a Vector's largest value; None if lengths differ."""
    if [len(v) for v in truth] != [len(v) for v in got]:
        return None
    return max(
        float(np.abs(a - b).max(initial=0)) / max(float(np.abs(a).max(initial=0)), 1e-6)
        for a, b in zip(truth, got, strict=True)
    )


if __name__ == "__main__":
    engine, dt = sys.argv[1:]
    print(json.dumps(compared(engine, float(dt))))
