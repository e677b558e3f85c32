"""Plan: copies of a network in rows, and the spec of the kernels of its gradient; no device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from clhines.simulator.gradients.kernels import (
    BLOCKS,
    MATRIX,
    CopyColumn,
    GradientKind,
    GradientSpec,
    functions_of,
)
from clhines.simulator.mechanisms.ir.program import CAPACITANCE, Argument
from clhines.simulator.model.model import ADVANCE_REVERSAL, Kind, Model
from clhines.simulator.model.needs import phrases
from clhines.simulator.records.records import VOLTAGE, Record
from clhines.simulator.state.variables import Variables

_STEP_BLOCKS = {*BLOCKS, "receive", "net_initial"}  # blocks that a step has at most
_START = ("initial", "before_initial", "after_initial", "unless", "table_", "grid_")
_ROLES = frozenset("v t dt parameter state ion table i g ion_current".split())
_NEEDS = frozenset(
    "plastic noise trains played random self_events set_voltages artificial_cells pointers layers"
    " written_pointers read_pointers ion_order last_instances diffusion bins".split()
)


def unsupported(model: Model, records: Sequence[Record]) -> str:
    """Return why no kernels take back the steps of a model, so that the reference does; else ''."""
    if words := model.needs & _NEEDS:
        return phrases(words)
    if model.on_grid or model.netcons.count:
        return "events"
    if any((ion.style & ADVANCE_REVERSAL).any() for ion in model.ions):
        return "concentrations that change"
    if any(r.kind != VOLTAGE for r in records):
        return "records of more than voltages"
    names = (kind.mechanism.name for kind in model.kinds if not _is_simple(kind))
    return next((f"{name} of blocks that only the host takes back" for name in names), "")


def _is_simple(kind: Kind) -> bool:
    program_of_kind = kind.mechanism.program
    if program_of_kind.net is not None and program_of_kind.net.sends:
        return False
    names = {b for b in program_of_kind.blocks if not b.startswith(_START)}
    if not names <= _STEP_BLOCKS or not (np.diff(kind.node) > 0).all():
        return False
    arguments = [a for b in BLOCKS for a in program_of_kind.blocks.get(b, ())]
    currents = {f"i{ion.name}" for ion in program_of_kind.ions}
    writes = any(a.role == "ion" and a.direction != "in" and a.name not in currents
                 for a in arguments)  # fmt: skip
    reads = any(a.role == "ion" and a.direction != "out" and a.name in currents for a in arguments)
    return not writes and not reads and all(a.role in _ROLES for a in arguments)


class CopyLayout:
    """Copies of a network, `count` of them, in `rows` of `width` copies; the last one fills up."""

    def __init__(self, model: Model, width: int) -> None:
        self.model, cells = model, model.forest.num_cells
        self.count = cells if cells > 1 and self._are_copies(cells) else 1
        self.width = width if self.count >= width else 1
        self.rows = -(-self.count // self.width)
        self.nodes = model.forest.num_nodes // self.count

    def _are_copies(self, cells: int) -> bool:
        forest, n = self.model.forest, self.model.forest.num_nodes // cells
        if (forest.sizes != n).any():
            return False
        parent = forest.parent.reshape(cells, n)
        begin = n * np.arange(cells)[:, None]
        alike = (np.where(parent < 0, -1, parent - begin) == parent[0]).all()
        for kind in self.model.kinds:
            if kind.count % cells:
                return False
            node = kind.node.reshape(cells, -1) - begin
            alike &= (node == node[0]).all()
        return bool(alike)

    def packed(self, values: np.ndarray) -> np.ndarray:
        """(entries, rows * width): values by entry, of copies in turn."""
        by_copy = np.asarray(values).reshape(self.count, -1)
        if self.count < self.rows * self.width:
            by_copy = by_copy[np.arange(self.rows * self.width).clip(max=self.count - 1)]
        return np.ascontiguousarray(by_copy.T)

    def unpacked(self, values: np.ndarray) -> np.ndarray:
        """Return values of all copies, one copy after another."""
        by_entry = values.reshape(-1, self.rows * self.width)[:, : self.count]
        return np.ascontiguousarray(by_entry.T).reshape(-1).astype(np.float64)


class CopyColumns:
    """Values that do not change: numbers of all copies, and values of each."""

    def __init__(self, layout: CopyLayout) -> None:
        self._layout = layout
        self.numbers, self.values = list[np.ndarray](), list[np.ndarray]()
        self._lengths = [0, 0]

    def add(self, values: np.ndarray, single: bool = False) -> CopyColumn:
        """Add values, (count,) in natural order; `single`: they are one number."""
        if single and not len(values):
            values = np.zeros(1)
        by_copy = values.reshape(self._layout.count, -1) if not single else values[None]
        if single:
            return self._put(0, by_copy[0, :1], CopyColumn(self._lengths[0], single=True))
        if (by_copy == by_copy[0]).all():
            return self._put(0, by_copy[0], CopyColumn(self._lengths[0]))
        column = CopyColumn(self._lengths[1], each=True)
        self.values.append(self._layout.packed(values))
        self._lengths[1] += by_copy.shape[1]
        return column

    def _put(self, which: int, values: np.ndarray, column: CopyColumn) -> CopyColumn:
        self.numbers.append(values)
        self._lengths[which] += len(values)
        return column


class GradientPlan:
    """Entries of a slot and of derivatives, values that do not change, and the spec.

    A slot has `entries` of voltages and states. Derivatives by the parameters that are `wanted`, by
    number of the kind, begin at the entries in `by`; there are `num_values`.
    """

    def __init__(
        self,
        variables: Variables,
        layout: CopyLayout,
        wanted: Mapping[int, Collection[str]],
        matrix: bool,
        real: str,
    ) -> None:
        model = variables.model
        self.layout, self._variables = layout, variables
        self.columns = CopyColumns(layout)
        of_matrix = tuple((name, self.columns.add(getattr(model, name))) for name in MATRIX)
        self._tables, self.by = list[np.ndarray](), list[tuple[int, str, int]]()
        self.of_node = np.full((max(1, len(model.kinds)), layout.nodes), -1, np.int32)
        self.entries, self.num_values = layout.nodes, 0
        kinds, texts = list[GradientKind](), list[str]()
        for k, kind in enumerate(model.kinds):
            names = {*wanted.get(k, ())}
            if matrix and CAPACITANCE in kind.mechanism.program.built_in:
                names.add(CAPACITANCE)
            planned, text = self._planned(k, kind, names, real)
            kinds.append(planned)
            texts.append(text)
        self.spec = GradientSpec(
            real=real,
            width=layout.width,
            tile=1,
            secondorder=model.secondorder,
            matrix=matrix,
            axial=matrix,
            directions=(),
            registers=0,
            columns=of_matrix,
            kinds=tuple(kinds),
            functions="\n".join(texts),
        )

    @property
    def tables(self) -> np.ndarray:
        return np.concatenate(self._tables) if self._tables else np.zeros(1)

    def _planned(
        self, k: int, kind: Kind, wanted: Collection[str], real: str
    ) -> tuple[GradientKind, str]:
        """Plan a kind; return it and its functions."""
        mechanism, count = kind.mechanism, kind.count // self.layout.count
        self.of_node[k, kind.node[:count]] = np.arange(count)
        single = [name for name in mechanism.parameters if name in kind.singles]
        text, blocks = functions_of(mechanism, wanted, real, self.layout.width, single)
        given = self._columns(k, kind, [a for _, _, arguments in blocks for a in arguments])
        tables, by = list[tuple[str, int]](), list[tuple[str, int]]()
        for table in mechanism.program.tables:
            rows = self._variables.tables[k][table.name].reshape(-1)
            tables.append((table.name, sum(map(len, self._tables))))
            self._tables.append(rows)
        for name in sorted(wanted):
            by.append((name, self.num_values))
            self.by.append((k, name, self.num_values))
            self.num_values += count
        states = tuple(q.name for q in mechanism.program.states)
        planned = GradientKind(
            number=k,
            name=mechanism.name,
            count=count,
            states=states,
            first_state=self.entries,
            columns=tuple(given.items()),
            factor_column=self.columns.add(kind.factor),
            tables=tuple(tables),
            by=tuple(by),
            blocks=tuple(blocks),
        )
        self.entries += count * len(states)
        return planned, text

    def _columns(self, k: int, kind: Kind, arguments: Sequence[Argument]) -> dict[str, CopyColumn]:
        """Return where the values of a kind's parameters and ions are."""
        found: dict[str, CopyColumn] = {}
        for a in arguments:
            if a.name in found or a.direction != "in":
                continue
            if a.role == "parameter":
                values = self._variables.parameters[k][a.name]
                found[a.name] = self.columns.add(values, a.name in kind.singles)
            elif a.role == "ion":
                found[a.name] = self.columns.add(self._variables.ions[a.name][kind.node])
        return found
