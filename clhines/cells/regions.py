"""Regions, places and distances in a cell, from its nodes and sections."""

from __future__ import annotations

import numpy as np

from clhines.arrays import climb
from clhines.checks import shown
from clhines.errors import InputError

# Type codes of SWC files; `dend` and `apic` are the names that NEURON's importer gives.
REGIONS = {"axon": 2, "basal": 3, "dend": 3, "apical": 4, "apic": 4}
WORDS = ("soma", "dendrites", "all", *REGIONS)
NAMES = {1: "soma", 2: "axon", 3: "basal", 4: "apical"}


def in_region(word: object, area: np.ndarray, in_soma: np.ndarray, type_: np.ndarray) -> np.ndarray:
    """(n,) bool: nodes with membrane that a word of `WORDS` means; axons are dendrites, too."""
    if not isinstance(word, str) or word not in WORDS:
        raise InputError(f"at={shown(word)}; expected {', '.join(WORDS)}")
    membrane = area > 0
    if word == "all":
        return membrane
    if word == "soma":
        return in_soma
    if word == "dendrites":
        return membrane & ~in_soma
    return membrane & ~in_soma & (type_ == REGIONS[word])


def path_distance(parent: np.ndarray, to_parent: np.ndarray, origin: int) -> np.ndarray:
    """(n,) float64: length of the way through the tree from `origin` to each node.

    The way from a node climbs to the way from `origin` to the root, where the two meet: in the
    chain 0-1-2 with a branch 1-3 and origin 2, node 3 meets at 1.
    """
    number = np.arange(len(parent))
    above = np.where(parent < 0, number, parent)
    _, depth = climb(above, to_parent)
    on_way = np.zeros(len(parent), bool)
    node = origin
    while node >= 0:
        on_way[node] = True
        node = int(parent[node])
    meets, length = climb(np.where(on_way, number, above), np.where(on_way, 0.0, to_parent))
    return length + np.abs(depth[origin] - depth[meets])
