"""Compare cells in which states diffuse with NEURON; print the differences.

``diffusion_program.py CASE ENGINE``: a process of its own for each case.
"""

import json
import sys

import numpy as np
from support.mod_files import loaded
from support.neuron_scripts import go_on, make_section, with_values

h = loaded()
h.celsius, h.dt = 20, 0.025
KEPT = []


def section(name, nseg, length, diam):
    made = make_section(name, "pas", nseg=nseg, L=length, diam=diam)
    KEPT.append(made)
    return made


def branched(mechanism, without=()):
    """Sections joined at 0, at 1 and between, some turned round; two cells; returns by name."""
    soma, a = section("soma", 3, 30, 12), section("a", 4, 80, 2)
    b, c, d = section("b", 5, 60, 1), section("c", 1, 20, 1.5), section("d", 2, 50, 0.8)
    e, f, g = section("e", 3, 40, 1), section("f", 2, 33, 1.1), section("g", 3, 21, 0.7)
    k, m = section("k", 1, 20, 1), section("m", 2, 30, 1)
    a.connect(soma(1))
    b.connect(a(0.3), 1)
    c.connect(a(1))
    d.connect(a(1))
    e.connect(soma(0))
    f.connect(c(0.5))
    g.connect(b(0))
    k.connect(a(0.6))
    m.connect(k(0.5))  # without `k` NEURON joins it to `a`
    section("other", 4, 60, 2)
    clamp = with_values(h.IClamp(soma(0.5)), dur=1e9, amp=0.1)
    KEPT.append(clamp)
    sections = {s.name(): s for s in KEPT if hasattr(s, "nseg") and s.name() not in without}
    for made in sections.values():
        made.insert(mechanism)
    return sections


def sources(sections):
    """Give each segment its own coefficient, and two segments a source."""
    random = np.random.default_rng(1)
    for made in sections.values():
        for segment in made:
            segment.ext_spread.D = random.uniform(0.1, 2)
    sections["a"](0.4).ext_spread.source = 1e-2
    sections["g"](0.5).ext_spread.source = 5e-3


def spread(without=(), order=0):
    sections = branched("ext_spread", without)
    sources(sections)
    h.secondorder = order
    return sections, [s._ref_cai for made in sections.values() for s in made]


def shells():
    """Two state arrays, one reacting with the other, and a state that only diffuses."""
    sections = branched("ext_shells", ("c",))
    sections["a"](0.6).ext_shells.start = 1e-3
    sections["d"](0.2).ext_shells.start = 4e-4
    every = [segment for made in sections.values() for segment in made]
    with_shells = [segment.ext_shells for segment in every]
    states = [of[k] for one in with_shells for of in (one._ref_ca, one._ref_free, one._ref_bound)
             for k in range(3)]  # fmt: skip
    return sections, states + [r for one in with_shells for r in (one._ref_marker, one._ref_seen)]


def changes(sections):
    """Parameters that a user changes between runs."""
    sections["a"].diam = 3
    sections["b"].L = 90
    h.DBuf_ext_shells = 0.2
    for segment in sections["d"]:
        segment.ext_shells.DCa = 2


def at(name, x):
    def moved(sections):
        sections["f"].disconnect()
        sections["f"].connect(sections[name](x))

    return moved


def played():
    sections, references = spread()
    times, values = h.Vector([0, 2, 4]), h.Vector([0.1, 3, 0.2])
    values.play(sections["a"](0.4)._ref_D_ext_spread, times, 1)
    KEPT.extend([times, values])
    return sections, references


def initialise(sections):
    h.finitialize(-65)


# functions that build a model, and actions: calls, or runs until a time
CASES = {
    "spread": (spread, (3,)),
    "part": (lambda: spread(("c", "e", "k")), (3,)),
    "second": (lambda: spread(order=2), (2,)),
    "first": (lambda: spread(order=1), (2,)),
    "shells": (shells, (1.5,)),
    "pieces": (shells, (0.5, 0.525, 1.2)),
    "twice": (shells, (0.5, initialise, 1)),
    "changed": (shells, (0.5, changes, 1, changes, 1.5)),
    "again": (shells, (0.5, changes, initialise, 1)),
    "joined": (spread, (at("c", 0.5), initialise, 1, at("soma", 0.5), 2)),
    "played": (played, (3,)),
    "saved": (spread, (1, lambda _: STATE.save(), 2, lambda _: STATE.restore(), 2.5)),
}
STATE = h.SaveState()


def compared(case, engine):
    """Return the largest relative difference among all records and all values at the end."""
    build, script = CASES[case]
    sections, references = build()
    vectors = [h.Vector().record(reference) for reference in references]
    results = []
    for ours in (False, True):
        h.finitialize(-65)
        for part in script:
            if callable(part):
                part(sections)
            else:
                go_on(part, engine if ours else None)
        results.append(np.array([v.as_numpy().copy() for v in vectors]))
        results.append(np.array([reference[0] for reference in references]))
        if changes in script:
            restored(sections)
    rows, last, our_rows, our_last = results
    pairs = (our_rows, rows), (our_last, last)
    largest = max(np.max(np.abs(a - b) / np.where(b, b, 1)) for a, b in pairs)
    spread_out = np.ptp(last) / last.min()
    return {"shapes": [rows.shape, our_rows.shape], "difference": largest, "spread": spread_out}


def restored(sections):
    sections["a"].diam, sections["b"].L, h.DBuf_ext_shells = 2, 60, 0.05
    for segment in sections["d"]:
        segment.ext_shells.DCa = 0.6


def random_trees(engine, first, end):
    """Return the largest relative difference of random trees; some sections have the mechanism.

    Also count the segments whose concentration another segment's source has raised.
    """
    worst, raised = 0.0, 0
    for seed in range(int(first), int(end)):
        random = np.random.default_rng(seed)
        for k in range(int(random.integers(2, 14))):
            size = random.uniform((2, 0.5), (60, 4)).tolist()
            made = section(f"s{k}", int(random.integers(1, 5)), *size)
            if k and random.random() < 0.93:
                which, x = random.integers(0, k), float(random.choice([0, 1, 0.5, 0.2, 0.9]))
                made.connect(KEPT[which](x), int(random.random() < 0.2))
        some = [made for made in KEPT if random.random() < 0.7] or KEPT[:1]
        for made in some:
            made.insert("ext_spread")
            for segment in made:
                segment.ext_spread.D = random.uniform(0.1, 5)
        some[0](0.5).ext_spread.source = 0.01
        vectors = [h.Vector().record(s._ref_cai) for made in some for s in made]
        results = []
        for ours in (False, True):
            h.finitialize(-65)
            go_on(2, engine if ours else None)
            results.append(np.array([v.as_numpy().copy() for v in vectors]))
        worst = max(worst, np.abs(results[1] / results[0] - 1).max())
        raised += int((results[0][:, -1] > 5.1e-5).sum()) - 1
        del vectors, segment, made, some
        KEPT.clear()
    return {"difference": worst, "raised": raised}


if __name__ == "__main__":
    case, *words = sys.argv[1:]
    others = {"random": random_trees}
    print(json.dumps(others[case](*words) if case in others else compared(case, *words)))
