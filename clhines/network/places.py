"""Places: nodes of a network by cell and region, and values given by cell, node or distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import signature

import numpy as np
from numpy.typing import ArrayLike

from clhines.arrays import repeat, stretch_of
from clhines.cells.cable import WORDS
from clhines.checks import as_array, as_indices, as_places, as_real, shown
from clhines.errors import InputError, meant
from clhines.network.structure import NodeValues, Structure


@dataclass(frozen=True, eq=False)
class PerCell:
    """One value for each cell, float64, of `Network.per_cell`; a parameter of any group."""

    values: np.ndarray


Value = ArrayLike | PerCell | Callable[[np.ndarray], ArrayLike]
Where = ArrayLike | Callable[[np.ndarray], np.ndarray]  # word, mask, nodes; of distances a mask


class Places:
    def __init__(self, structure: Structure) -> None:
        self.cables = structure.cables[: structure.forest.num_cells]
        self.forest, self.soma = structure.forest, structure.soma
        self._structure = structure
        self._values = NodeValues({"area": structure.once("area")}, self.forest.num_nodes)

    @property
    def area(self) -> np.ndarray:
        return self._values.whole("area")

    def area_at(self, nodes: np.ndarray) -> np.ndarray:
        return self._values.at("area", nodes)

    @cached_property
    def distance(self) -> np.ndarray:
        self._need_cables("a function of the distance")
        return repeat([cable.distance for cable in self.cables], self.forest.num_cells)

    def of(self, at: Where) -> np.ndarray:
        """Nodes that a word, a mask, indices or a function of the distance mean; (m,) int64."""
        if isinstance(at, str):
            return self._region(at)
        if callable(at):
            mask = as_array("at", _called("at", at, self.distance))
            if mask.dtype.kind != "b" or mask.shape != self.distance.shape:
                raise InputError(
                    f"at is a function that returned {mask.dtype} of shape {mask.shape}; "
                    f"expected a mask of the distances, {self.distance.shape}"
                )
            return np.flatnonzero(mask & (self.area > 0))
        nodes = np.atleast_1d(as_array("at", at))
        return as_places("at", nodes, self.forest.num_nodes, "node")

    def membrane(self, mechanism: str, at: Where) -> np.ndarray:
        nodes = self.of(at)
        some = nodes[: self.in_round(at, nodes) or None]
        if len(some) and not self.area_at(some).all():
            node = some[int(np.argmin(self.area_at(some)))]
            cell = int(self.cell_of(node))
            raise InputError(
                f"{mechanism}: node {node} of cell {cell} is a junction without membrane; "
                "expected nodes with an area"
            )
        return nodes

    def in_round(self, at: Where, nodes: np.ndarray) -> int:
        """Count nodes of the first round, which the others repeat; 0 where they may be any."""
        end = self._structure.in_round if isinstance(at, str) else 0
        return int(np.searchsorted(nodes, end)) if end else 0

    def nodes(self, cell: ArrayLike | None, at: Where) -> np.ndarray:
        nodes = self.of(at)
        if cell is None:
            return nodes
        wanted = np.zeros(self.forest.num_cells, bool)
        wanted[as_indices("cell", cell, self.forest.num_cells, "cell")] = True
        return nodes[wanted[self.cell_of(nodes)]]

    def cell_of(self, nodes: np.ndarray | int) -> np.ndarray:
        return stretch_of(self.forest.cell_offsets, nodes)

    def per_cell(self, values: ArrayLike) -> PerCell:
        array = as_array("values", values)
        if array.shape != (self.forest.num_cells,):
            raise InputError(
                f"values has shape {array.shape}; expected one for each of "
                f"{self.forest.num_cells} cells"
            )
        return PerCell(as_real("values", array))

    def resolved(
        self, what: str, value: object, nodes: np.ndarray, unit: str | None = None
    ) -> object:
        """Turn a parameter's value, or function of the distance, µm, into one per node."""
        if isinstance(value, PerCell):
            if len(value.values) != self.forest.num_cells:
                got = f"is of {len(value.values)} cells"
                raise InputError(f"{what} {got}; expected {self.forest.num_cells}")
            return value.values[self.cell_of(nodes)]
        if callable(value):
            found = as_array(what, _called(what, value, self.distance[nodes]), unit=unit)
            if found.shape not in ((), nodes.shape):
                raise InputError(
                    f"{what} is a function that returned shape {found.shape}; expected that of "
                    f"the distances, {nodes.shape}"
                )
            return found
        array = as_array(what, value)
        return value if array.shape in ((), nodes.shape) else self._spread(what, array, nodes)

    def _spread(self, what: str, array: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Values by cell, by node of the one cable, or by node of the network."""
        cells, sizes = self.cell_of(nodes), self.forest.sizes
        fits = {}
        if array.shape == (self.forest.num_cells,):
            fits["cells"] = array[cells]
        if len({id(cable) for cable in self.cables}) == 1 and array.shape == (sizes[0],):
            fits["nodes of a cell"] = array[nodes - self.forest.cell_offsets[cells]]
        if array.shape == (self.forest.num_nodes,):
            fits["nodes"] = array[nodes]
        found = list(fits.values())
        if any(not np.array_equal(one, found[0]) for one in found[1:]):
            raise InputError(
                f"{what} has shape {array.shape}, as many as there are {' and '.join(fits)}; "
                "expected net.per_cell(values), or values of the nodes given"
            )
        return found[0] if found else array

    def _region(self, at: str) -> np.ndarray:
        if at not in (*WORDS, "soma.middle"):
            words = ["soma", "soma.middle", *WORDS[1:]]
            raise InputError(
                f"at={shown(at)}; expected {', '.join(words)}, nodes or a mask{meant(at, words)}"
            )
        structure = self._structure
        if at == "all":
            return structure.nodes_of([area > 0 for area in structure.area])
        if at in ("soma", "soma.middle"):
            for k, cable in enumerate(self.cables):
                if not cable.sections.has_soma:
                    raise InputError(
                        f"at={shown(at)}: cell {k} ({cable.name}) has no soma, no sample of "
                        "type 1; expected all, nodes or a mask"
                    )
        if at == "soma.middle":
            return self.soma
        if at in ("soma", "dendrites"):
            if at == "soma":
                return structure.nodes_of(structure.in_soma)
            pairs = zip(structure.area, structure.in_soma, strict=True)
            return structure.nodes_of([(area > 0) & ~in_soma for area, in_soma in pairs])
        self._need_cables(f"at={shown(at)}")
        masks = [np.zeros(cable.num_nodes, bool) for cable in self.cables]
        for mask, cable in zip(masks, self.cables, strict=True):
            mask[cable.nodes(at)] = True
        nodes = structure.nodes_of(masks)
        if not len(nodes):
            raise InputError(
                f"at={shown(at)}: no cell has such a section; expected types of the file, "
                "see Cable.type"
            )
        return nodes

    def _need_cables(self, what: str) -> None:
        if not self.cables:
            raise InputError(f"{what}: the network was made of arrays; expected nodes or a mask")


def _called(what: str, function: Callable[[np.ndarray], object], distance: np.ndarray) -> object:
    """Return what a function of the distances gives, if it takes one argument."""
    try:
        signature(function).bind(distance)
    except ValueError:  # of some functions not written in Python
        pass
    except TypeError as error:
        raise InputError(
            f"{what} is a function that does not take one argument ({error}); expected a function "
            "of the distances from the soma, µm"
        ) from None
    return function(distance)
