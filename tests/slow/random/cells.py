"""Random cells in NEURON's memory: sections, their joints, and their membranes."""

from dataclasses import dataclass, field
from typing import Any

from bench.measures.random import palette


@dataclass(eq=False)
class Cell:
    sections: list[Any] = field(default_factory=list)


def place(rng, cells):
    cell = cells[int(rng.integers(len(cells)))]
    section = cell.sections[int(rng.integers(len(cell.sections)))]
    return section(float(rng.choice([0.5, rng.uniform(0.01, 0.99)])))


def make_cells(h, rng):
    count = int(rng.integers(1, 5))
    chosen = [str(n) for n in rng.choice(list(palette.DENSITY), count, replace=False)]
    if any(n in palette.USES_CALCIUM for n in chosen) and rng.random() < 0.8:
        chosen += ["ext_ca", str(rng.choice(palette.POOLS))]
    return [_cell(h, rng, c, sorted(set(chosen))) for c in range(int(rng.integers(2, 5)))]


def _cell(h, rng, number, chosen):
    cell = Cell()
    for k in range(int(rng.integers(1, 6))):
        section = h.Section(name=f"c{number}_{k}")
        section.nseg = int(rng.choice([1, 1, 2, 3, 4, 7]))
        _shape(h, rng, section, k == 0)
        section.Ra, section.cm = float(rng.uniform(50, 250)), float(rng.uniform(0.6, 1.8))
        if k:
            parent = cell.sections[int(rng.integers(k))]
            at = float(rng.choice([0, 1, 1, 0.5, rng.uniform()]))
            section.connect(parent(at), int(rng.random() < 0.2))
        if rng.random() < 0.2:
            section(float(rng.uniform(0.01, 0.99))).cm = 2.0
        _membrane(h, rng, section, k == 0, chosen)
        cell.sections.append(section)
    return cell


def _shape(h, rng, section, soma):
    length = float(rng.uniform(10, 30) if soma else rng.uniform(30, 300))
    diam = float(rng.uniform(10, 25) if soma else rng.uniform(0.4, 4))
    if rng.random() < 0.25:
        for k in range(int(rng.integers(2, 6))):
            x, width = k * length / 3, diam * float(rng.uniform(0.6, 1.4))
            h.pt3dadd(x, float(rng.uniform(-5, 5)), 0.0, width, sec=section)
        return
    section.L, section.diam = length, diam
    if rng.random() < 0.3:
        for segment in section:
            segment.diam = diam * float(rng.uniform(0.7, 1.3))


def _membrane(h, rng, section, soma, chosen):
    if soma or rng.random() < 0.2:
        section.insert("hh")
        for segment in section:
            segment.hh.gnabar = float(rng.uniform(0.1, 0.2))
    if not soma or rng.random() < 0.3:
        section.insert("pas")
        section.e_pas = float(rng.uniform(-75, -60))
        for segment in section:
            segment.pas.g = float(rng.uniform(5e-5, 5e-4))
    inserted = [n for n in chosen if rng.random() < 0.6]
    if all(p in inserted for p in palette.POOLS):
        inserted.remove(palette.POOLS[int(rng.integers(2))])
    for name in inserted:
        section.insert(name)
        for segment in section:
            palette.put(rng, getattr(segment, name), palette.DENSITY[name])
    if palette.USES_CALCIUM.intersection(inserted):
        _ions(h, rng, section, not set(palette.POOLS).intersection(inserted))


def _ions(h, rng, section, free):
    if rng.random() < 0.3:
        einit, eadvance = (int(x) for x in rng.integers(0, 2, 2))
        c_style = int(rng.integers(0, 3)) if free else 3
        h.ion_style("ca_ion", c_style, 2, einit, eadvance, int(rng.integers(0, 2)), sec=section)
    for segment in section:
        try:
            segment.eca = float(rng.uniform(80, 140))
        except (AttributeError, NameError):  # nothing reads it here
            return
