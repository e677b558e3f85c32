"""Layers of `extracellular` with non-default xraxial, xg or xc, as further nodes of the tree.

As in NEURON (extcelln.cpp), outside potentials are unknowns of a step, like the inside one:

    vext[k]  --  xg[k], xc[k]  --  vext[k + 1]  ...
       |
    xraxial[k], along the section, to vext[k] of the neighbour

The last layer's `xg` leads to `e_extracellular`, its `xc` to a constant potential.
`xraxial` counts half a segment on either side within a section, and nothing of the parent's segment
where sections join. Section ends have outside potentials without `xg` and `xc`. Sections with the
mechanism are sealed towards sections without it. As `Network.from_arrays` requires, the outer nodes
of a cell follow its inner nodes, layer by layer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clhines.core.arrays import offsets, starts, stretch_of
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import ref
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.tree import CAPACITANCE, CONDUCTANCE, Tree, TreeLayers

OWN = {"xg": 1e9, "xc": 0.0, "xraxial": 1e9}  # NEURON's defaults: S/cm², µF/cm², MOhm/cm
_HALF = 0.5e-4  # half of 1 µm, in cm


def are_own(instances: Instances) -> bool:
    """Whether extracellular has several layers, and any parameter differs from NEURON's default."""
    layers = _layers(instances)
    parameters = (
        (instances.values(name, k), default) for name, default in OWN.items() for k in range(layers)
    )
    return layers > 1 and any(bool((values != default).any()) for values, default in parameters)


def _layers(instances: Instances) -> int:
    return int(instances.entry.ranges["xg"])


def _values(instances: Instances, name: str, n: int) -> np.ndarray:
    """Return a parameter by layer at `n` nodes, (layers, n); 0 at nodes without extracellular."""
    values = np.zeros((_layers(instances), n))
    for layer, row in enumerate(values):
        row[instances.nodes] = instances.values(name, layer)
    return values


def with_layers(tree: Tree, instances: Instances, memory: NeuronMemory) -> Tree:
    """Return the tree with outer nodes around the nodes of sections with `extracellular`."""
    n, layers = tree.num_nodes, _layers(instances)
    sections = np.zeros(len(tree.nseg) + 1, bool)
    sections[tree.owner[instances.nodes]] = True
    has = sections[tree.owner]
    cell = stretch_of(tree.cell_offsets, np.arange(n))
    count = np.bincount(cell[has], minlength=len(tree.cell_offsets) - 1)
    size, before = np.diff(tree.cell_offsets), starts(count)
    bounds = offsets(size + layers * count)
    number = np.arange(n) + layers * before[cell]
    inner = np.flatnonzero(has)
    outer = np.full((layers, n), -1)
    rank = np.arange(len(inner)) - before[cell[inner]]
    for k, row in enumerate(outer):
        row[inner] = (bounds[:-1] + size + k * count)[cell[inner]] + rank

    def spread(values: np.ndarray, of_layers: np.ndarray) -> np.ndarray:
        every = np.zeros(int(bounds[-1]), values.dtype)
        every[number], every[outer[:, inner]] = values, of_layers[:, inner]
        return every

    none, above = np.zeros((layers, n)), tree.parent
    joined = has & (above >= 0) & has[above]
    lengths = np.zeros(n)  # of segments, µm; 0 for section ends
    each = np.array([s.L for s in tree.sections]) / tree.nseg
    lengths[tree.inner_numbers] = np.repeat(each, tree.nseg)
    half = _HALF * _values(instances, "xraxial", n) * lengths
    same = tree.owner == tree.owner[above]
    with np.errstate(divide="ignore"):
        g_axial = np.where(joined, 1 / (half + same * half[:, above]), 0)
    around = spread(np.where(has, outer[0], -1), np.append(outer[1:], 0 * outer[:1] - 1, 0))
    xg, xc = (_values(instances, name, n) * tree.area for name in ("xg", "xc"))
    addresses, nodes = _vext(tree, instances, memory)
    return replace(
        tree,
        begin=number[tree.begin],
        end=number[tree.end],
        parent=spread(
            np.where(above < 0, -1, number[above]), np.where(joined, outer[:, above], number)
        ),
        cell_offsets=bounds,
        area=spread(tree.area, none),
        g_axial=spread(tree.g_axial, g_axial),
        capacitance=spread(tree.capacitance, CAPACITANCE * xc),
        diam=spread(tree.diam, none),
        inner_numbers=number[tree.inner_numbers],
        numbers=number[tree.numbers],
        layers=TreeLayers(
            around,
            spread(np.zeros(n), CONDUCTANCE * xg),
            (addresses[:, None] + 8 * np.arange(layers, dtype=np.uint64)).reshape(-1),
            outer[:, nodes].T.reshape(-1),
        ),
    )


def _vext(tree: Tree, instances: Instances, memory: NeuronMemory) -> tuple[np.ndarray, np.ndarray]:
    """Return the vext[0] address of each segment and section end, and their nodes, (k,) each."""
    segments, nodes = [*instances.things], instances.nodes.tolist()
    for s in np.unique(tree.owner[instances.nodes]).tolist():
        section, turned = tree.sections[s], bool(tree.turned[s])
        segments.append(section(0.0 if turned else 1.0))
        nodes.append(int(tree.end[s]))
        if section.parentseg() is None:
            segments.append(section(1.0 if turned else 0.0))
            nodes.append(int(tree.begin[s]))
    at = [memory.place(ref(segment, "vext", 2)).column for segment in segments]
    return np.array(at, np.uint64), np.array(nodes, np.int64)
