"""Compare cells with `extracellular` with NEURON; print the differences.

``outside_program.py CASE ENGINE``: a process of its own for each case.
"""

import json
import sys

import numpy as np
from neuron import h
from support.mod_files import loaded
from support.neuron_scripts import go_on, make_section, with_values

import clhines

h.load_file("stdrun.hoc")
KEPT = []
STOP = 20.0
MOST, RATIO = 1.0, 1e4  # S/cm²: the largest xg of layers, and to the smallest
# A row of NEURON's matrix has the sum of the conductances at a potential. Each of some 500
# operations rounds it by 2^-53, which changes a conductance that is RATIO times smaller by this
# share.
ROUNDED = 500 * 2.0**-53 * RATIO


def branched(seed=5, membrane="hh"):
    """Two cells of different resistance; sections joined at 0, at 1, between, and turned round."""
    random, made = np.random.default_rng(seed), {}
    for name in "abcdefghk":
        one = made[name] = h.Section(name=name)
        one.nseg, one.L = int(random.integers(1, 6)), random.uniform(20, 300)
        one.diam, one.Ra = random.uniform(1, 12), random.uniform(50, 200)
        one.insert(membrane)
    for child, mother, x, end in (("b", "a", 1, 0), ("c", "b", 1, 0), ("d", "b", 1, 1),
                                  ("e", "c", 0.3, 0), ("f", "a", 0, 0), ("g", "a", 0, 1),
                                  ("k", "h", 1, 0)):  # fmt: skip
        made[child].connect(made[mother](x), end)
    clamp, stim, synapse = h.IClamp(made["a"](0.5)), h.NetStim(), h.ExpSyn(made["c"](0.5))
    clamp.delay, clamp.dur, clamp.amp = 2, 5, 0.3
    end = with_values(h.IClamp(made["d"](made["d"].orientation() == 0)), delay=4, dur=9, amp=0.1)
    stim.start, stim.number, stim.interval, stim.noise = 3, 4, 2, 0
    netcon = h.NetCon(stim, synapse, 0, 1, 0.002)
    KEPT.extend([made, clamp, end, stim, synapse, netcon])
    return made


def outside(made, without=("c", "g")):
    """Insert the mechanism into all sections except some; return its segments."""
    for name in made.keys() - {*without}:
        made[name].insert("extracellular")
    return [segment for name in sorted(made.keys() - {*without}) for segment in made[name]]


def put(segments, random, size=20):
    for segment in segments:
        segment.e_extracellular = random.uniform(-size, size)


def play(segments, ways):
    """Play into each segment in one of the ways: continuous, in steps, at other times."""
    random = np.random.default_rng(2)
    times = [h.Vector(np.sort(random.uniform(0, STOP, n))) for n in (40, 30)]
    for k, segment in enumerate(segments):
        way = ways[k % len(ways)]
        values = h.Vector(random.uniform(-20, 20, 40))
        if way == "continuous":
            values.play(segment._ref_e_extracellular, times[0], 1)
        elif way == "steps":
            values.play(segment._ref_e_extracellular, times[0])
        elif way == "others":
            values.play(segment._ref_e_extracellular, times[1], 1)
        elif way == "drawn":
            drawn = h.Random()
            drawn.Random123(1, k)
            drawn.uniform(-20, 20)
            drawn.play(segment._ref_e_extracellular)
            values = drawn
        KEPT.append(values)
    KEPT.append(times)


def at_rest(segments):
    pass


def constant(segments):
    put(segments, np.random.default_rng(1))


def played(*ways):
    def build(segments):
        constant(segments)
        play(segments, ways)

    return build


