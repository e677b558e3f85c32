"""The nodes' device indices for epochs on GPUs, and regions that only they have in the arenas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clhines.core.arrays import offsets, starts, stretch_of
from clhines.simulator.gpu.columns import sole_kinds
from clhines.simulator.gpu.functions import BY_LAYERS, takes_apart
from clhines.simulator.gpu.plan import EpochPlan
from clhines.simulator.kinds import layouts
from clhines.simulator.kinds.diffusing import add_diffusing_rows
from clhines.simulator.model.model import Model
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.sources import Wires


class NodePlaces:
    """A model's device indices by node; a plan's cells are side by side.

    `of_node`, (n,), has each node's device index, and `node`, (count,), the node at each device
    index, -1 for padding. `within`, (n,), has each node's index in its cell, in device order, and
    `first` each plan's first device index.
    """

    def __init__(self, model: Model, plans: Sequence[EpochPlan]) -> None:
        each = [plan.table.gather for plan in plans]
        self.first = starts(np.array([len(gather) for gather in each], np.int64))
        self.node = np.concatenate([np.zeros(0, np.int64), *each])
        self.count = len(self.node)
        self.of_node, self.within = np.zeros((2, model.forest.num_nodes), np.int64)
        for plan, gather, base in zip(plans, each, self.first.tolist(), strict=True):
            units = plan.table.units
            real = np.flatnonzero(gather >= 0)
            begin = np.repeat(units[:, 0], units[:, 1])
            self.of_node[gather[real]] = base + real
            self.within[gather[real]] = real - begin[real]

    def packed(self, values: np.ndarray, padding: float = 0.0) -> np.ndarray:
        by_place = np.full(max(self.count, 1), padding, np.float64)
        by_place[self.of_node] = values
        return by_place


class CellLayout(layouts.Layout):
    """Order nodes and recorded values in device arrays; choose the lane that records each value.

    `at_sites`, (n,) bool: lanes advance a node's instances one by one. Then an instance's lane
    records its values, otherwise its node's lane does.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.at_sites = np.zeros(model.forest.num_nodes, bool)
        self.first_owner = super().num_owners + starts(
            np.array([kind.count for kind in model.kinds], np.int64)
        )

    @property
    def num_owners(self) -> int:
        if not self.at_sites.any():
            return super().num_owners
        return super().num_owners + sum(kind.count for kind in self._model.kinds) + 1  # an end

    def owner(self, k: int, instance: np.ndarray) -> np.ndarray:
        owner = super().owner(k, instance)
        if not self.at_sites.any():
            return owner
        at_site = self.at_sites[self._model.kinds[k].node[instance]]
        return np.where(at_site, self.first_owner[k] + instance, owner)


class CellRegions:
    """Add regions that only epochs on GPUs need to the arenas (device arrays).

    `layers` is the largest number of target layers in a cell (see `Wires.layers`), and `rounds` the
    number of elimination rounds for diffusing states, of which a cell has up to `most_rows`.
    """

    def __init__(self, model: Model, wires: Wires) -> None:
        self.model, self.wires = model, wires
        self.layers = self.rounds = self.most_rows = 0

    def add_sites(self, layout: CellLayout, arenas: dict[str, Arena]) -> None:
        for k, kind in enumerate(self.model.kinds):
            arenas["ints"].add(f"owner_{k}", layout.first_owner[[k]])
            arenas["mem"].add(f"factor_{k}", kind.factor)

    def add_lists(
        self, network: Model, within: np.ndarray, spreads: bool, arenas: dict[str, Arena]
    ) -> None:
        """Add the regions that kernels with lists of nodes need to `arenas`.

        `network` is the model on all ranks. `within` is each node's index in its cell. Each point
        process has a current and a conductance, or a pair of each, for even and odd steps, if
        several work-groups share a cell (`spreads`).
        """
        ints, model = arenas["ints"], self.model
        arenas["clock"].add("node_due", np.zeros(layouts.num_active(model)))
        apart = takes_apart(network)
        for k in sole_kinds(network, apart):
            ints.add(f"node_of_{k}", layouts.node_numbers(model)[model.kinds[k].node])
        for k in apart:
            kind = model.kinds[k]
            ints.add(f"place_in_cell_{k}", within[kind.node])
            ints.room(f"waits_{k}", (kind.count,))
            for name in (f"slot_i_{k}", f"slot_g_{k}"):
                arenas["mem"].room(name, (2 if spreads else 1, kind.count))
        if model.written:
            cell = layouts.cells_of_sums(model)
            ints.add("cell_sums", np.argsort(cell, kind="stable"))
            counts = np.bincount(cell, minlength=model.forest.num_cells)
            ints.add("cell_sum", offsets(counts))
        if model.needs & BY_LAYERS:
            first, targets = self._layers()
            ints.add("first_of_cells_layer", first)
            ints.add("layer_targets", targets)
            self.layers = (len(first) - 1) // model.forest.num_cells

    def add_diffusion(self, layout: CellLayout, arenas: dict[str, Arena]) -> None:
        order, mem, ints = np.arange(self.model.forest.num_cells), arenas["mem"], arenas["ints"]
        rows = add_diffusing_rows(self.model, layout, mem, ints, order)
        self.rounds, self.most_rows = rows.rounds, rows.most

    def _layers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the event targets by cell and layer, and the first entry of each cell and layer.

        An event with no delay leads from one layer of targets to a later one (see `Wires.layers`).
        Artificial cells are left out.
        """
        model, wires = self.model, self.wires
        cell, layer = np.full((2, wires.num_targets), -1)
        for k, first in wires.first_target.items():
            if not layouts.is_artificial(model.kinds[k]):
                here = slice(first, first + model.kinds[k].count)
                cell[here] = stretch_of(model.forest.cell_offsets, model.kinds[k].node)
        for k, targets in enumerate(wires.layers):
            layer[targets] = k
        with_cell = np.flatnonzero(cell >= 0)
        used, layer = np.unique(layer[with_cell], return_inverse=True)
        number = cell[with_cell] * len(used) + layer
        counts = np.bincount(number, minlength=model.forest.num_cells * len(used))
        return offsets(counts), with_cell[np.argsort(number, kind="stable")]
