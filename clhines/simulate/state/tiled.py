"""Tiled: variables and arenas of copies that are alike, made of those of one copy.

What there is of nodes and instances is kept of one copy and repeated on the device; rings,
connections and queues, of which there are few, are made for all copies here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.arrays import shifted
from clhines.device import devices, program
from clhines.errors import DeviceMemoryError
from clhines.model.copied import CopiedModel
from clhines.model.ions import ADVANCE_REVERSAL
from clhines.model.model import Kind
from clhines.plan.kernel_spec import TemplateSpec
from clhines.plan.plan import real_name
from clhines.simulate.engines.variables import Variables
from clhines.simulate.events.sources import Wires
from clhines.simulate.kinds.layouts import (
    Layout,
    active_nodes,
    add_detectors,
    add_played,
    add_wires,
    detector_order,
    is_artificial,
    nernst_scale,
)
from clhines.simulate.state.arena import Arena
from clhines.simulate.state.copies import Copies

WIDE = 128  # work-items of a row on other devices than CPUs
NONE = np.zeros(0)


@dataclass(frozen=True)
class TiledSpec(TemplateSpec):
    """``tiled.mako``; `real` is ``double`` or ``float``."""

    template: ClassVar[str] = "simulate/tiled"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "tile_values": (
            "int n, int copies, long begin",
            "const real *restrict values, real *restrict whole",
        ),
        "pack_values": (
            "int num_places, int n",
            "const int *restrict gather, const real *restrict values, real *restrict whole",
        ),
        "tile_numbers": (
            "int n, int copies, long begin, int step",
            "const int *restrict values, int *restrict whole",
        ),
        "invert_places": ("int num_places, const int *restrict gather, int *restrict place",),
        "place_others": (
            "int num_places, int n, const int *restrict gather, const int *restrict place",
            "const int *restrict other, int *restrict placed",
        ),
        "find_places": (
            "int num_places, int n, int num_active, long begin",
            "const int *restrict gather, const int *restrict number",
            "int *restrict active, int *restrict ints",
        ),
    }
    real: str


class Tiler:
    """Repeats on a device what is of one copy; `dtype` is of values that are no whole numbers."""

    def __init__(self, queue: cl.CommandQueue, dtype: np.dtype, copies: int) -> None:
        self.queue, self.dtype, self.copies = queue, np.dtype(dtype), copies
        built = program.build(queue.context, TiledSpec(real_name(dtype)))
        self._values = program.typed_kernel(built, "tile_values", "iil")
        self._pack = program.typed_kernel(built, "pack_values", "ii")
        self._numbers = program.typed_kernel(built, "tile_numbers", "iili")
        self._invert = program.typed_kernel(built, "invert_places", "i")
        self._others = program.typed_kernel(built, "place_others", "ii")
        self._places = program.typed_kernel(built, "find_places", "iiil")
        self._width = 1 if devices.is_cpu(queue.device) else WIDE

    def tile(self, once: np.ndarray, whole: cla.Array, begin: int, step: int) -> None:
        """Repeat (rows, n) values into `whole` from `begin` on, each row copy after copy.

        Whole numbers, but not -1, become `step` larger each time.
        """
        if not once.size:
            return
        given = cla.to_device(self.queue, once)
        width = min(self._width, devices.small_groups(self.queue.device, 1)[1][0])
        size = (width, once.shape[0] * self.copies), (width, 1)
        arrays = given.base_data, whole.base_data
        if once.dtype == np.int32:
            self._numbers(self.queue, *size, once.shape[1], self.copies, begin, step, *arrays)
        else:
            assert not step and once.dtype == self.dtype
            self._values(self.queue, *size, once.shape[1], self.copies, begin, *arrays)

    def packed(self, once: np.ndarray, gather: cla.Array) -> cla.Array:
        """(places,) values of all copies in the solver's order, of (n,) of one in natural order.

        `gather` is the node at each place, -1 for none.
        """
        given = cla.to_device(self.queue, np.ascontiguousarray(once, self.dtype))
        places = len(gather)
        found = cla.empty(self.queue, places, self.dtype)
        self._pack(
            self.queue, *devices.wide_groups(self.queue.device, places), places, len(once),
            gather.base_data, given.base_data, found.base_data,
        )  # fmt: skip
        return found

    def places(self, gather: cla.Array, num_nodes: int) -> np.ndarray:
        """(n,) int64: wait, and return the place of each node; see `packed`."""
        return self._inverted(gather, num_nodes).get(self.queue).astype(np.int64)

    def _inverted(self, gather: cla.Array, num_nodes: int) -> cla.Array:
        found, places = cla.empty(self.queue, num_nodes, np.int32), len(gather)
        sizes = devices.wide_groups(self.queue.device, places)
        self._invert(self.queue, *sizes, places, gather.base_data, found.base_data)
        return found

    def neighbours(self, gather: cla.Array, of_one: np.ndarray) -> list[cla.Array]:
        """`axial.placed_neighbours` of all copies, of (k, n) `axial.neighbours` of one."""
        places, n = len(gather), of_one.shape[1]
        place, found = self._inverted(gather, n * self.copies), list[cla.Array]()
        for some in of_one:
            given = cla.to_device(self.queue, np.ascontiguousarray(some, np.int32))
            found.append(cla.empty(self.queue, places, np.int32))
            self._others(
                self.queue, *devices.wide_groups(self.queue.device, places), places, n,
                gather.base_data, place.base_data, given.base_data, found[-1].base_data,
            )  # fmt: skip
        return found

    def find_places(
        self, gather: cla.Array, number: np.ndarray, active: cla.Array, ints: cla.Array, begin: int
    ) -> None:
        """Find the active node at each place, and the place of each, which `ints` has from `begin`.

        `number` is that of each active node of one copy, -1 for others.
        """
        given = cla.to_device(self.queue, number)
        places, most = len(active), int(number.max(initial=-1)) + 1
        self._places(
            self.queue, *devices.wide_groups(self.queue.device, places), places, len(number),
            most, begin, gather.base_data, given.base_data, active.base_data, ints.base_data,
        )  # fmt: skip


class TiledArena(Arena):
    """An arena of which some regions are repeated on the device."""

    def __init__(self, tiler: Tiler, dtype: np.dtype) -> None:
        super().__init__(dtype)
        self._tiler, self.copies = tiler, tiler.copies
        self._plain: list[tuple[int, np.ndarray]] = []
        self._tiles: list[tuple[int, np.ndarray, int]] = []

    def add(self, name: str, values: np.ndarray) -> None:
        """Add a region."""
        super().add(name, values)
        self._plain.append((self.offset[name], self._parts.pop()))

    def room(self, name: str, size: int) -> int:
        """Add a region whose values come later; return where it begins."""
        self.offset[name], self._shape[name] = self._size, (size,)
        self._size += size
        return self.offset[name]

    def tile(
        self, name: str, rows: np.ndarray, step: int = 0, before: np.ndarray = NONE,
        after: np.ndarray = NONE,
    ) -> None:  # fmt: skip
        """Add a region: `before`, (rows, n) values as `Tiler.tile` repeats them, and `after`."""
        once = np.ascontiguousarray(rows, self.dtype)
        size = once.size * self.copies
        begin = self.room(name, len(before) + size + len(after))
        self._tiles.append((begin + len(before), once, step))
        for at, values in ((begin, before), (begin + len(before) + size, after)):
            if len(values):
                self._plain.append((at, np.asarray(values, self.dtype)))

    def put(self, queue: cl.CommandQueue) -> cla.Array:
        """Put all regions on the device; nothing is added any more."""
        if self._size >= 2**31:
            raise DeviceMemoryError(
                f"the variables and events take {self._size} numbers; expected less than 2**31"
            )
        self._queue, self.array = queue, cla.empty(queue, self._size + 1, self.dtype)
        for at, once, step in self._tiles:
            self._tiler.tile(once, self.array, at, step)
        for at, values in [*self._plain, (self._size, np.zeros(1, self.dtype))]:
            if len(values):
                self.array[at : at + len(values)].set(values, queue)
        self._plain, self._tiles = [], []
        return self.array


class Tiled:
    """`variables` of copies: what there is of nodes and instances is of one, the rest of all."""

    def __init__(self, once: Variables, model: CopiedModel, wires: Wires) -> None:
        self.once, self.copies, self.variables = once, model.copies, once.copy()
        self.variables.model, self.variables.wires = model, wires
        copies = Copies(once.model, model, model.sources_of_each(), model.connections_of())
        for field in once.model.schema:
            if field.what in ("queue", "drawn") or field.per not in ("node", "cell", "instance"):
                self.variables.put(field, copies.tiled(field, once.array(field)))

    def whole(self) -> Variables:
        """Return variables of which everything is of all copies."""
        once, copies, found = self.once, self.copies, self.variables.copy()
        found.v, found.failed = np.tile(once.v, copies), np.tile(once.failed, copies)
        found.parameters, found.states, found.outputs = (
            [{k: np.tile(a, copies) for k, a in of_kind.items()} for of_kind in kinds]
            for kinds in (once.parameters, once.states, once.outputs)
        )
        found.ions = {k: np.tile(a, copies) for k, a in once.ions.items()}
        found.rounds = [
            [shifted(some, kind.count, copies) for some in rounds]
            for kind, rounds in zip(once.model.kinds, once.rounds, strict=True)
        ]
        return found


def tiled_arenas(
    tiled: Tiled, tiler: Tiler, base_d: np.ndarray, place: Callable[[], np.ndarray]
) -> dict[str, Arena]:
    """Return the arenas of `kinds.layouts.filled_arenas`, with its regions in the same order.

    `base_d` is of one copy, µS. `place` gives the places of all nodes in the solver's order, where
    pointers need them; those of active nodes are left to `Tiler.find_places`.
    """
    mem, ints = TiledArena(tiler, tiler.dtype), TiledArena(tiler, np.dtype(np.int32))
    clock, variables = TiledArena(tiler, np.dtype(np.float64)), tiled.variables
    model, copies = tiled.once.model, tiler.copies
    nodes, n = active_nodes(model), model.forest.num_nodes
    mem.tile("area", model.area[nodes][None])
    mem.tile("base_d", base_d[nodes][None])
    ints.room("place_of", len(nodes) * copies)
    cell = np.full(n, -1)
    cell[model.soma] = np.arange(model.forest.num_cells)
    ints.tile("cell", cell[nodes][None], model.forest.num_cells)
    ints.add("error", np.zeros(1))
    for ion in model.ions:
        for name in (*ion.variables, f"d{ion.variables[3]}"):
            mem.tile(f"ion_{name}", variables.ions[name][nodes][None])
        mem.add(f"nernst_{ion.name}", np.array([nernst_scale(model.celsius, ion)]))
        advances = np.zeros(n, bool)
        advances[ion.node] = (ion.style & ADVANCE_REVERSAL) > 0
        ints.tile(f"advances_{ion.name}", advances[nodes][None])
    for k, kind in enumerate(model.kinds):
        _add_kind(variables, k, kind, nodes, place, (mem, ints))
    detectors = model.sources.detector_node[detector_order(tiled.once)]
    _tile_first(ints, "first_detector", detectors, nodes)
    add_detectors(variables, (mem, ints))
    add_wires(variables, (mem, clock, ints))
    if not model.played:
        none = np.zeros((1, len(nodes)))
        ints.tile("first_played", none, after=np.zeros(1))
    add_played(variables, Layout, mem, clock, ints)
    return {"mem": mem, "clock": clock, "ints": ints}


def _tile_first(ints: TiledArena, name: str, node: np.ndarray, nodes: np.ndarray) -> None:
    """Add where those of each active node begin, of things by node, and their end."""
    begin, count = np.searchsorted(node, nodes), len(node)
    ints.tile(name, begin[None], count, after=np.array([count * ints.copies]))


def _add_kind(
    variables: Variables,
    k: int,
    kind: Kind,
    nodes: np.ndarray,
    place: Callable[[], np.ndarray],
    arenas: tuple[TiledArena, TiledArena],
) -> None:
    (mem, ints), singles = arenas, variables.singles(k)
    values, empty = variables.parameters[k], np.zeros((0, kind.count))
    given = np.stack([values[n] for n, alone in singles if not alone] or [*empty, NONE]).reshape(
        -1, kind.count) if kind.count else empty  # fmt: skip
    single = [values[n][:1] for n, alone in singles if alone]
    mem.tile(f"parameters_{k}", given, before=np.concatenate([NONE, *single]))
    for what, kept in (("states", variables.states[k]), ("outputs", variables.outputs[k])):
        names = variables.wanted[k] if what == "outputs" else [*kept]
        mem.tile(f"{what}_{k}", np.stack([empty.sum(axis=0), *(kept[n] for n in names)])[1:])
    for name, rows in variables.tables[k].items():
        mem.add(f"table_{k}_{name}", rows)
    for name in kind.mechanism.program.random:
        ids = variables.stream(k, name, np.arange(kind.count * mem.copies))
        ints.add(f"stream_{k}_{name}", ids.view(np.int32))
        ints.add(f"drawn_{k}_{name}", variables.drawn[k, name].view(np.int32))
    if is_artificial(kind):
        return
    _tile_first(ints, f"first_{k}", kind.node, nodes)
    ints.tile(f"active_{k}", np.searchsorted(nodes, kind.node)[None], len(nodes))
    for (of, name), node in variables.model.pointers.items():
        if of == k:
            ints.add(f"pointer_{k}_{name}", place()[node])
