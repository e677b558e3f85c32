"""Order of nodes and instances in arenas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from clhines.core.arrays import inverse, offsets, stretch_of
from clhines.simulator.model.model import Kind, Model, ModelSources
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.sources import Wires
from clhines.simulator.state.variables import Variables

NONE = np.zeros(0)
_ACTIVE: WeakKeyDictionary[ModelSources, tuple[np.ndarray, np.ndarray]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class KindColumns:
    """Order of a mechanism's values: all instances' values of one variable, then the next one."""

    by_node: ClassVar[bool] = True
    count: int

    def at(self, instance: np.ndarray, column: int, columns: int) -> np.ndarray:
        """Return the indices of instances' values, in a region with `columns` variables.

        `column` is the variable's number.
        """
        return column * self.count + np.asarray(instance)

    def put(
        self, mem: Arena, name: str, values: Sequence[np.ndarray], before: np.ndarray = NONE
    ) -> None:
        """Add the region `name` to an arena: the numbers `before`, then one array per variable."""
        mem.add(name, np.concatenate([before, *values]))


class Layout:
    """Order active nodes and instances in device arrays: active nodes ascend.

    Active nodes have instances, ions or detectors:

        node      0  1  2  3  4
        active       *     *  *
        number   -1  0 -1  1  2
    """

    groups: Mapping[int, KindColumns] = {}  # by kind, if its instances are in groups
    ring_steps = 0  # steps that artificial cells are ahead: their rings have space for these

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def nodes(self) -> np.ndarray:
        return active_nodes(self._model)

    @property
    def count(self) -> int:
        return num_active(self._model)

    def number(self, node: np.ndarray) -> np.ndarray:
        return np.where(node < 0, -1, _active(self._model)[1][node])

    def first(self, number: np.ndarray) -> np.ndarray:
        return np.cumsum(np.bincount(number + 1, minlength=self.count + 1))[: self.count + 1]

    def columns(self, k: int, kind: Kind) -> KindColumns:
        return KindColumns(kind.count)

    def owner(self, k: int, instance: np.ndarray) -> np.ndarray:
        """Return the active node whose work-item records each instance of kind `k`, (r,) int64.

        Numbers from 0 on are active nodes. The active node count stands for all artificial cells,
        and larger numbers for sums that pointers write.
        """
        kind = self._model.kinds[k]
        if is_artificial(kind):
            return np.full(len(instance), self.count)
        return self.number(kind.node[instance])

    @property
    def num_owners(self) -> int:
        return self.count + 1 + (2 + num_sums(self._model) if self._model.written else 0)


def active_nodes(model: Model) -> np.ndarray:
    """Return the nodes with instances, ions or detectors, (a,) int64, ascending."""
    return _active(model)[0]


def _active(model: Model) -> tuple[np.ndarray, np.ndarray]:
    sources = model.sources
    if sources not in _ACTIVE:  # models that differ in parameters share their sources
        nodes = [model.soma, model.sources.detector_node]
        nodes += [k.node for k in model.kinds] + [ion.node for ion in model.ions]
        active = np.zeros(model.forest.num_nodes + 1, bool)  # the last: -1, no node
        for node in nodes:
            active[node] = True
        active[-1] = False
        _ACTIVE[sources] = np.flatnonzero(active), np.cumsum(active) - active
        for a in _ACTIVE[sources]:
            a.setflags(write=False)
    return _ACTIVE[sources]


def has_constants(model: Model) -> bool:
    return model.of_nodes.any("constant_g") or model.of_nodes.any("constant_b")


def num_active(model: Model) -> int:
    return len(active_nodes(model))


def is_artificial(kind: Kind) -> bool:
    return kind.mechanism.kind == "artificial"


def sums_of(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the states that pointers write ("sums"), and the instances that write them.

    1. The sums, (3, s): mechanism, state index, instance.

    2. All additions, in NEURON's order, (3, m): the sum, index of mechanism and pointer in
    `Model.written`, instance.

    3. The instance that sets each sum before others add, (2, s): index in `Model.written` and
    instance, or -1.
    """
    targets, adds, puts = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for number, ((k, name), to) in enumerate(model.written.items()):
        blocks, count = model.kinds[k].mechanism.program.blocks, len(to.instance)
        states = [q.name for q in model.kinds[to.kind].mechanism.program.states]
        target = np.full(count, to.kind), np.full(count, states.index(to.state)), to.instance
        targets.append(np.stack(target))
        for pointers, block, role in (
            (adds, "after_solve", "add"),
            (puts, "before_breakpoint", "put"),
        ):
            if any((a.role, a.name) == (role, name) for a in blocks.get(block, ())):
                pointers.append(np.stack((np.full(count, number), np.arange(count))))
    sums, sum_of = np.unique(np.concatenate(targets, axis=1), axis=1, return_inverse=True)
    begin = offsets(np.array([len(to.instance) for to in model.written.values()], np.int64))
    sum_of = sum_of.reshape(-1)
    none = np.zeros((2, 0), np.int64)
    number, instance = np.concatenate([none, *adds], axis=1)
    to_sum = sum_of[begin[number] + instance]
    kind = np.array([k for k, _ in model.written], np.int64)
    order = np.lexsort((kind[number], to_sum))
    set_by = np.full((2, sums.shape[1]), -1)
    setters = np.concatenate([none, *puts], axis=1)
    setters = setters[:, np.argsort(kind[setters[0]], kind="stable")]
    set_by[:, sum_of[begin[setters[0]] + setters[1]]] = setters
    return sums, np.stack((to_sum, number, instance))[:, order], set_by


def cells_of_sums(model: Model) -> np.ndarray:
    """Return for each sum of `sums_of` the cell of the instance with that state, (s,) int64."""
    kind, _, instance = sums_of(model)[0]
    nodes = [model.kinds[k].node[j] for k, j in zip(kind, instance, strict=True)]
    return stretch_of(model.forest.cell_offsets, np.array(nodes, np.int64))


def num_sums(model: Model) -> int:
    return sums_of(model)[0].shape[1] if model.written else 0


def node_numbers(model: Model) -> np.ndarray:
    """Return each node's index among the `active_nodes`, -1 for others, (n,) int32."""
    return inverse(active_nodes(model), model.forest.num_nodes).astype(np.int32)


def loose_targets(model: Model, wires: Wires) -> np.ndarray:
    """Return the event targets that are artificial cells, which have no node, (k,) int64."""
    each = [
        first + np.arange(model.kinds[k].count)
        for k, first in wires.first_target.items()
        if is_artificial(model.kinds[k])
    ]
    return np.concatenate([np.zeros(0, np.int64), *each])


def at_parameter(
    variables: Variables, layout: Layout, k: int, name: str, instance: np.ndarray
) -> np.ndarray:
    """Return parameter `name`'s index for each `instance` in mechanism `k`'s region."""
    singles = variables.singles[k]
    several = [n for n, single in singles if not single]
    columns = layout.columns(k, variables.model.kinds[k])
    return len(singles) - len(several) + columns.at(instance, several.index(name), len(several))
