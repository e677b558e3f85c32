"""Reductions of recorded rows, on the device or the host.

After each step an engine samples voltages, states or other variables into a row. A `Reducer` turns
a chunk's rows into the requested values: membrane currents, linear combinations, every n-th row; or
extremes, sums and crossings, which continue from chunk to chunk. Sums add row after row, so results
have the same bits however a run is divided into chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import ranges
from clhines.simulator.device import launches
from clhines.simulator.model.model import Model
from clhines.simulator.records.features import DeviceFeatures, HostFeatures
from clhines.simulator.records.membrane import Membrane
from clhines.simulator.records.records import MEMBRANE, VOLTAGE, Record
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import set_zero, to_device
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import real_name

_OF_ROWS = "int width, int first, int every, int stride, int column"
_OF_COLUMNS = "int rows, int width, int stride, int column"
_GROUP, _ACROSS = 256, 32  # work-items per group, and tiles of these across a row's combinations


@dataclass(frozen=True)
class ReducedSpec(TemplateSpec):
    template: ClassVar[str] = "simulator/reduced"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "some_rows": (_OF_ROWS, "const real *restrict values, real *restrict kept"),
        "membrane": (
            _OF_ROWS,
            "int num_clamps, const real *restrict values, const int *restrict begin",
            "const int *restrict other, const int *restrict own, const real *restrict g",
            "const int *restrict clamp_begin, const int *restrict clamp",
            "const real *restrict clamps, real *restrict kept",
        ),
        "combine": (
            "int first, int every, int stride, int column, int across, int rows, int padded",
            "int terms, int first_part, const real *restrict values, const wide *restrict matrix",
            "wide *restrict parts",
        ),
        "add_parts": (
            "int width, int rows, int padded, int num_parts, const wide *restrict parts",
            "real *restrict kept",
        ),
        "extreme": (_OF_COLUMNS, "int largest, const real *restrict values, real *restrict kept"),
        "total": (_OF_COLUMNS, "const real *restrict values, real *restrict kept"),
        "crossings": (
            _OF_COLUMNS,
            "int room, real threshold, const real *restrict values, real *restrict kept",
            "int *restrict count, int *restrict row_of",
        ),
    }
    real: str
    wide: str  # type in which combinations' products are summed
    lanes: int = 1  # combinations per work-item
    tile: int = 1  # rows per work-item
    part: int = 1024  # terms per work-item, so that sums do not depend on the row count
    ptx: bool = False  # combinations by NVIDIA's matrix instructions; a warp has a tile
    pairs: bool = True  # whether all rows begin at even indices, for `ptx`

    @property
    def build_options(self) -> tuple[str, ...]:
        """With fewer registers more warps run side by side."""
        return ("-cl-nv-maxrregcount=64",) if self.ptx else ()

    @property
    def compensated(self) -> bool:
        """Whether sums are compensated, because the device has no float64."""
        return self.wide == "float"

    @property
    def wide_dtype(self) -> np.dtype:
        return np.dtype(np.float32 if self.wide == "float" else np.float64)

    @property
    def items(self) -> int:
        return 32 if self.ptx else 1

    @property
    def vector(self) -> int:
        """How many combinations a kernel reads at once; matrices are padded to a multiple of it."""
        return 16 if self.ptx else self.lanes

    @property
    def terms(self) -> int:
        """Terms that are added at once; matrices have a multiple of it."""
        return 8 if self.ptx else 1

    def arranged(self, matrix: np.ndarray) -> np.ndarray:
        """Reorder a matrix, (combinations, values), for the kernel `combine`."""
        width, terms = matrix.shape
        matrix = np.pad(matrix, ((0, -width % self.vector), (0, -terms % self.terms)))
        if not self.ptx:
            return matrix.T
        blocks, halves, g, eights, t, pair = range(6)
        split = matrix.reshape(len(matrix) // 16, 2, 8, matrix.shape[1] // 8, 4, 2)
        return split.transpose(eights, blocks, pair, g, t, halves)

    @classmethod
    def on(cls, device: cl.Device, dtype: np.dtype) -> ReducedSpec:
        if not devices.has_fp64(device):
            return cls(real_name(dtype), "float")
        # the instruction needs compute capability 9; the extension is in NVIDIA's compiler
        ptx = "cl_nv_compiler_options" in device.extensions
        if ptx and device.compute_capability_major_nv >= 9:
            return cls(real_name(dtype), "double", 32, 16, part=2048, ptx=True)
        return cls(real_name(dtype), "double", 4, 8)


@dataclass(frozen=True, eq=False)
class View:
    """Where a record's rows are on a device: in a (rows, stride) array, from `column` on.

    `places` are the sampled nodes' device indices if rows have all nodes in device order; otherwise
    None. There is a row for every `interval`-th step.
    """

    array: cla.Array
    column: int = 0
    places: np.ndarray | None = None
    interval: int = 1

    @property
    def stride(self) -> int:
        return int(self.array.shape[1])


class Reducer:
    """Reduce one record's rows.

    Engines sample its `sources`, which are records, too: the record itself or, for a membrane
    current, voltages and electrodes' currents. A `plain` reducer returns the rows as sampled.
    """

    def __init__(self, record: Record, model: Model) -> None:
        self.record, self.membrane = record, None
        self.sources = [record]
        if record.kind == MEMBRANE:
            self.membrane = Membrane(model, record.index)
            self.sources = [Record("v", VOLTAGE, self.membrane.sampled)]
            self.sources += [
                Record(c.output, c.kind, c.instance) for c in self.membrane.clamps if c.output
            ]
        self.width = record.width
        self.plain = self.membrane is None and record.matrix is None
        self.plain &= record.every == 1 and not record.reduce

    def now(self, samples: Sequence[np.ndarray], step: int) -> np.ndarray:
        """Return the record's values as a step begins, (1, width), from `samples`.

        The reducer compares the values of the step with these to find crossings.
        """
        raise NotImplementedError

    def recorded_rows(self, first: int, rows: int) -> tuple[int, int]:
        """Return the first of `rows` rows to keep, and how many; row 0 ends step `first`."""
        begin = -(first + 1) % self.record.every
        return begin, max(0, -(-(rows - begin) // self.record.every))


def packed_columns(column: np.ndarray, values: np.ndarray, width: int, fill: float) -> np.ndarray:
    """Collect each column's values, (most, width), in ascending order.

    `column` has each value's column; `most` is the largest value count in a column, and `fill`
    fills up the other columns.
    """
    order = np.lexsort((values, column))
    number = np.bincount(column, minlength=width)
    packed = np.full((int(number.max(initial=0)), width), fill, values.dtype)
    packed[ranges(np.zeros_like(number), number), column[order]] = values[order]
    return packed


class HostReducer(Reducer):
    _kept: np.ndarray | None = None
    _features: HostFeatures | None = None

    def now(self, samples: Sequence[np.ndarray], step: int) -> np.ndarray:
        values = self._mapped(samples, step - 1)
        if self.record.windows is not None:
            self._features = HostFeatures(self.record.windows)
            if step == 0:
                return self._features.take(values)
        if self.record.follows:
            self._kept = np.stack([values[0], np.zeros(self.width)])
        return values

    def chunk(self, samples: Sequence[np.ndarray], first: int) -> np.ndarray:
        values, reduce = self._mapped(samples, first), self.record.reduce
        if self.record.windows is not None:
            self._features = self._features or HostFeatures(self.record.windows)
            return self._features.take(values)
        if not reduce:
            return values[self.recorded_rows(first, len(values))[0] :: self.record.every]
        if reduce in ("min", "max"):
            return self._extreme(values, reduce)
        if reduce in ("mean", "integral"):
            return self._total(values)
        assert self._kept is not None  # set in `now`
        before = np.vstack([self._kept[:1], values])
        threshold = self.record.threshold
        row, column = np.nonzero((before[:-1] < threshold) & (threshold <= values))
        self._kept[0] = before[-1]
        self._kept[1] += np.bincount(column, minlength=self.width)
        if reduce == "count":
            return self._kept[1:].astype(np.int64)
        return packed_columns(column, first + row, self.width, -1)

    def _mapped(self, samples: Sequence[np.ndarray], first: int) -> np.ndarray:
        values = samples[0]
        if self.membrane is not None:
            m, rows = self.membrane, len(values)
            flow = m.g * (values[:, m.neighbour_column] - values[:, m.node_column])
            clamps = m.currents(np.arange(first, first + rows), samples[1:])[:, m.clamp]
            values = np.zeros((rows, len(m.begin) - 1))
            for begin, terms in ((m.begin, flow), (m.clamp_begin, clamps)):
                node = np.repeat(np.arange(values.shape[1]), np.diff(begin))
                for column, term in zip(node.tolist(), terms.T, strict=True):
                    values[:, column] += term
        if self.record.matrix is not None:  # row by row, so that bits depend only on the row
            combined = [self.record.matrix @ row for row in values]
            values = np.array(combined).reshape(len(values), self.width)
        return values

    def _extreme(self, values: np.ndarray, reduce: str) -> np.ndarray:
        least, worst = (np.fmin, np.inf) if reduce == "min" else (np.fmax, -np.inf)
        if self._kept is None:
            self._kept = np.full((1, self.width), worst)
        self._kept = least.reduce(np.vstack([self._kept, values]), axis=0, keepdims=True)
        return self._kept

    def _total(self, values: np.ndarray) -> np.ndarray:
        if self._kept is None:
            self._kept = np.zeros((2, self.width))
        for value in values:
            total = self._kept[0] + value
            larger = np.abs(self._kept[0]) >= np.abs(value)
            big, small = np.where(larger, (self._kept[0], value), (value, self._kept[0]))
            self._kept[1] += (big - total) + small
            self._kept[0] = total
        return self._kept.sum(axis=0, keepdims=True)


class DeviceReducer(Reducer):
    def __init__(
        self, record: Record, model: Model, queue: cl.CommandQueue, dtype: np.dtype
    ) -> None:
        super().__init__(record, model)
        self._queue, self._dtype = queue, np.dtype(dtype)
        # copied once, for these node indices and row lengths: tables and matrices
        self._copied_for: tuple[np.ndarray | None, int] = None, -1
        self._tables: list[cla.Array] = []
        self._ready: tuple[View, bool] | None = None  # this chunk's, from `enqueue`
        self._kept: cla.Array | None = None
        self._count: cla.Array | None = None
        self._features: DeviceFeatures | None = None

    @cached_property
    def _spec(self) -> ReducedSpec:
        return ReducedSpec.on(self._queue.device, self._dtype)

    @cached_property
    def _copies(self) -> cl.CommandQueue:
        """A queue for copies that wait for no kernel."""
        return cl.CommandQueue(self._queue.context, self._queue.device)

    @cached_property
    def _built(self) -> cl.Program:
        return program.build(self._queue.context, self._spec)

    def _tables_of(self, view: View) -> list[cla.Array]:
        """Return the kernels' tables for a view's rows, copied to the device once.

        For a linear combination they are the matrices for the row's values and for the electrodes'
        currents; for a membrane current, attributes of `Membrane`.
        """
        before, places = self._copied_for[0], view.places
        length = len(self.sources[0].index) if places is None else view.stride
        same = before is places or (
            before is not None and places is not None and np.array_equal(before, places)
        )
        if same and self._copied_for[1] == length:
            return self._tables
        membrane, matrix = self.membrane, self.record.matrix
        columns = np.arange(length) if places is None else places
        arrays = []
        if matrix is not None:
            matrices = [matrix] if membrane is None else membrane.folded(matrix)
            if places is not None:
                of_sampled, matrices[0] = matrices[0], np.zeros((len(matrix), length))
                matrices[0][:, places] = of_sampled
            arrays = [self._spec.arranged(m) for m in matrices]
        elif membrane is not None:
            ends = columns[membrane.neighbour_column], columns[membrane.node_column]
            arrays = [membrane.begin, *ends, membrane.g, membrane.clamp_begin, membrane.clamp]
        real = self._dtype if matrix is None else self._spec.wide_dtype
        self._tables = [
            to_device(self._queue, a, real if a.dtype == np.float64 else np.int32) for a in arrays
        ]
        self._copied_for = places, length
        return self._tables

    def _launch(self, name: str, rows: int, *arguments: object) -> None:
        typed = [np.int32(a) if isinstance(a, int) else a for a in arguments]
        launches.BoundKernel(self._built, name, typed).launch_columns(self._queue, self.width, rows)

    def now(
        self,
        samples: Sequence[np.ndarray],
        step: int,
        whole: tuple[np.ndarray, int] | None = None,
    ) -> np.ndarray:
        """Return the record's values as a step begins; see `Reducer.now`.

        If a chunk's rows have all nodes, `whole` has `View.places` and the length of these rows.
        """
        values = samples[0].astype(self._dtype)
        if self.width and (self.membrane is not None or self.record.matrix is not None):
            count = values.shape[1]
            places, length = whole or (None, count + count % 2)
            row = np.zeros((1, length), self._dtype)
            row[:, slice(count) if places is None else places] = values
            view = View(cla.to_device(self._queue, row), places=places)
            view, _ = self._mapped(view, 1, step - 1, (0, 1, 1), samples[1:])
            values = view.array.get(self._queue)
        if self.record.windows is not None and self.width:
            self._features = DeviceFeatures(self.record.windows, self._queue, self._dtype)
            if step == 0:
                row = cla.to_device(self._queue, np.ascontiguousarray(values))
                return self._features.take(row, 1, 0, 0)
        if self.record.follows:
            self._kept = to_device(self._queue, values, self._dtype)
            self._count = cla.zeros(self._queue, max(self.width, 1), np.int32)
        return values

    def enqueue(self, view: View, rows: int, first: int) -> None:
        """Enqueue what `chunk` computes first, while the device is still busy with the steps."""
        begin, kept = self.recorded_rows(first, rows)
        if self.width and kept:
            self._ready = self._mapped(view, rows, first, (begin, self.record.every, kept), ())

    def chunk(
        self, view: View, rows: int, first: int, outputs: Sequence[np.ndarray] = ()
    ) -> np.ndarray:
        """Reduce a chunk's rows; wait for the device.

        The first row is the end of step `first`; `outputs` has rows of electrodes' currents. Return
        (rows, width) values. A reduction returns the extreme, sum (float64) or count (int64) so
        far, (1, width). ``crossings`` returns the steps at which each column crosses in these rows,
        filled up with -1, (k, width) int64. Features return the result of `DeviceFeatures.take`.
        """
        begin, kept = self.recorded_rows(first, rows)
        reduce = self.record.reduce
        if not self.width:
            return np.zeros((1 if reduce else kept, 0), self._dtype)
        if not reduce and not kept:
            return np.zeros((0, self.width), self._dtype)
        ready, self._ready = self._ready, None
        view, mapped = ready or self._mapped(
            view, rows, first, (begin, self.record.every, kept), outputs
        )
        if self.record.windows is not None:
            if self._features is None:
                self._features = DeviceFeatures(self.record.windows, self._queue, self._dtype)
            return self._features.take(view.array, rows, view.column, first + 1)
        if reduce:
            columns = rows, self.width, view.stride, view.column
            return self._reduced(reduce, view.array, columns, first)
        if not mapped:
            rows_of = self.width, begin, self.record.every, view.stride, view.column
            out = cla.empty(self._queue, (kept, self.width), self._dtype)
            self._launch("some_rows", kept, *rows_of, view.array, out)
            return out.get(self._queue)
        return view.array.get(self._queue)

    def _mapped(
        self,
        view: View,
        rows: int,
        first: int,
        recorded_rows: tuple[int, int, int],
        outputs: Sequence[np.ndarray],
    ) -> tuple[View, bool]:
        """Compute the recorded membrane currents and linear combinations from sampled rows.

        `recorded_rows` are the recorded rows' first index, interval and count. Return the rows, and
        whether they were computed.
        """
        begin, every, kept = recorded_rows
        membrane, matrix = self.membrane, self.record.matrix
        if membrane is None and matrix is None:
            return view, False
        each = view.interval
        rows_of = begin // each, every // each, view.stride, view.column
        tables, num_clamps = self._tables_of(view), 0
        if membrane is not None:
            some = slice(begin, begin + (kept - 1) * every + 1, every)
            steps = np.arange(first, first + rows)[some]
            clamps = membrane.currents(steps, [one[some] for one in outputs])
            num_clamps = clamps.shape[1]
            clamps = np.pad(clamps, ((0, 0), (0, num_clamps % 2)))
            currents = to_device(self._copies, clamps, self._dtype)
        if matrix is not None:
            terms = view.stride if view.places is not None else len(self.sources[0].index)
            factors = [(view.array, tables[0], terms, rows_of)]
            if num_clamps:
                factors.append((currents, tables[1], num_clamps, (0, 1, clamps.shape[1], 0)))
            return View(self._combined(kept, factors)), True
        out = cla.empty(self._queue, (kept, self.width), self._dtype)
        arrays = clamps.shape[1], view.array, *tables, currents, out
        self._launch("membrane", kept, self.width, *rows_of, *arrays)
        return View(out), True

    def _combined(
        self, kept: int, factors: Sequence[tuple[cla.Array, cla.Array, int, tuple[int, ...]]]
    ) -> cla.Array:
        """Multiply rows by matrices and add up the products, (kept, width).

        Each factor has an array with the rows, the matrix, the term count (columns to multiply),
        and where the rows are: first row, interval from one to the next, stride, first column.
        """
        spec, limit = self._spec, self._queue.device.max_work_group_size
        places = [place for *_, where in factors for place in where[2:]]
        spec = replace(spec, pairs=not spec.ptx or all(place % 2 == 0 for place in places))
        built = program.build(self._queue.context, spec)
        num_parts = [-(-terms // spec.part) for _, _, terms, _ in factors]
        padded = self.width + -self.width % spec.vector
        parts = cla.empty(self._queue, (sum(num_parts), kept, padded), spec.wide_dtype)
        out = cla.empty(self._queue, (kept, self.width), self._dtype)
        tiles, most = -(-padded // spec.lanes), max(1, min(_GROUP, limit) // spec.items)
        columns = -(-tiles // min(most, _ACROSS))
        across = -(-tiles // columns)
        deep = max(1, min(most // across, -(-kept // spec.tile)))
        rows, group, first_part = -(-kept // (spec.tile * deep)), across * deep * spec.items, 0
        for count, (values, matrix, terms, where) in zip(num_parts, factors, strict=True):
            numbers = map(np.int32, (*where, across, kept, padded, terms, first_part))
            launches.BoundKernel(built, "combine", [*numbers, values, matrix, parts]).launch(
                self._queue, columns * group, group, rows=count * rows
            )
            first_part += count
        self._launch("add_parts", kept, self.width, kept, padded, first_part, parts, out)
        return out

    def _reduced(
        self, reduce: str, values: cla.Array, columns: tuple[int, int, int, int], first: int
    ) -> np.ndarray:
        rows, width, real = columns[0], self.width, self._dtype.type
        if reduce in ("min", "max"):
            if self._kept is None:
                worst = np.inf if reduce == "min" else -np.inf
                self._kept = to_device(self._queue, np.full(width, worst), self._dtype)
            self._launch("extreme", 1, *columns, int(reduce == "max"), values, self._kept)
            return self._kept.get(self._queue)[None]
        if reduce in ("mean", "integral"):
            if self._kept is None:
                self._kept = cla.zeros(self._queue, 2 * width, self._dtype)
            self._launch("total", 1, *columns, values, self._kept)
            sums = self._kept.get(self._queue).reshape(2, width).astype(np.float64)
            return sums.sum(axis=0, keepdims=True)
        assert self._kept is not None and self._count is not None  # set in `now`
        listed = reduce == "crossings"
        room = (rows + 1) // 2 if listed else 0
        if listed:
            set_zero(self._count, self._queue)
        row_of = cla.empty(self._queue, (max(room, 1), width), np.int32)
        self._launch(
            "crossings",
            1,
            *columns,
            room,
            real(self.record.threshold),
            values,
            self._kept,
            self._count,
            row_of,
        )
        count = self._count.get(self._queue).astype(np.int64)
        if not listed:
            return count[None]
        most = int(count.max())
        row = row_of[:most].get(self._queue).astype(np.int64) if most else np.zeros((0, width))
        return np.where(np.arange(most)[:, None] < count, row + first, -1).astype(np.int64)


_Kind = TypeVar("_Kind", bound=Reducer)
_Sample = TypeVar("_Sample")  # a source's values, or their view on a device


class Reducers(Generic[_Kind]):
    """The reducers for all records in a run; they continue from chunk to chunk."""

    def __init__(self, make: Callable[[Record], _Kind]) -> None:
        self._make = make
        self.each: list[_Kind] = []

    def begin(self, records: Sequence[Record]) -> None:
        earlier = {id(reducer.record): reducer for reducer in self.each}
        self.each = [earlier.get(id(r)) or self._make(r) for r in records]

    @property
    def sources(self) -> list[Record]:
        return [source for reducer in self.each for source in reducer.sources]

    def now(self, samples: Sequence[np.ndarray], step: int) -> list[np.ndarray]:
        return [reducer.now(part, step) for reducer, part in self.with_samples(samples)]

    def with_samples(self, samples: Sequence[_Sample]) -> Iterator[tuple[_Kind, Sequence[_Sample]]]:
        begin = 0
        for reducer in self.each:
            end = begin + len(reducer.sources)
            yield reducer, samples[begin:end]
            begin = end
