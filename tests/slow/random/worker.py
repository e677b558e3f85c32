"""One random model in this process: by NEURON, by this package, and by NEURON nudged.

    python -m bench measures.random.worker SEED STOP ENGINE DTYPE DEVICE LIBRARY

With the engine "switch" NEURON's own calls run, and a seeded coin assigns each call. Values change
before some calls; SaveState undoes some calls, which are then repeated. It prints a line of JSON.
"""

import json
import math
import sys

import numpy as np

import clhines
from bench.measures.random.models import make
from clhines.neuron.switch.cost import Accounts

MARK = "RANDOM "
CALLS = 8  # calls per run; a coin decides who takes each
MOVES = "ext_move", "ext_sum"  # mechanisms with net_move
SAME = 1e-9  # ms between one spike's times
# NEURON takes conductances as differences of currents over 0.001 mV, which rounds: a voltage moves
# by about this in a step beside exact slopes, mV.
NUDGE = 1e-11
NOT_NOISE = 1e-8  # relative: above it, the nudged NEURON is run, too


def pieces(model, stop):
    """Return ends of the pieces of a run, and whether this package runs them."""
    rng = model.rng
    count = int(rng.choice([1, 1, 1, 2, 3]))
    ends = [*sorted(float(x) for x in rng.uniform(0.05 * stop, 0.95 * stop, count - 1)), stop]
    turns = [bool(k % 2 == 0 or rng.random() < 0.5) for k in range(count)]
    if model.events.plastic:  # events on their way with changing weights are rejected
        turns = [k == 0 for k in range(count)]
    return list(zip(ends, turns, strict=True))


def decide_at_random(seed):
    """Turn the switch on, and let a coin decide each call."""
    coin = np.random.default_rng(seed)
    Accounts.device_is_sooner = lambda *_: bool(coin.random() < 0.5)
    clhines.neuron.enable(when="faster")


def visits(h, model, seed, stop):
    """Return the calls of a run: plain ones, some after a change, some repeated by SaveState."""
    rng = np.random.default_rng([17, seed])
    ends = [*np.sort(rng.uniform(0.02 * stop, 0.98 * stop, CALLS - 1)).tolist(), stop]
    sections = list(h.allsec())
    section, factor = sections[int(rng.integers(len(sections)))], float(rng.uniform(0.8, 1.25))
    wires = [thing for thing in model.events.kept if hasattr(thing, "wcnt") and thing.wcnt() >= 1]
    wire = wires[int(rng.integers(len(wires)))] if wires and not model.events.plastic else None
    values = section.cm, wire.weight[0] if wire is not None else 0.0

    def put(factor):
        section.cm = values[0] * factor
        if wire is not None:
            wire.weight[0] = values[1] * factor

    def begin(until):
        put(1.0)
        h.continuerun(until)

    def plain(until):
        h.continuerun(until)

    def changed(until):
        put(factor)
        h.continuerun(until)

    def twice(until):
        saved = h.SaveState()
        saved.save()
        h.continuerun(until)
        saved.restore(1)
        h.continuerun(until)

    kinds = [plain, changed, twice]
    things = (*model.events.points, *(thing for thing, _ in model.events.targets))
    if any(str(thing).split("[")[0] in MOVES for thing in things):
        kinds.remove(twice)  # NEURON restores no self event for net_move to find
    ways = [begin, *rng.choice(kinds, CALLS - 1)]
    return list(zip(ends, ways, strict=True))


def first_difference(truth, other):
    """Return the time of the first spike with another time or source, or without a partner."""
    results = []
    for t, n, u, m in zip(truth[0], truth[1], other[0], other[1], strict=True):
        size = min(len(t), len(u))
        wrong = np.flatnonzero((np.abs(t[:size] - u[:size]) > SAME) | (n[:size] != m[:size]))
        results += [min(t[k], u[k]) for k in wrong[:1]] or [
            *t[size : size + 1],
            *u[size : size + 1],
        ]
    return float(min(results)) if results else None