def written(*ways):
    """A mechanism sets potentials by a POINTER; a GLOBAL variable that it reads may be played."""

    def build(segments):
        constant(segments)
        random = np.random.default_rng(7)
        own = [segment for segment in segments if segment.sec.name() not in ("e", "k")]
        for section in {segment.sec for segment in own}:
            section.insert("ext_outside")
        for segment in own:
            h.setpointer(segment._ref_e_extracellular, "ex", segment.ext_outside)
            h.setpointer(segment._ref_i_membrane, "im", segment.ext_outside)
            segment.ext_outside.rx, segment.ext_outside.rate = random.uniform((-2, -0.2), (2, 0.2))
        if ways:
            times = h.Vector([0, 2, 2, 6, 6.5, 30])
            current = h.Vector([0, 0, 1e-5, 1e-5, -5e-6, 0])
            current.play(h._ref_is_ext_outside, times, *ways)
            some = h.Vector([0, 3, -1, 2, 1, 1])
            some.play(own[2].ext_outside._ref_rx, times, *ways)
            KEPT.extend([times, current, some])

    return build


def layers(segments, factor=1.0):
    """Give each segment different layers; `factor` scales NEURON's own terms in its matrix."""
    random, least = np.random.default_rng(11), np.log10(MOST / RATIO)
    for segment in segments:
        for layer in range(int(h.nlayer_extracellular())):
            segment.xg[layer] = factor * 10 ** random.uniform(least, np.log10(MOST))
            segment.xraxial[layer] = 10 ** random.uniform(2, 9) / factor
            segment.xc[layer] = (random.random() < 0.7) * factor * 10 ** random.uniform(-2, 1)


def layered(build):
    def of(segments):
        layers(segments)
        build(segments)

    return of


def of_driver(segments, words):
    if "ext_outside" in [m.name() for m in segments[0]]:
        h.is_ext_outside, segments[0].ext_outside.rx, segments[5].ext_outside.rx = words


WAYS = {
    "zero": at_rest,
    "constant": constant,
    "passive": constant,
    "single": constant,
    "continuous": played("continuous"),
    "steps": played("steps"),
    "mixed": played("continuous", "steps", "others", "stays"),
    "drawn": played("drawn", "stays"),
    "changed": constant,
    "written": written(),
    "written, played": written(1),
    "written in steps": written(0),
}


WAYS |= {f"layers, {name}": layered(build) for name, build in WAYS.items()}
WAYS |= {"layers in part": layered(constant), "layers, three": layered(constant)}


def changes(segments):
    segments[0].e_extracellular += 30
    segments[-1].e_extracellular -= 20
    of_driver(segments, (-2e-5, 0.4, 1))


def recorders(case, made, segments):
    every = [h.Vector().record(s._ref_v) for one in made.values() for s in one.allseg()]
    membranes = [h.Vector().record(s._ref_i_membrane) for s in segments]
    membranes += [h.Vector().record(s._ref_i_membrane, 0.3) for s in segments[:1]]
    layers = []
    if case.split(", ")[-1] in ("zero", "constant", "passive", "single"):
        layers = [h.Vector().record(s._ref_vext[-1 + int(h.nlayer_extracellular())])
                  for s in segments]  # fmt: skip
        layers += [h.Vector().record(s._ref_e_extracellular) for s in segments]
    return every, membranes, layers


