"""Compare simultaneous events, played values and WATCH conditions with NEURON.

``queue_program.py CASE SEED ENGINE PIECES``: prints, for each piece in ms, the differing vectors.
Special pieces are 0, one run; ``1e``, by a recurrent `CVode.event`; and ``n1``, by NEURON until
then, and on by the engine. The seed draws models with round times, at which NEURON's queue has
several items.
"""

import json
import sys

import numpy as np
from neuron import h
from support.mod_files import FOLDER, library
from support.neuron_scripts import go_on, with_values

KEPT = []


def built():
    return library([f"queue/{path.stem}" for path in sorted((FOLDER / "queue").iterdir())])


def section(mechanism="pas"):
    made = with_values(h.Section(), L=20, diam=20)
    made.insert(mechanism)
    KEPT.append(made)
    return made(0.5)


def connect(source, target, weight, delay):
    made = h.NetCon(source, target, 0, delay, weight)
    times = h.Vector()
    made.record(times)
    KEPT.append(made)
    return times


def stim(start, interval, number=1e9):
    made = with_values(h.NetStim(), start=start, interval=interval, number=number)
    KEPT.append(made)
    return made


def play(times, values, reference, continuous):
    t, y = h.Vector(times), h.Vector(values)
    KEPT.extend([t, y])
    y.play(reference, t, *[1] * continuous)


def clamp(at, amp=0.2):
    made = with_values(h.IClamp(at), delay=1, dur=100, amp=amp)
    KEPT.append(made)


def recorded(*references):
    return [h.Vector().record(r) for r in references]


def knots(rng, count, low, high, steps=(0.5, 1, 1.25, 2.5, 0.733)):
    """Return times, most of them round, and values; from 0 on, where a run begins again."""
    t = np.cumsum([0, *rng.choice([0, 1.3], 1, p=[0.75, 0.25]), *rng.choice(steps, count)])
    return t.tolist(), rng.uniform(low, high, len(t)).round(2).tolist()


def moves(rng):
    """A self event is moved while others are pending."""
    at = section()
    cell, target = with_values(h.ext_moves(), order=rng.integers(3)), h.ExpSyn(at)
    cell.first, cell.second, cell.by = (round(rng.uniform(2, 6), 1) for _ in range(3))
    connect(stim(1, 1, 1), cell, 1, 0.5)
    connect(stim(2.3, 1, 1), cell, -1, 0.5)
    KEPT.extend([cell, target])
    return [*recorded(at._ref_v), connect(cell, target, 0.01, 1)], 15


def fires(rng):
    """Neurons with individual voltages send by WATCH and net_event to each other."""
    at = section()
    target = h.ExpSyn(at)
    cells = [h.ext_fires(at) for _ in range(10)]
    KEPT.extend([target, *cells])
    vectors = recorded(at._ref_v)
    for k, cell in enumerate(cells):
        cell.drive = rng.uniform(200, 500)
        vectors += [connect(cell, target, 0.001, float(rng.choice([0, 0.5, 1])))]
        vectors += [*recorded(cell._ref_count), connect(cell, cells[k - 1], 2, 0.5)]
    return vectors, 30


def interval(rng):
    """An interval in a NetStim is played, mostly at its event times."""
    at = section()
    target, source = h.ExpSyn(at), stim(*rng.choice([1.0, 2.0, 5.0, 10.0], 2).tolist())
    KEPT.append(target)
    play(
        [0, 25, 50, 75],
        rng.choice([1.0, 2.0, 2.5, 4.0, 5.0], 4).tolist(),
        source._ref_interval,
        False,
    )
    return [connect(source, target, 0.001, 1), *recorded(at._ref_v)], 100


def gain(rng):
    """Events read a parameter that is played, in steps or continuously."""
    at = section()
    synapse = h.ext_gain(at)
    KEPT.append(synapse)
    play(*knots(rng, 10, 0, 10), synapse._ref_gain, bool(rng.integers(2)))
    for k in range(int(rng.integers(1, 4))):
        source = stim(float(rng.choice([0, 0.5, 1, 1.25, 1.501, 1.499, 1.5125])),
                      float(rng.choice([0.5, 1, 2.5, 1.3])), 8)  # fmt: skip
        connect(source, synapse, 0.001 * (k + 1), float(rng.choice([1, 1, 1.001, 0.5, 1.49, 0])))
    names = "g", "seen", "gain", "last"
    return recorded(at._ref_v, *(getattr(synapse, f"_ref_{n}") for n in names)), 15


def level(rng):
    """A WATCH condition compares the voltage with a played value."""
    at = section("hh" if rng.integers(2) else "pas")
    watch, target = h.ext_level(at), h.ExpSyn(at)
    KEPT.extend([watch, target])
    clamp(at)
    play(*knots(rng, 14, -70, 20), watch._ref_level, bool(rng.integers(2)))
    vectors = recorded(at._ref_v, watch._ref_n, watch._ref_last, watch._ref_level)
    return [*vectors, connect(watch, target, 5e-4, 0.3)], 20


def clock(rng):
    """A WATCH condition compares the time with a variable that events set."""
    at = section()
    watch, target = h.ext_clock(at), h.ExpSyn(at)
    KEPT.extend([watch, target])
    watch.start = rng.choice([3, 2.5, 3.0125])
    connect(stim(4, rng.choice([2.0, 1.7])), watch, rng.choice([0.5, 0.7125]), 1)
    return [
        *recorded(at._ref_v, watch._ref_n, watch._ref_at),
        connect(watch, target, 5e-3, 0.3),
    ], 20


def differences(ours, theirs):
    results = []
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if len(a) != len(b):
            results.append([k, "length", len(a), len(b)])
        elif len(a) and (far := np.abs(a - b).max()) > 1e-9 * max(1, np.abs(b).max()):
            at = int(np.argmax(np.abs(a - b)))
            results.append([k, float(far), float(a[at]), float(b[at])])
    return results


def ran(vectors, tstop, piece, engine):
    """Return the vectors of a run by NEURON, or by this package if an engine is named."""
    h.finitialize(-65)
    if recurs := piece.endswith("e"):

        def again():
            h.cvode.event(h.t + 1, again)

        h.cvode.event(1, again)
    if piece.startswith("n"):
        h.continuerun(float(piece[1:]))
    length = 0 if recurs or piece.startswith("n") else float(piece)
    for until in np.arange(length, tstop + length / 2, length) if length else [tstop]:
        go_on(until, engine)
    return [np.array(v) for v in vectors]


if __name__ == "__main__":
    case, seed, engine, pieces = sys.argv[1:5]
    h.load_file("stdrun.hoc")
    h.nrn_load_dll(str(built()))
    vectors, tstop = globals()[case](np.random.default_rng(int(seed)))
    h.dt = 0.025
    theirs = {recurs: ran(vectors, tstop, "1e" if recurs else "0", "") for recurs in (False, True)}
    found = {
        piece: differences(ran(vectors, tstop, piece, engine), theirs[piece.endswith("e")])
        for piece in pieces.split(",")
    }
    print(json.dumps({"lengths": [len(v) for v in theirs[False]], "found": found}))
