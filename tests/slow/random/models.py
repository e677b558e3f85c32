"""A random model in NEURON's memory, with the vectors that record it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.measures.random import palette
from bench.measures.random.cells import Cell, make_cells, place
from bench.measures.random.events import Events, add_artificial, add_points, connect, kind_of

STEPS_PER_MS = (40, 40, 20, 50, 10, 80, 30)
TRACES = 10


@dataclass(eq=False)
class Random:
    """A model of a seed."""

    cells: list[Cell]
    events: Events
    spikes: list[tuple[Any, Any, str]]
    traces: list[tuple[str, Any]]
    v_init: float
    rng: np.random.Generator
    refused: str
    kept: list[Any]

    def reset(self, h):
        """Rewind all streams, and initialise."""
        for thing, name in self.events.streams:
            getattr(thing, name).set_seq(0)
        for thing, name, value in self.events.played:
            setattr(thing, name, value)
        h.ninf_nmloop, h.nexp_nmloop = 0.3, 0.1  # INITIAL reads the values after the last run
        h.finitialize(self.v_init)

    def taken(self):
        """Return copies of spike times, their ordered sources, and traces."""
        times, numbers = [], []
        for t, n, _ in self.spikes:
            at = np.array(t)
            who = np.array(n) if n is not None else np.zeros(len(at))
            order = np.lexsort((who, np.round(at, 6)))
            times.append(at[order])
            numbers.append(who[order])
        return times, numbers, [np.array(v) for _, v in self.traces]


def make(h, seed, scale="all"):
    """Build the model of a seed."""
    rng = np.random.default_rng([16, seed, len(scale)])
    settings(h, rng)
    cells, events = make_cells(h, rng), Events()
    add_points(h, rng, cells, events)
    add_artificial(h, rng, seed, events)
    spikes = connect(h, rng, cells, events)
    if any(kind_of(p) == "imp_gap" for p in events.points):
        h.ParallelContext().setup_transfer()
    traces = _traces(h, rng, cells, events)
    refused, kept = "", []
    if rng.random() < 0.04:
        refused = str(rng.choice(palette.REFUSED))
        if refused == "CVode" and events.streams:  # NEURON has no CVode with nmrandom
            refused = "extracellular"
        if refused == "LinearMechanism":
            h.secondorder = 0  # NEURON itself has it so
        kept = _refused(h, refused, cells[0].sections[0])
    v_init = float(rng.choice([-65, rng.uniform(-75, -58)]))
    return Random(cells, events, spikes, traces, v_init, rng, refused, kept)


def settings(h, rng):
    h.cvode_active(0)
    h.celsius = float(rng.choice([6.3, 16.0, 22.5, 35.0]))
    h.steps_per_ms = int(rng.choice(STEPS_PER_MS))
    h.dt = 1.0 / h.steps_per_ms
    h.secondorder = int(rng.choice([0, 0, 0, 1, 2]))
    h.usetable_hh = int(rng.random() < 0.8)
    h.usetable_nmtable = int(rng.random() < 0.8)
    h.slope_nmtable = float(rng.uniform(5, 9))
    h.base_nmexpr = float(rng.uniform(1, 3))
    h.cai0_ca_ion, h.cao0_ca_ion = float(rng.uniform(5e-5, 2e-4)), float(rng.uniform(1.5, 2.5))


def _traces(h, rng, cells, found):
    wanted = []
    for cell in cells:
        wanted.append((f"{cell.sections[0]}.v", cell.sections[0](0.5)._ref_v))
    for _ in range(TRACES):
        at = place(rng, cells)
        wanted.append((f"{at}.v", at._ref_v))
        mechanisms = [m for m in at if m.name() not in ("morphology", "capacitance", "pas")]
        if mechanisms:
            mechanism = mechanisms[int(rng.integers(len(mechanisms)))]
            names = sorted(_names(h, mechanism))
            name = names[int(rng.integers(len(names)))]
            owner = at if mechanism.is_ion() else mechanism
            wanted.append((f"{at}.{mechanism}.{name}", getattr(owner, f"_ref_{name}")))
    for point in found.points:
        if rng.random() < 0.3 and hasattr(point, "i"):
            wanted.append((f"{point}.i", point._ref_i))
    vectors = []
    for name, reference in wanted:
        if rng.random() < 0.1:
            vectors.append((name, h.Vector().record(reference, float(rng.uniform(0.05, 2)))))
        else:
            vectors.append((name, h.Vector().record(reference)))
    return vectors


def _names(h, mechanism):
    suffix, names = f"_{mechanism.name()}", []
    for kind in (2, 3):
        standard = h.MechanismStandard(mechanism.name(), kind)
        text = h.ref("")
        for k in range(int(standard.count())):
            if int(standard.name(text, k)) == 1:
                names.append(text[0].removesuffix(suffix))
    names = [name for name in names if not name.endswith("_dv_")]  # NEURON's own, of ions
    return names or [v.name().removesuffix(suffix) for v in mechanism][:1]


def _refused(h, what, section):
    if what == "extracellular":
        section.insert("extracellular")
        section(0.5).xc[0] = -1
        return []
    if what == "CVode":
        h.cvode_active(1)
        return []
    if what == "LinearMechanism":
        y = [h.Vector(1) for _ in range(3)]
        c, g = h.Matrix(1, 1), h.Matrix(1, 1)
        x = h.Vector([0.5])
        made = h.LinearMechanism(print, c, g, *y, h.SectionList([section]), x)  # it calls print
        return [c, g, *y, x, made]
    return [getattr(h, what)(section(0.5))]
