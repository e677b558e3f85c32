"""Plan gradients on devices: which kernels support a model, a state's entries, the spec."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from clhines.simulator.gradients.events import EventConnections
from clhines.simulator.gradients.kernels import (
    BLOCKS,
    MATRIX,
    ChangingIon,
    GradientKind,
    GradientSpec,
    functions_of,
)
from clhines.simulator.mechanisms.emit.lanes import Lanes
from clhines.simulator.mechanisms.ir.forms import adds_multiples
from clhines.simulator.mechanisms.ir.program import CAPACITANCE, Argument
from clhines.simulator.model.model import ADVANCE_REVERSAL, DENSITY, IonNodes, Kind, Model
from clhines.simulator.model.needs import phrases
from clhines.simulator.records.records import ION, VOLTAGE, Record
from clhines.simulator.state.variables import Variables, nernst_scale

_STEP_BLOCKS = {*BLOCKS, "net_initial"}  # blocks that a step may have
_START = ("initial", "before_initial", "after_initial", "unless", "table_", "grid_")
_ROLES = frozenset("v t dt parameter state ion table i g ion_current".split())
_EVENT_ROLES = frozenset("weight parameter state".split())
_NEEDS = frozenset(
    "plastic noise played random self_events set_voltages artificial_cells pointers layers bins"
    " written_pointers read_pointers ion_order last_instances diffusion sent_events weights".split()
)


def unsupported(model: Model, records: Sequence[Record], steps: int = 0) -> str:
    """Return why kernels cannot differentiate a model for `steps` steps, or "" if they can."""
    if words := model.needs & _NEEDS:
        return phrases(words)
    if any(not _is_entry(model, record) for record in records):
        return "records of more than voltages, states and ions"
    connections = EventConnections(model, steps)
    if not connections.are_even:
        return "delays of less than a step, or that end between two steps"
    setters = [name for kind in model.kinds for name in ions_set(kind)]
    if len({*setters}) < len(setters):
        return "concentrations that several mechanisms set"
    names = (kind.mechanism.name for k, kind in enumerate(model.kinds)
             if not _is_simple(model, kind, connections.first_of(k) >= 0))  # fmt: skip
    return next((f"{name} of blocks that only the host takes back" for name in names), "")


def goes_forward(model: Model, records: Sequence[Record]) -> bool:
    """Whether forward mode on the device supports a model that reverse mode supports there."""
    return (
        not EventConnections(model, 0).is_target.any()
        and not changing_ions(model, records)
        and all(record.kind == VOLTAGE for record in records)
        and not any(map(_set_by_current, model.kinds))
    )


def _set_by_current(kind: Kind) -> set[str]:
    current = kind.mechanism.program.blocks.get("current", ())
    return {a.name for a in current if a.role == "state" and a.direction != "in"}


def ions_set(kind: Kind) -> list[str]:
    arguments = kind.mechanism.program.blocks.get("advance", ())
    return [a.name for a in arguments if a.role == "ion" and a.direction != "in"]


def _is_entry(model: Model, record: Record) -> bool:
    if record.kind < 0:
        return record.kind in (VOLTAGE, ION) and not record.name.startswith("di")
    return record.name in {q.name for q in model.kinds[record.kind].mechanism.program.states}


def _is_simple(model: Model, kind: Kind, is_target: bool) -> bool:
    program = kind.mechanism.program
    current, advance = program.blocks.get("current", ()), program.blocks.get("advance", ())
    return (
        {b for b in program.blocks if not b.startswith(_START)} <= _STEP_BLOCKS
        and all(a.role in _ROLES for a in (*current, *advance))
        and not any(a.role == "state" and a.direction == "inout" for a in current)
        and _has_simple_events(kind, is_target)
        and _has_simple_ions(model, kind)
    )


def _has_simple_events(kind: Kind, is_target: bool) -> bool:
    """Whether a mechanism sends no events, and needs only the sum of the weights it receives."""
    program = kind.mechanism.program
    if program.net is not None and (program.net.sends or (is_target and not _adds(kind))):
        return False
    receive, replaced = program.blocks.get("receive", ()), _set_by_current(kind)
    return not is_target or all(a.role in _EVENT_ROLES and a.name not in replaced for a in receive)


def _has_simple_ions(model: Model, kind: Kind) -> bool:
    """Whether a mechanism sets no ion variables but currents, or is alone at its nodes."""
    currents, ions = {ion.variables[3] for ion in model.ions}, ions_set(kind)
    uses = [a for a in kind.mechanism.program.blocks.get("current", ()) if a.role == "ion"]
    return (
        all(a.direction == ("out" if a.name in currents else "in") for a in uses)
        and (not ions or bool((np.diff(kind.node) > 0).all()))
        and not currents & {*ions}
    )


def _adds(kind: Kind) -> bool:
    """Whether NET_RECEIVE only adds multiples of the weight: the weights' sum then suffices."""
    program, body = kind.mechanism.program, kind.mechanism.compiled.bodies["receive"]
    assert program.net is not None
    if program.net.summed or len(program.net.weights) != 1:
        return program.net.summed
    states = {q.name for q in program.states}
    writes = {name: value for name, value in body.writes.items() if name in states}
    constant = {q.name for q in program.parameters} | (states - {*writes})
    plain = not body.results and not body.loops and "net_initial" not in program.blocks
    return plain and adds_multiples(writes, f"_{program.net.weights[0]}__weight", constant)


