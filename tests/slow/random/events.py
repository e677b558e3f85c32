"""Random point processes, artificial cells and connections in NEURON's memory."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.measures.random import palette
from bench.measures.random.cells import place


@dataclass(eq=False)
class Events:
    """Senders and receivers of events."""

    kept: list[Any] = field(default_factory=list)
    targets: list[tuple[Any, float]] = field(default_factory=list)
    sources: list[tuple[Any, Any]] = field(default_factory=list)
    points: list[Any] = field(default_factory=list)
    streams: list[tuple[Any, str]] = field(default_factory=list)
    played: list[tuple[Any, str, float]] = field(default_factory=list)
    plastic: bool = False


PLASTIC = ("ext_nmda", "ext_sum", "nmplast", "nmsyn")


def kind_of(thing):
    return str(thing).split("[")[0]


def add_points(h, rng, cells, found):
    kinds = [str(k) for k in rng.choice(list(palette.SYNAPSES), int(rng.integers(1, 4)), False)]
    for cell in cells:
        for _ in range(int(rng.integers(1, 4))):
            kind = str(rng.choice(kinds))
            ranges, weight = palette.SYNAPSES[kind]
            synapse = getattr(h, kind)(place(rng, [cell]))
            palette.put(rng, synapse, ranges)
            if hasattr(synapse, "e"):
                synapse.e = float(rng.choice([0, 0, -75]))
            found.targets.append((synapse, weight))
            found.points.append(synapse)
            if kind == "nmrandom":
                found.streams += [(synapse, "first"), (synapse, "second")]
            found.plastic = found.plastic or kind in PLASTIC
    kinds = [str(k) for k in rng.choice(list(palette.STIMULI), int(rng.integers(1, 4)), False)]
    for cell in cells:
        for kind in [*kinds, "IClamp"]:
            if rng.random() < 0.6:
                _stimulus(h, rng, kind, place(rng, [cell]), cells, found)
    for _ in range(2):
        if found.points and rng.random() < 0.3:
            _play(h, rng, found.points[int(rng.integers(len(found.points)))], found)


def _stimulus(h, rng, kind, at, cells, found):
    stimulus = getattr(h, kind)(at)
    palette.put(rng, stimulus, palette.STIMULI[kind])
    found.points.append(stimulus)
    if kind in palette.POINTERS:
        other = place(rng, cells)
        h.setpointer(other._ref_v, palette.POINTERS[kind], stimulus)
    elif kind == "imp_gap":
        pc, other, number = h.ParallelContext(), place(rng, cells), len(found.points)
        pc.source_var(other._ref_v, number, sec=other.sec)
        pc.target_var(stimulus, stimulus._ref_vother, number)
    elif kind in palette.SENDS:
        found.sources.append((stimulus, None))


def _play(h, rng, point, found):
    name = {"IClamp": "amp", "ext_clamp": "amp", "ExpSyn": "e", "SEClamp": "amp1"}.get(
        kind_of(point)
    )
    if name is None or any(point is thing for thing, _, _ in found.played):
        return
    count = int(rng.integers(3, 30))
    times = h.Vector(np.sort(rng.uniform(0, 500, count)))
    low, high = (0, 0.2) if name == "amp" else (-75, -40)
    values = h.Vector(rng.uniform(low, high, count))
    if rng.random() < 0.5:
        values.play(getattr(point, f"_ref_{name}"), times, 1)
    elif rng.random() < 0.5:
        values.play(getattr(point, f"_ref_{name}"), times)
    else:
        values.play(getattr(point, f"_ref_{name}"), float(rng.uniform(1, 20)))
    found.kept += [times, values]
    found.played.append((point, name, getattr(point, name)))


def add_artificial(h, rng, seed, found):
    """Make NetStims, trains of given times and cells outside the cables."""
    for k in range(int(rng.integers(1, 5))):
        stim = h.NetStim()
        stim.interval, stim.number = float(rng.uniform(4, 30)), int(rng.choice([7, 1e9]))
        stim.start, stim.noise = float(rng.uniform(0, 20)), float(rng.choice([0, 0.4, 1]))
        if rng.random() < 0.5:
            stim.ranvar.set_ids(seed, k, int(rng.integers(2**32)))
        else:
            stim.noiseFromRandom123(seed, k, int(rng.integers(1000)))
        found.sources.append((stim, None))
        found.streams.append((stim, "ranvar"))
    if rng.random() < 0.3:
        stim = getattr(h, str(rng.choice(["vec_inside", "vec_pointer"])))()
        times = h.Vector(np.sort(rng.uniform(0, 500, int(rng.integers(1, 60)))))
        stim.play(times)
        found.kept.append(times)
        found.sources.append((stim, None))
    for _ in range(int(rng.integers(0, 4))):
        kind = str(rng.choice(list(palette.ARTIFICIAL)))
        cell = getattr(h, kind)()
        palette.put(rng, cell, palette.ARTIFICIAL[kind])
        found.sources.append((cell, None))
        found.targets.append((cell, 8.0 if kind == "ext_move" else float(rng.uniform(0.2, 0.8))))


def connect(h, rng, cells, found):
    """Connect everything; return vectors of spike times, of their sources, and names."""
    seen = set[tuple[str, int]]()
    for cell in cells:
        for _ in range(int(rng.integers(1, 3))):
            at = cell.sections[0](0.5) if rng.random() < 0.6 else place(rng, [cell])
            node = str(at.sec), int(at.x * at.sec.nseg)
            if node not in seen:
                seen.add(node)
                found.sources.append((at._ref_v, at.sec))
    pc, vectors = h.ParallelContext(), []
    pc.gid_clear()
    times, numbers = h.Vector(), h.Vector()
    for gid, (source, section) in enumerate(found.sources):
        first = h.NetCon(source, None, sec=section) if section else h.NetCon(source, None)
        if section:
            first.threshold = float(rng.choice([0, -20, rng.uniform(-40, 10)]))
        if rng.random() < 0.7:
            pc.set_gid2node(100 + gid, 0)
            pc.cell(100 + gid, first)
        else:
            found.kept.append(first)
            spikes = h.Vector()
            first.record(spikes)
            vectors.append((spikes, None, f"source {gid}"))
            gid = -1
        for _ in range(int(rng.integers(1, 4))):
            target, weight = found.targets[int(rng.integers(len(found.targets)))]
            found.kept.append(_netcon(h, rng, (source, section, 100 + gid), target, weight))
    pc.spike_record(-1, times, numbers)
    return [(times, numbers, "gids"), *vectors]


def _netcon(h, rng, source, target, weight):
    thing, section, gid = source
    if gid >= 100:
        made = h.ParallelContext().gid_connect(gid, target)
    elif section:
        made = h.NetCon(thing, target, sec=section)
    else:
        made = h.NetCon(thing, target)
    made.delay = _delay(rng, h.dt)
    made.weight[0] = weight * float(rng.uniform(0.3, 1.5))
    if kind_of(target) == "ext_nmda":
        made.weight[1] = float(rng.uniform(0.5, 2))
    fires = kind_of(target) in palette.ARTIFICIAL and kind_of(target) != "ext_move"
    if fires and kind_of(thing) in palette.ARTIFICIAL:
        made.weight[0] *= -1  # else they run away
    elif (fires and rng.random() < 0.2) or (kind_of(target) == "nmplast" and rng.random() < 0.4):
        made.weight[0] *= -1
    return made


def _delay(rng, dt):
    """Return a delay: arbitrary, in whole or half steps, or below a step."""
    kind = float(rng.random())
    if kind < 0.6:
        return float(rng.uniform(0.3, 8))
    if kind < 0.9:
        return int(rng.integers(2, 300)) * dt / 2
    return float(rng.uniform(0.1, 1)) * dt if kind < 0.96 else 1.0