def largest(model, truth, other, until, dt):
    worst = {"relative": 0.0, "where": "", "v": 0.0}
    for (name, _), a, b in zip(model.traces, truth[2], other[2], strict=True):
        if len(a) != len(b):
            return {"relative": math.inf, "where": f"{name}: {len(a)} {len(b)} values", "v": 0.0}
        if until < math.inf and len(a):
            keep = max(int(until / (dt * (truth_steps(truth) - 1)) * len(a)), 1)
            a, b = a[:keep], b[:keep]
        gap = np.abs(a - b)
        gap[np.isnan(a) & np.isnan(b)] = 0.0
        gap = float(gap.max(initial=0.0))
        gap = math.inf if math.isnan(gap) else gap
        scale = float(np.nanmax(np.abs(a), initial=0.0))
        if name.endswith(".v"):
            worst["v"] = max(worst["v"], gap)
        if gap and (not scale or gap / scale > worst["relative"]):
            worst["relative"], worst["where"] = gap / scale if scale else math.inf, name
    return worst


def truth_steps(truth):
    """Return the number of values recorded in each step."""
    return max(len(a) for a in truth[2])


def nudged(h, model):
    """Return a run by NEURON that nudges each voltage after each step."""
    references = [s._ref_v for c in model.cells for section in c.sections for s in section]

    def run(until):
        steps = math.ceil((until - h.t) / h.dt - 0.5 - 1e-6)
        for k in range(steps):
            h.fadvance()
            for v in references:
                v[0] += NUDGE if k % 2 else 2 * NUDGE

    return run


def run_all(h, model, plan):
    model.reset(h)
    for until, way in plan:
        way(until)
    return model.taken()


def compared(seed, stop, engine, dtype, device):
    from neuron import h

    model = make(h, seed)
    plan = pieces(model, stop)

    def ours(until):
        clhines.neuron.run(until, engine=engine, dtype=dtype, device=device)

    row = {"seed": seed, "refused": model.refused, "pieces": len(plan)}
    if model.refused:
        model.reset(h)
        return row | _refusal(h, model.refused, ours)
    calls = [(until, ours if mine else h.continuerun) for until, mine in plan]
    by_neuron = [(until, h.continuerun) for until, _ in plan]
    if engine == "switch":
        calls = by_neuron = visits(h, model, seed, stop)
        row["calls"] = [way.__name__ for _, way in calls]
    run_all(h, model, by_neuron)  # variables that no INITIAL sets
    truth = run_all(h, model, by_neuron)
    if engine == "switch":
        decide_at_random(seed)
    try:
        got = run_all(h, model, calls)
    except clhines.ClhinesError as error:
        finite = all(np.isfinite(a).all() for a in truth[2])
        return row | {"rejected": str(error)[:300], "finite": bool(finite)}
    first = first_difference(truth, got)
    row |= {
        "spikes": sum(map(len, truth[0])),
        "ours": sum(map(len, got[0])),
        "differs": first,
        **largest(model, truth, got, math.inf if first is None else first - 2.0, float(h.dt)),
    }
    clhines.neuron.disable()
    if first is not None or row["relative"] > NOT_NOISE:
        other = run_all(h, model, [(until, nudged(h, model)) for until, _ in plan])
        row["nudged"] = first_difference(truth, other)
    return row


def _refusal(h, what, ours):
    try:
        ours(h.t + 10 * h.dt)
    except clhines.InputError as error:
        said = str(error)
        return {"said": said[:300], "named": what in said}
    return {"said": "", "named": False}


def main(arguments):
    seed, stop, engine, dtype, device, library = arguments
    from neuron import h

    h.load_file("stdrun.hoc")
    h.nrn_load_dll(library)
    row = compared(int(seed), float(stop), engine, dtype, device or None)
    print(MARK + json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
