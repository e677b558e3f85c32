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
    """Repeats on a device what is of one copy.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    dtype : float64 or float32
        Of values that are not whole numbers.
    copies : int
    """

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
        """Repeat rows, each copy after copy; numbers, but not -1, become `step` larger each time.

        Parameters
        ----------
        once : (rows, n) of the dtype of `whole`
        whole : array
        begin : int
            Where the first row begins there.
        step : int
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
        """Values of all copies in the solver's order, of those of one in natural order.

        Parameters
        ----------
        once : (n,) float64
        gather : (places,) int32
            Node at each place, -1 for none.
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
        """(places,) int32, some of them: what `axial.placed_neighbours` gives, of all copies.

        Parameters
        ----------
        gather : (places,) int32
            Node at each place, -1 for none.
        of_one : (k, n) int64
            Result of `axial.neighbours` of one copy.
        """
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

        Parameters
        ----------
        gather : (places,) int32
            Node at each place, -1 for none.
        number : (n,) int32
            Active nodes of one copy, as these are numbered, -1 for others.
        """
        given = cla.to_device(self.queue, number)
        places, most = len(active), int(number.max(initial=-1)) + 1
        self._places(
            self.queue, *devices.wide_groups(self.queue.device, places), places, len(number),
            most, begin, gather.base_data, given.base_data, active.base_data, ints.base_data,
        )  # fmt: skip


class TiledArena(Arena):
    """An arena of which some regions are repeated on the device.

    Parameters
    ----------
    tiler : Tiler
    dtype : dtype
    """

    def __init__(self, tiler: Tiler, dtype: np.dtype) -> None:
        super().__init__(dtype)
        self._tiler = tiler
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
        """Add a region of (rows, n) values, each row copy after copy; see `Tiler.tile`.

        Parameters
        ----------
        before, after : (k,) array
            What is in the region once, before and after these.
        """
        once = np.ascontiguousarray(rows, self.dtype)
        size = once.size * self._tiler.copies
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


class Tiled(Variables):
    """Variables of copies: those of wires of all copies, those of nodes and instances of one.

    Parameters
    ----------
    once : Variables
        Of one copy.
    model : CopiedModel
    wires : Wires
        Of the whole.
    """

    def __init__(self, once: Variables, model: CopiedModel, wires: Wires) -> None:
        vars(self).update(vars(once.copy()))
        self.once, self.copied = once, model
        self.model, self.wires = model, wires
        copies = Copies(once.model, model, model.sources_of_each(), model.connections_of())
        for field in once.model.schema:
            if field.what in ("queue", "drawn") or field.per not in ("node", "cell", "instance"):
                self.put(field, copies.tiled(field, once.array(field)))

    def whole(self) -> Variables:
        """Return the same with all that is of nodes and instances of all copies, too."""
        found, once, copies = Variables.__new__(Variables), self.once, self.copied.copies
        kept = {k: a for k, a in vars(self).items() if k not in ("once", "copied")}
        vars(found).update(kept)
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
    variables: Tiled, tiler: Tiler, base_d: np.ndarray, place: Callable[[], np.ndarray]
) -> dict[str, Arena]:
    """Return the arenas of `kinds.layouts.filled_arenas`, with its regions in the same order.

    Parameters
    ----------
    variables : Tiled
    tiler : Tiler
    base_d : (n,) float64, µS
        Of one copy.
    place : function
        Gives the places of all nodes in the solver's order, where pointers need them. Those of
        active nodes are left to `Tiler.find_places`.
    """
    mem, ints = TiledArena(tiler, tiler.dtype), TiledArena(tiler, np.dtype(np.int32))
    clock, model = TiledArena(tiler, np.dtype(np.float64)), variables.once.model
    copies, n = tiler.copies, model.forest.num_nodes
    nodes = active_nodes(model)
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
    detectors = model.sources.detector_node[detector_order(variables.once)]
    _tile_first(ints, "first_detector", detectors, nodes, copies)
    add_detectors(variables, (mem, ints))
    add_wires(variables, (mem, clock, ints))
    if not model.played:
        none = np.zeros((1, len(nodes)))
        ints.tile("first_played", none, after=np.zeros(1))
    add_played(variables, Layout, mem, clock, ints)
    return {"mem": mem, "clock": clock, "ints": ints}


def _tile_first(
    ints: TiledArena, name: str, node: np.ndarray, nodes: np.ndarray, copies: int
) -> None:
    """Add where those of each active node begin, of things by node, and their end."""
    begin, count = np.searchsorted(node, nodes), len(node)
    ints.tile(name, begin[None], count, after=np.array([count * copies]))


def _add_kind(
    variables: Tiled,
    k: int,
    kind: Kind,
    nodes: np.ndarray,
    place: Callable[[], np.ndarray],
    arenas: tuple[TiledArena, TiledArena],
) -> None:
    (mem, ints), copies, singles = arenas, variables.copied.copies, variables.singles(k)
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
        ids = variables.stream(k, name, np.arange(kind.count * copies))
        ints.add(f"stream_{k}_{name}", ids.view(np.int32))
        ints.add(f"drawn_{k}_{name}", variables.drawn[k, name].view(np.int32))
    if is_artificial(kind):
        return
    _tile_first(ints, f"first_{k}", kind.node, nodes, copies)
    ints.tile(f"active_{k}", np.searchsorted(nodes, kind.node)[None], len(nodes))
    for (of, name), node in variables.model.pointers.items():
        if of == k:
            ints.add(f"pointer_{k}_{name}", place()[node])