def changing_ions(model: Model, records: Sequence[Record]) -> list[IonNodes]:
    """Return the ions whose values are part of the state."""
    used = {record.name for record in records if record.kind == ION}
    currents = {ion.variables[3] for ion in model.ions}
    for kind in model.kinds:
        for block, arguments in kind.mechanism.program.blocks.items():
            used |= {
                a.name for a in arguments
                if a.role == "ion"
                and (a.name in currents if a.direction == "in" else block != "current")
            }  # fmt: skip
    return [
        ion for ion in model.ions if (ion.style & ADVANCE_REVERSAL).any() or used & {*ion.variables}
    ]


class CopyLayout:
    """Order of a network's `count` copies: `rows` rows of `width`; the last copy fills up."""

    def __init__(self, model: Model, width: int, count: int = 0) -> None:
        self.model, cells = model, model.forest.num_cells
        self.count = count or (cells if cells > 1 and self._are_copies(cells) else 1)
        self.width = width if self.count >= width else 1
        self.rows = -(-self.count // self.width)
        self.nodes = model.forest.num_nodes // self.count

    def _are_copies(self, cells: int) -> bool:
        forest, n = self.model.forest, self.model.forest.num_nodes // cells
        if (forest.shape_of_cell != forest.shape_of_cell[0]).any():
            return False
        begin, alike = n * np.arange(cells)[:, None], True
        for kind in self.model.kinds:
            if kind.count % cells:
                return False
            node = kind.node.reshape(cells, -1) - begin
            alike &= (node == node[0]).all()
        return bool(alike)

    def packed(self, values: np.ndarray) -> np.ndarray:
        """Return values in device order, (entries, rows * width), one column per copy."""
        by_copy = np.asarray(values).reshape(self.count, -1)
        if self.count < self.rows * self.width:
            by_copy = by_copy[np.arange(self.rows * self.width).clip(max=self.count - 1)]
        return by_copy.T


class GradientPlan:
    """Number the values in a state and in its derivatives, collect constants, make the spec.

    `wanted` has each mechanism's parameters with derivatives; with `matrix` there are derivatives
    by node constants, too.

    - `entries`: how many voltages, ion variables and states one copy has
    - `first`: for each mechanism, the entry at which each instance's states begin
    - `num_values`: how many derivatives with respect to the `wanted` parameters there are
    - `first_value`: for each mechanism, the entry at which each instance's derivatives begin
    """

    def __init__(
        self,
        variables: Variables,
        layout: CopyLayout,
        wanted: Mapping[int, Collection[str]],
        matrix: bool,
        real: str,
        records: Sequence[Record] = (),
        connections: EventConnections | None = None,
        lanes: Lanes | None = None,
    ) -> None:
        model = layout.model
        self.layout, self._variables, self._records = layout, variables, records
        self._connections = connections or EventConnections(model, 0)
        self._lanes = lanes
        self.numbers, self.values, self.tables = ([np.zeros(0)] for _ in range(3))
        of_matrix = tuple((name, self._column(getattr(model, name), "{}")) for name in MATRIX)
        self.of_node = np.zeros((max(1, len(model.kinds)), 4, layout.nodes), np.int32)
        self.ions = changing_ions(model, records)
        names = [
            {*wanted.get(k, ()), *[CAPACITANCE] * (matrix and CAPACITANCE in program.built_in)}
            for k, program in enumerate(kind.mechanism.program for kind in model.kinds)
        ]
        states = [len(kind.mechanism.program.states) for kind in model.kinds]
        self.first, self.entries = self._placed(states, layout.nodes * (1 + 4 * len(self.ions)))
        self.first_value, self.num_values = self._placed([len(by) for by in names], 0)
        self._set = set[str]()  # ion variables that an earlier kind sets
        self._texts = list[str]()
        kinds = [self._planned(k, kind, names[k], real) for k, kind in enumerate(model.kinds)]
        ions = tuple(self._planned_ion(k, ion) for k, ion in enumerate(self.ions))
        of_ions = {r.name for r in records if r.kind == ION}
        firsts = (pair for ion in ions for pair in zip(ion.names, ion.first, strict=True))
        self.spec = GradientSpec(
            real=real,
            width=layout.width,
            secondorder=model.secondorder,
            matrix=matrix,
            axial=matrix,
            diagonal=matrix,
            events=bool(self._connections.is_target.any()),
            outside=self._connections.outside.size > 0,
            columns=of_matrix,
            kinds=tuple(kinds),
            ions=ions,
            recorded_ions=tuple(pair for pair in firsts if pair[0] in of_ions),
            functions="\n".join(self._texts),
            lanes=lanes,
        )

    def _placed(self, each: Sequence[int], begin: int) -> tuple[list[np.ndarray], int]:
        """Return each instance's first entry, by mechanism, and the end of all entries.

        An instance of mechanism k has ``each[k]`` entries; the first of all is `begin`. A node's
        entries are contiguous, as a kernel accesses them one after another.
        """
        copies, kinds = self.layout.count, self.layout.model.kinds
        counts = [kind.count // copies for kind in kinds]
        node = np.concatenate([[], *(k.node[:n] for k, n in zip(kinds, counts, strict=True))])
        size, order = np.repeat(np.array(each, int), counts), np.argsort(node, kind="stable")
        first = np.zeros(len(node), int)
        first[order] = begin + np.cumsum(size[order]) - size[order]
        return np.split(first, np.cumsum(counts)[:-1]), begin + int(size.sum())

    def entry(self, record: Record) -> tuple[np.ndarray, np.ndarray]:
        if record.kind >= 0:
            kind = self.spec.kinds[record.kind]
            entries, state = self.first[record.kind], kind.states.index(record.name)
            return entries[record.index % kind.count] + state, record.index // kind.count
        first = dict(self.spec.recorded_ions)[record.name] if record.kind == ION else 0
        return first + record.index % self.layout.nodes, record.index // self.layout.nodes

    def start(self) -> np.ndarray:
        """Return voltages, states and ion variables at t = 0, (entries, lanes) float64.

        If the variables are one copy's, the result has one column.
        """
        layout, variables = self.layout, self._variables
        is_one = variables.model is not layout.model
        start = np.empty((self.entries, 1 if is_one else layout.rows * layout.width))

        def packed(values: np.ndarray) -> np.ndarray:
            return values[:, None] if is_one else layout.packed(values)

        start[: layout.nodes] = packed(variables.v)
        for first, states in zip(self.first, variables.states, strict=True):
            for number, values in enumerate(states.values()):
                start[first + number] = packed(values)
        for ion in self.spec.ions:
            for name, begin in zip(ion.names, ion.first, strict=True):
                start[begin : begin + layout.nodes] = packed(variables.ions[name])
        return start

    def _planned_ion(self, k: int, ion: IonNodes) -> ChangingIon:
        n, model = self.layout.nodes, self.layout.model
        follows = np.zeros(model.forest.num_nodes)
        follows[ion.node] = (ion.style & ADVANCE_REVERSAL) > 0
        scale = np.array([nernst_scale(model.celsius, ion.valence)])
        first = n * (1 + 4 * k)
        return ChangingIon(
            names=ion.variables,
            first=(first, first + n, first + 2 * n, first + 3 * n),
            nernst=self._column(scale, single=True) if follows.any() else None,
            follows=self._column(follows, "i"),
        )

    def _column(self, values: np.ndarray, index: str = "j", single: bool = False) -> str:
        """Return OpenCL for a constant; store all, (count,) in natural order.

        They are stored once if all copies of the network share them. If `single`, all are equal.
        """
        begin = sum(map(len, self.numbers))
        if single:
            self.numbers.append(np.resize(values, 1))
            return f"numbers[{begin}]"
        by_copy = values.reshape(self.layout.count, -1)
        if (by_copy == by_copy[0]).all():
            self.numbers.append(by_copy[0])
            return f"(lanes)(numbers[{begin} + {index}])"
        begin = sum(map(len, self.values))
        self.values.append(self.layout.packed(values))
        return f"values[({begin} + {index}) * (uint)num_rows + q]"

    def _planned(self, k: int, kind: Kind, wanted: Collection[str], real: str) -> GradientKind:
        mechanism, count = kind.mechanism, kind.count // self.layout.count
        node = kind.node[:count]
        self.of_node[k] = np.searchsorted(node, np.arange(self.layout.nodes)[None], "left")
        self.of_node[k, 1] = np.searchsorted(node, np.arange(self.layout.nodes), "right")
        if count:
            instance = self.of_node[k, 0].clip(max=count - 1)
            self.of_node[k, 2:] = self.first[k][instance], self.first_value[k][instance]
        single = [name for name in mechanism.parameters if name in kind.singles]
        changing = frozenset(name for ion in self.ions for name in ion.variables)
        # table slopes need indices between rows, which functions for lanes do not have
        lanes = None if mechanism.program.tables else self._lanes
        how = real, self.layout.width, single, lanes
        text, blocks = functions_of(mechanism, wanted, changing, *how)
        self._texts.append(text)
        columns = self._columns(kind, [a for _, _, arguments in blocks for a in arguments])
        for table in mechanism.program.tables:
            columns[table.name] = f"tables + {sum(map(len, self.tables))}"
            self.tables.append(self._variables.tables[k][table.name].reshape(-1))
        states = tuple(q.name for q in mechanism.program.states)
        used = {name for ion in mechanism.program.ions for name in (*ion.reads, *ion.writes)}
        per_area = None
        if mechanism.kind == "point" and changing & used:
            per_area = self._column(1 / (DENSITY * self.layout.model.area[kind.node]))
        late_ions, self._set = frozenset(self._set), self._set | {*ions_set(kind)}
        return GradientKind(
            number=k,
            count=count,
            crowded=len({*node.tolist()}) < count,
            first_target=self._connections.first_of(k),
            recorded=tuple(dict.fromkeys(r.name for r in self._records if r.kind == k)),
            ions=changing,
            late_ions=late_ions,
            per_area=per_area,
            states=states,
            columns=tuple(columns.items()),
            factor=self._column(kind.factor),
            by=tuple(sorted(wanted)),
            blocks=tuple(blocks),
            series=lanes is not None,
        )

    def _columns(self, kind: Kind, arguments: Sequence[Argument]) -> dict[str, str]:
        columns: dict[str, str] = {}
        for a in arguments:
            if a.name in columns or a.direction != "in":
                continue
            if a.role == "parameter":
                values = np.broadcast_to(np.float64(kind.parameters[a.name]), kind.count)
                columns[a.name] = self._column(values, single=a.name in kind.singles)
            elif a.role == "ion" and all(a.name not in ion.variables for ion in self.ions):
                nodes = self.layout.model.forest.num_nodes
                values = np.resize(self._variables.ions[a.name], nodes)  # maybe one copy's
                columns[a.name] = self._column(values[kind.node])
        return columns