def compared(case, engine):
    """Return the largest differences of voltages, currents and the rest, and the top current."""
    count = {"single": 1, "three": 3}.get(case.split(", ")[-1])
    if count:
        h.nlayer_extracellular(count)
    if "written" in case:
        loaded()
    made = branched(membrane="pas" if "passive" in case else "hh")
    is_layered, is_part = case.startswith("layers"), case == "layers in part"
    segments = outside(made, () if is_layered and not is_part else ("c", "g"))
    WAYS[case](segments)
    groups = recorders(case, made, [] if is_part else segments)
    first = [segment.e_extracellular for segment in segments]
    results = []
    for ours in (False, True, None)[: 3 if is_layered else 2]:
        if is_layered:
            layers(segments, 1 + ROUNDED if ours is None else 1.0)
        for segment, e in zip(segments, first):
            segment.e_extracellular = e
        for number in (k for k in KEPT if hasattr(k, "seq")):
            number.seq(0)
        of_driver(segments, (1e-5, -0.2, 0.5))
        h.finitialize(-65)
        if ours and case.endswith("written"):  # changed after one run, at the start of another
            of_driver(segments, (5e-6, 1, 0.5))
            clhines.neuron.run(1, engine=engine)
            of_driver(segments, (1e-5, -0.2, 0.5))
            h.finitialize(-65)
        for until in (7, 7.05, 13, STOP):
            go_on(until, engine if ours else None)
            if case.split(", ")[-1] in ("changed", "written"):
                changes(segments)
                if is_layered:
                    segments[0].xg[0] *= 2
        rows = [np.concatenate([v.as_numpy() for v in group] or [[]]) for group in groups]
        names = "v", "e_extracellular", "i_membrane"
        now = [[getattr(s, name) for s in segments] + [s.vext[0] for s in segments]
               for name in names]  # fmt: skip
        results.append([*rows, *map(np.array, now)])
        if hasattr(h, "is_ext_outside"):
            with_outside = [s for s in segments if hasattr(s, "ext_outside")]
            results[-1][2] = np.array([s.ext_outside.er / (10 * s.ext_outside.rx * s.area())
                                     for s in with_outside])  # fmt: skip
    off, rounded = ([float(np.abs(a - b).max(initial=0)) for a, b in zip(*pair, strict=True)]
                    for pair in (results[:2], results[:: len(results) - 1]))  # fmt: skip
    return {
        "rounded": max(rounded),
        "voltages": max(off[0], off[3]),
        "currents": max(off[1], off[5]),
        "others": max(off[2], off[4]),
        "largest": float(np.abs(results[0][1]).max(initial=0)),
        "outside": max(float(np.abs(a).max(initial=0)) for a in (results[0][2], results[0][4])),
        "moved": float(np.ptp(results[0][0])),
    }


def same_bits():
    """Return whether the mechanism without potentials leaves a model's bits unchanged."""
    made = branched()
    vectors = [h.Vector().record(s._ref_v) for one in made.values() for s in one.allseg()]
    results = []
    for inserted in (False, True):
        if inserted:
            outside(made, ())
        h.finitialize(-65)
        clhines.neuron.run(STOP, engine="reference")
        results.append(np.array([v.as_numpy()[:-1].copy() for v in vectors]))  # the last: NEURON's
    return {"same": bool(np.array_equal(*results)), "moved": float(np.ptp(results[0]))}


def random_trees(engine, first, end):
    """Return the worst of `compared` for passive trees of a few sections, some with the mechanism.

    Potentials move voltages by `moved`, mV, at least.
    """
    worst, largest, moved = 0.0, 0.0, np.inf
    for seed in range(first, end):
        random, made = np.random.default_rng(seed), []
        for k in range(int(random.integers(2, 14))):
            one = make_section(f"s{k}", nseg=int(random.integers(1, 5)), Ra=random.uniform(30, 300))
            one.L, one.diam = random.uniform((5, 0.5), (200, 10))
            one.insert("pas")
            if made and random.random() < 0.93:
                where = made[random.integers(0, k)](float(random.choice([0, 1, 0.5, 0.2])))
                one.connect(where, int(random.random() < 0.2))
            made.append(one)
        some = [one for one in made if random.random() < 0.7] or made[:1]
        for one in some:
            one.insert("extracellular")
            put(one, random)
        some[0](0.5).e_extracellular += 40
        vectors = [h.Vector().record(s._ref_v) for one in made for s in one.allseg()]
        membranes = [h.Vector().record(s._ref_i_membrane) for one in some for s in one]
        results = []
        for ours in (False, True):
            h.finitialize(-65)
            go_on(2, engine if ours else None)
            results.append([np.array([v.as_numpy() for v in x]) for x in (vectors, membranes)])
        worst = max(worst, *(np.abs(a - b).max() for a, b in zip(*results, strict=True)))
        largest = max(largest, np.abs(results[0][1]).max())
        moved = min(moved, np.ptp(results[0][0]))
        del vectors, membranes, some, one, made
    return {"difference": worst, "largest": largest, "moved": moved}


if __name__ == "__main__":
    case, engine, *seeds = sys.argv[1:]
    if case == "random":
        print(json.dumps(random_trees(engine, *map(int, seeds))))
    else:
        print(json.dumps(same_bits() if case == "bits" else compared(case, engine)))
