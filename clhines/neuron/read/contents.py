"""What is in the membranes and at the nodes of a model: instances with their values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clhines.neuron.memory.columns import Columns
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.catalogue import STRUCTURE, Catalogue, Entry
from clhines.neuron.read.tree import Tree


@dataclass(eq=False)
class Instances:
    """All instances of one mechanism.

    Attributes
    ----------
    entry : Entry
    things : list of Hoc
        What their variables are attributes of.
    nodes : list of int
        -1 for artificial cells.
    columns : Columns, optional
        Where their variables can be read all at once.
    """

    entry: Entry
    things: list[Hoc] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    columns: Columns | None = None

    def __len__(self) -> int:
        return len(self.things)

    def values(self, name: str, place: int | None = None) -> np.ndarray:
        """(count,) float64: a variable of all instances, `place` in one that is an array."""
        found = self.columns.values(name, place) if self.columns is not None else None
        if found is not None:
            return found
        if place is None:
            return np.array([getattr(thing, name) for thing in self.things], np.float64)
        return np.array([getattr(thing, name)[place] for thing in self.things], np.float64)

    def put(self, name: str, values: np.ndarray, place: int | None = None) -> None:
        """Set a variable of all instances."""
        if self.columns is not None and self.columns.put(name, values, place):
            return
        for thing, value in zip(self.things, values.tolist(), strict=True):
            if place is None:
                setattr(thing, name, value)
            else:
                getattr(thing, name)[place] = value


@dataclass(eq=False)
class Ion:
    """An ion, where it is.

    Attributes
    ----------
    name : str
        As ``ca``.
    valence : float
    instances : Instances
    style : list of int
        NEURON's bits.
    """

    name: str
    valence: float
    instances: Instances
    style: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Contents:
    """What a model has besides its tree.

    Attributes
    ----------
    density, points : dict of str -> Instances
        `points` are point processes and artificial cells.
    ions : dict of str -> Ion
        By NEURON's name, as ``ca_ion``.
    structural : dict of str -> str
        Mechanisms without NMODL, as ``extracellular``, and a section where each is; empty for point
        processes.
    adrift : list of str
        Point processes that are at no segment.
    """

    density: dict[str, Instances]
    points: dict[str, Instances]
    ions: dict[str, Ion]
    structural: dict[str, str]
    adrift: list[str]


def read_contents(h: Hoc, tree: Tree, catalogue: Catalogue) -> Contents:
    """Find all instances of all mechanisms."""
    found = Contents({}, {}, {}, {}, [])
    style_of = h.ion_style
    for section in tree.sections:
        names = [m.name() for m in section(0.5)]
        nodes = tree.nodes(section).tolist()
        segments = list(section)
        for name in names:
            if name in STRUCTURE:
                continue
            entry = catalogue[name]
            if entry.kind == "ion":
                _add_ion((h, style_of), found.ions, entry, section, segments, nodes)
            elif entry.text:
                known = found.density.setdefault(name, Instances(entry))
                known.things += [getattr(s, name) for s in segments]
                known.nodes += nodes
    for name in catalogue.without_text(points=False):
        here = next((s for s in tree.sections if h.ismembrane(name, sec=s)), None)
        if here is not None:
            found.structural[name] = str(here)
    without_text = catalogue.without_text(points=True)
    for name in catalogue.names(points=True):
        every = list(h.List(name))
        if every and name in without_text:
            found.structural[name] = ""
        elif every:
            _add_points(found, catalogue[name], every, tree)
    return found


def _add_ion(
    asked: tuple[Hoc, Hoc],
    ions: dict[str, Ion],
    entry: Entry,
    section: Hoc,
    segments: list[Hoc],
    nodes: list[int],
) -> None:
    h, style_of = asked
    if entry.name not in ions:
        short = entry.name.removesuffix("_ion")
        ions[entry.name] = Ion(short, float(h.ion_charge(entry.name)), Instances(entry))
    ion = ions[entry.name]
    ion.instances.things += segments
    ion.instances.nodes += nodes
    ion.style += [int(style_of(entry.name, sec=section))] * len(nodes)


def _add_points(found: Contents, entry: Entry, every: list[Hoc], tree: Tree) -> None:
    instances = Instances(entry)
    for thing in every:
        if entry.kind == "artificial":
            instances.nodes.append(-1)
        else:
            segment = thing.get_segment() if thing.has_loc() else None
            if segment is None:
                found.adrift.append(str(thing))
                continue
            instances.nodes.append(tree.at(segment))
        instances.things.append(thing)
    if len(instances):
        found.points[entry.name] = instances
