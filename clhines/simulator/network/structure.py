"""All cells' compartments, from cables or from arrays.

Cells repeat a few cables in turn: cell k is turn k. One pass through the cables is a round;
`NodeValues` stores one round's values. `Places` finds nodes by cell and region, and expands values
by cell, node or distance.

    cell      0 1 2 | 3 4 5 | 6          7 turns, 2 whole rounds and a part
    cable     a b c | a b c | a
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from clhines.core.arrays import repeat, repeat_moved, repeated_nodes, stretch_of
from clhines.core.checks import (
    as_array,
    as_indices,
    as_places,
    as_real,
    as_whole_number,
    check_room,
    shown,
)
from clhines.core.errors import InputError, meant
from clhines.simulator.cells.around import Enclosing, as_around
from clhines.simulator.cells.cable import NAMES, REGIONS, WORDS, Axis, Cable, check_cables
from clhines.solver.forest import Forest

_NODE_BYTES = 8 * 8  # in the forest and in a `Model`'s arrays


@dataclass(frozen=True, eq=False)
class Structure:
    """All cells of a network: their trees and membranes.

    If cells repeat cables, each list has an array for each cable, cell k has array ``k % len``, and
    `turns` is the cell count. In networks from arrays each list has one array with all nodes, and
    `turns` is 1.
    """

    forest: Forest  # each tree rooted at its soma
    soma: np.ndarray
    cables: tuple[Cable, ...]  # empty if the network was made from arrays
    turns: int
    area: Sequence[np.ndarray]  # µm²
    capacitance: Sequence[np.ndarray]  # nF
    g_axial: Sequence[np.ndarray]  # µS, to the parent
    g_total: Sequence[np.ndarray]  # µS, sum of each node's axial conductances; 0 if `around`
    in_soma: Sequence[np.ndarray]
    given_axis: Axis | None = None  # for cells without cables, if known
    around: Enclosing | None = None

    @cached_property
    def axis(self) -> Axis | None:
        """Lengths and neighbours of all cells' segments; None if unknown."""
        if not self.cables:
            return self.given_axis
        return Axis.joined([self.cables[k % len(self.cables)].axis for k in range(self.turns)])

    def whole(self, name: str) -> np.ndarray:
        return repeat(getattr(self, name), self.turns)

    def once(self, name: str) -> np.ndarray:
        """Return the values called `name` in each cable's first cell, as one array, (m,).

        If there are fewer cells than cables, return all cells' values.
        """
        return np.concatenate(getattr(self, name)[: self.turns])

    @cached_property
    def in_round(self) -> int:
        nodes = sum(map(len, self.area))
        return nodes if nodes < self.forest.num_nodes else 0

    def nodes_of(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        """Return the nodes of all cells, (m,) int64, that the masks of their cables select."""
        once = np.flatnonzero(np.concatenate(masks[: self.turns]))
        count = repeated_nodes([int(np.count_nonzero(m)) for m in masks], self.turns)
        return repeat_moved(once, count, self.in_round)


def of_cables(cables: Cable | Sequence[Cable], num_cells: int | None) -> Structure:
    cables = check_cables(cables)
    count = len(cables) if num_cells is None else as_whole_number("num_cells", num_cells, 1)
    check_room(_NODE_BYTES * repeated_nodes([c.num_nodes for c in cables], count), f"{count} cells")
    different = {id(cable): cable for cable in cables}
    rooted = {key: rooted_at_soma(cable) for key, cable in different.items()}
    turns = [rooted[id(cable)] for cable in cables]
    forest = Forest.repeat([parent for parent, _ in turns], count)
    names = "area", "capacitance", "g_total"  # copies, as a cable may change later
    arrays = {key: [getattr(c, n).copy() for n in names] for key, c in different.items()}
    area, capacitance, g_total = zip(*(arrays[id(cable)] for cable in cables), strict=True)
    return Structure(
        forest=forest,
        soma=forest.cell_offsets[:-1] + np.resize([cable.soma for cable in cables], count),
        cables=tuple(cables),
        turns=count,
        area=area,
        capacitance=capacitance,
        g_axial=[g for _, g in turns],
        g_total=g_total,
        in_soma=[cable.in_soma for cable in cables],
    )


def of_arrays(
    parent: ArrayLike,
    cell_offsets: ArrayLike,
    area: ArrayLike,
    g_axial: ArrayLike,
    capacitance: ArrayLike,
    soma: ArrayLike | None,
    is_signed: bool = False,
    around: ArrayLike | None = None,
    g_around: ArrayLike | None = None,
) -> Structure:
    """Make a structure from `Network.from_arrays`' arrays; a signed `g_axial` may be negative."""
    original = Forest(parent, cell_offsets)  # type: ignore[arg-type]
    n, starts = original.num_nodes, original.cell_offsets
    columns = {"area": area, "g_axial": g_axial, "capacitance": capacitance}
    units = {"area": "um2", "g_axial": "uS", "capacitance": "nF"}
    arrays = {
        name: _of_nodes(name, values, n, units[name], is_signed and name == "g_axial")
        for name, values in columns.items()
    }
    axial = np.where(original.parent < 0, 0.0, arrays["g_axial"])
    roots = np.flatnonzero(original.parent < 0)
    if soma is None:
        somas = roots
    else:
        somas = as_indices("soma", soma, n, "node")
        cell = np.searchsorted(starts, somas, side="right") - 1
        if not np.array_equal(cell, np.arange(original.num_cells)):
            raise InputError(
                f"soma has nodes of cells {cell.tolist()[:8]}; expected one node of each of "
                f"{original.num_cells} cells, in their order"
            )
    child = np.flatnonzero(original.parent >= 0)
    total = axial + np.bincount(original.parent[child], axial[child], n)
    moved, g = original.parent.astype(np.int64), axial.copy()
    for node in somas[original.parent[somas] >= 0].tolist():
        rerooted(moved, g, node)
    in_soma = np.zeros(n, bool)
    in_soma[somas] = arrays["area"][somas] > 0
    forest = original if np.array_equal(moved, original.parent) else Forest(moved, starts)
    layers = None
    if around is not None:
        enclosing = as_around(forest, arrays["area"], g, around, g_around)
        if len(enclosing.rows) > 1:
            layers, total = enclosing, 0 * total
    elif g_around is not None:
        raise InputError("got g_around without around; expected both")
    columns_of_nodes = [arrays["area"]], [arrays["capacitance"]], [g], [total], [in_soma]
    return Structure(forest, somas, (), 1, *columns_of_nodes, around=layers)


def _of_nodes(
    name: str, values: ArrayLike, n: int, unit: str, is_signed: bool = False
) -> np.ndarray:
    array = as_array(name, values, unit=unit)
    if array.shape != (n,):
        raise InputError(f"{name} has shape {array.shape}; expected ({n},), one for each node")
    checked = as_real(name, array)
    if not is_signed and (checked < 0).any():
        k = int(np.argmax(checked < 0))
        raise InputError(f"{name}[{k}] is {checked[k]:g}; expected 0 or more")
    return checked


def rooted_at_soma(cable: Cable) -> tuple[np.ndarray, np.ndarray]:
    parent, g_axial = cable.parent.astype(np.int64), cable.g_axial.copy()
    rerooted(parent, g_axial, int(cable.soma))
    return parent, g_axial


def rerooted(parent: np.ndarray, g_axial: np.ndarray, node: int) -> None:
    """Make a node its tree's root, in place: reverse the edges on its path to the root."""
    below, g_below = -1, 0.0
    while node >= 0:
        above, g_above = int(parent[node]), float(g_axial[node])
        parent[node], g_axial[node] = below, g_below
        below, g_below, node = node, g_above, above


class NodeValues:
    """Read-only values for all nodes, by name.

    Cells repeat cables, so values are stored once for each cable; whole arrays are made on demand.
    """

    def __init__(self, once: Mapping[str, np.ndarray], count: int) -> None:
        self._once, self.count = dict(once), count
        for array in self._once.values():
            array.setflags(write=False)
        self._whole = {name: a for name, a in self._once.items() if len(a) == count}

    def whole(self, name: str) -> np.ndarray:
        if name not in self._whole:
            values = repeat_moved(self._once[name], self.count)
            values.setflags(write=False)
            self._whole[name] = values
        return self._whole[name]

    def at(self, name: str, nodes: np.ndarray, dtype: DTypeLike = np.float64) -> np.ndarray:
        if name in self._whole:
            return self._whole[name].astype(dtype, copy=False)[nodes]
        once = self._once[name].astype(dtype, copy=False)
        return once[nodes % len(once)]

    def once(self, name: str) -> np.ndarray:
        return self._once[name][: self.count]

    def any(self, name: str) -> bool:
        return bool(self.once(name).any())

    def changed(self, **values: np.ndarray) -> NodeValues:
        return NodeValues({**self._once, **values}, self.count)

    def part(self, low: int, high: int) -> NodeValues:
        return NodeValues({k: self.whole(k)[low:high] for k in self._once}, high - low)


@dataclass(frozen=True, eq=False)
class PerCell:
    """A parameter with a value for each cell; see `Network.per_cell`."""

    values: np.ndarray


Value = ArrayLike | PerCell | Callable[[np.ndarray], ArrayLike]
Where = ArrayLike | Callable[[np.ndarray], np.ndarray]  # word, mask, nodes; mask of distances


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
        """Return the nodes for a word, a mask, indices or a distance function, (m,) int64."""
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
        first_round = nodes[: self.in_round(at, nodes) or None]
        if len(first_round) and not self.area_at(first_round).all():
            node = first_round[int(np.argmin(self.area_at(first_round)))]
            cell = int(self.cell_of(node))
            raise InputError(
                f"{mechanism}: node {node} of cell {cell} is a junction without membrane; "
                "expected nodes with an area"
            )
        return nodes

    def in_round(self, at: Where, nodes: np.ndarray) -> int:
        """Return how many of the `nodes`, those at `at`, are in the first cell with each cable.

        These are the first of `nodes`, and the other cells repeat them. Return 0 if cells do not
        repeat: if there is only one cell per cable, or `at` is not the name of a region.
        """
        end = self._structure.in_round if isinstance(at, str) else 0
        return int(np.searchsorted(nodes, end)) if end else 0

    def nodes(self, cell: ArrayLike | None, at: Where) -> np.ndarray:
        nodes = self.of(at)
        if cell is None:
            return nodes
        chosen = np.zeros(self.forest.num_cells, bool)
        chosen[as_indices("cell", cell, self.forest.num_cells, "cell")] = True
        return nodes[chosen[self.cell_of(nodes)]]

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
        """Expand a parameter's `value` to one value per node, but leave a single number as it is.

        The value may have numbers by cell or node, or be a function of the distance, µm; `what`
        names it in messages.
        """
        if isinstance(value, PerCell):
            if len(value.values) != self.forest.num_cells:
                got = f"is of {len(value.values)} cells"
                raise InputError(f"{what} {got}; expected {self.forest.num_cells}")
            return value.values[self.cell_of(nodes)]
        if callable(value):
            values = as_array(what, _called(what, value, self.distance[nodes]), unit=unit)
            if values.shape not in ((), nodes.shape):
                raise InputError(
                    f"{what} is a function that returned shape {values.shape}; expected the "
                    f"distances' shape, {nodes.shape}"
                )
            return values
        array, cells = as_array(what, value), self.forest.num_cells
        if array.shape != (cells,) or array.shape == nodes.shape:
            return value
        if cells == self.forest.sizes[0] and (array != array[0]).any():
            raise InputError(
                f"{what} has shape {array.shape}, as many as there are cells and nodes of a cell; "
                "expected net.per_cell(values), or one value for each of these nodes"
            )
        return array[self.cell_of(nodes)]

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
                f"at={shown(at)}: no cell has a section of this type; expected "
                f"{', '.join(self._types())}, nodes or a mask"
            )
        return nodes

    def _types(self) -> list[str]:
        types = sorted({t for cable in self.cables for t in np.unique(cable.type).tolist()})
        words = [word for word, number in REGIONS.items() if number in types]
        others = [f"np.flatnonzero(cable.type == {t})" for t in types if t not in NAMES]
        has_soma = any(in_soma.any() for in_soma in self._structure.in_soma)
        return [*(["soma"] if has_soma else []), "dendrites", *words, "all", *others]

    def _need_cables(self, what: str) -> None:
        if not self.cables:
            raise InputError(f"{what}: the network was made from arrays; expected nodes or a mask")


def _called(what: str, function: Callable[[np.ndarray], object], distance: np.ndarray) -> object:
    """Call a user's function of distances from the soma, µm; `what` is its name in InputErrors."""
    if isinstance(function, type):
        raise InputError(f"{what} is the class {function.__name__}; expected a function")
    try:
        signature(function).bind(distance)
    except ValueError:  # some built-in functions have no signature
        pass
    except TypeError as error:
        raise InputError(
            f"{what} is a function that does not take one argument ({error}); expected a function "
            "of the distances from the soma, µm"
        ) from None
    return function(distance)
