"""Compile an NMODL text; `Nmodl` has the options of an NMODL mechanism."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_switch, real_numbers
from clhines.core.errors import InputError, shown
from clhines.core.files import read_bytes
from clhines.simulator.mechanisms.ir.compiled import Body, Compiled, arguments_of
from clhines.simulator.mechanisms.ir.expressions import ExpressionError
from clhines.simulator.mechanisms.ir.forms import adds_multiples
from clhines.simulator.mechanisms.ir.program import (
    GENERATOR,
    SET_AT,
    IonUse,
    Net,
    Program,
    Quantity,
)
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks
from clhines.simulator.mechanisms.nmodl.bodies import Bodies, executed
from clhines.simulator.mechanisms.nmodl.passes import PASSES
from clhines.simulator.mechanisms.nmodl.reading.changes import FileChanges
from clhines.simulator.mechanisms.nmodl.reading.lexer import MAX_TEXT, Includes, tokens
from clhines.simulator.mechanisms.nmodl.reading.names import BUILT_IN, plain
from clhines.simulator.mechanisms.nmodl.reading.parse import parse
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    FunctionTable,
    Refused,
    error_of,
    refuse,
    set_by,
)
from clhines.simulator.mechanisms.nmodl.values import MADE
from clhines.simulator.refusals import id_of

MAX_QUEUE = 16
MAX_ROWS = 8000  # a FUNCTION_TABLE's values
MAX_MADE = 1_000_000  # values in a TABLE that NEURON has made


def build(
    text: str,
    path: str = "",
    includes: Includes | None = None,
    use_tables: bool = True,
    secondorder: bool = False,
    function_tables: Mapping[str, FunctionTable] | None = None,
    constructed: bool = False,
    kept: Collection[str] = (),
    draws: bool = False,
    changes: FileChanges | None = None,
) -> Compiled:
    """Compile an NMODL text; an NmodlError lists constructs that are not supported.

    `includes` finds included files; the other arguments are fields of `Nmodl`. A model with
    `draws`, or whose parameters do not rule out draws from NEURON's global generator, may have only
    one instance, which owns the generator.
    """
    shown = path or "NMODL text"

    def built(draws: bool) -> tuple[Compiled | None, list[Refused]]:
        try:
            file = parse(text, shown, includes, changes)
            if constructed:
                file.main.pop("CONSTRUCTOR", None)
            if draws:
                file.random[GENERATOR] = 0
            bodies = executed(file, use_tables, secondorder, function_tables, draws)
            if bodies.refused:
                return None, bodies.refused
            _check_currents(bodies)
            blocks = FileBlocks.of(bodies, kept)
            for applied in PASSES:
                blocks = applied(blocks)
            return _model(blocks, path), []
        except Refused as one:
            return None, [one, *one.others]
        except ExpressionError as error:
            return None, [refuse("mod.expression", error=error)]
        except RecursionError:
            return None, [refuse("mod.too-deep", what="too many expressions")]

    model, refused = built(draws)
    if not draws and any(id_of(r.construct) == "mod.one-generator" for r in refused):
        model, second = built(True)
        refused = second or refused
    if model is None:
        raise error_of(refused, shown)
    return model


def _model(blocks: FileBlocks, path: str) -> Compiled:
    program = _program(blocks)
    bodies = {name: _ordered(body, blocks.states) for name, body in _used(blocks).items()}
    pointers = {p: blocks.names.printed[p] for p in _pointers(blocks)}
    arguments = {
        name: arguments_of(program, pointers, name, body, set(_lasting(blocks, name)))
        for name, body in bodies.items()
    }
    program = replace(program, blocks=arguments)
    shown = tuple(name for name in arguments if not name.startswith(("grid_", "unless")))
    return Compiled(program, bodies, _about(program, path), shown, pointers=pointers)


def _program(blocks: FileBlocks) -> Program:
    file, elements, parameters = blocks.file, blocks.names.elements, blocks.parameters
    notes = (Quantity(name, "ms" if name == SET_AT else "") for name in blocks.notes)
    steered, assigned = blocks.set_by_pointer("steer"), blocks.set_by_pointer("assign")
    pointers = (p for p in _pointers(blocks) if p not in steered)
    printed = blocks.names.printed
    return Program(
        name=file.suffix,
        kind=file.kind,
        parameters=tuple(_quantity(blocks, k) for k in parameters),
        states=tuple(_quantity(blocks, k) for k in blocks.states),
        outputs=(*(_quantity(blocks, k) for k in blocks.outputs), *notes),
        ions=tuple(IonUse(i.name, i.valence, i.reads, i.writes) for i in file.ions),
        pointers=tuple(p for p in pointers if printed[p] in blocks.live or p in assigned),
        tables=blocks.tables,
        net=_net(blocks),
        random=tuple(plain(name) for name in file.random),
        picked=tuple(plain(name) for name in file.picked),
        built_in=tuple(k for k in parameters if elements[k] in BUILT_IN),
        unless=blocks.unless,
        beside=_beside(blocks),
        alone=blocks.alone,
        last=blocks.last,
        begun=blocks.begun,
        late=tuple(sorted(blocks.executed.late)),
        electrode=bool(file.electrode),
        electrode_currents=tuple(plain(name) for name in file.electrode),
    )


def _check_currents(bodies: Bodies) -> None:
    file, names = bodies.shared.file, bodies.shared.names
    if not file.suffix:
        raise refuse("mod.no-suffix")
    for name in file.nonspecific | file.electrode:
        if names.variable(name) is None:
            raise refuse("mod.not-declared", name=name)


def _quantity(blocks: FileBlocks, key: str) -> Quantity:
    names, variable = blocks.names, blocks.file.variables[blocks.names.elements[key]]
    public = names.public[key]
    return Quantity(
        key,
        variable.unit,
        names.default(key),
        names.is_global(key),
        public if public != key else "",
        key in blocks.written and variable.sort in ("parameter", "assigned"),
    )


def _pointers(blocks: FileBlocks) -> list[str]:
    return [p for p in blocks.file.pointers if p in blocks.names.printed]


def _used(blocks: FileBlocks) -> dict[str, Body]:
    # an importer asks for the last two, in which NEURON adds ion currents once more
    always = "initial", "current", "receive", "after_solve", "before_step"
    families = "table_", "grid_", "unless"
    values = {*blocks.states, *blocks.outputs}
    return {
        name: body
        for name, body in blocks.bodies.items()
        if name in always
        or name.startswith(families)
        or body.results
        or not values.isdisjoint(body.writes)
    }


def _ordered(body: Body, states: Sequence[str]) -> Body:
    order = [*states, *sorted(body.writes.keys() - {*states})]
    return replace(body, writes={k: body.writes[k] for k in order if k in body.writes})


def _lasting(blocks: FileBlocks, name: str) -> list[str]:
    return [k for k in blocks.states if k in blocks.bodies[name].writes]


def _beside(blocks: FileBlocks) -> tuple[str, ...]:
    tables = blocks.shared.tables.values()
    names = {name for use in tables for name in set_by(use.block.body, blocks.file.blocks)}
    return tuple(k for k in blocks.parameters if blocks.names.elements[k] in names)


def _net(blocks: FileBlocks) -> Net | None:
    executed = blocks.executed
    if executed.weights is None and not executed.sends:
        return None
    return Net(
        weights=executed.weights or (),
        summed=_is_summed(blocks),
        sends=tuple(executed.sends),
        watches=len(executed.watch_flags),
        watch_flags=tuple(executed.watch_flags),
        for_netcons=executed.netcons,
        queue=MAX_QUEUE,
    )


def _is_summed(blocks: FileBlocks) -> bool:
    body, weights = blocks.bodies.get("receive"), blocks.executed.weights
    if body is None or weights is None or len(weights) != 1:
        return False
    if body.results or body.loops or "net_initial" in blocks.bodies:
        return False
    writes = {key: body.writes[key] for key in _lasting(blocks, "receive")}
    return adds_multiples(writes, f"_{weights[0]}__weight", set(blocks.parameters))


def _about(program: Program, path: str) -> tuple[str, ...]:
    lines = program.heading(path)
    for q in program.states:
        lines.append(f"  state {q.public or q.name} {q.unit}".rstrip())
    lines += program.of_ions
    lines += [f"  pointer {pointer}" for pointer in program.pointers]
    for table in program.tables:
        lines.append(f"  table of {table.name}: {', '.join(table.columns)} at {table.n + 1} places")
    if program.net is not None:
        lines.append(f"  an event has {', '.join(program.net.weights) or 'no weight'}")
    return tuple(lines)


@dataclass(frozen=True)
class Nmodl:
    """NMODL as a `Mechanism`'s language, with the options for one file."""

    path: str = ""  # the file's name in messages
    includes: tuple[tuple[str, str], ...] = ()  # included files' names and texts
    use_tables: bool = True  # usetable's value: whether TABLE statements count
    secondorder: bool = False  # whether NEURON's secondorder is not 0
    function_tables: tuple[tuple[str, FunctionTable], ...] = ()  # names, and values
    constructed: bool = False  # whether NEURON has executed CONSTRUCTOR, which is left out then
    queue: int = MAX_QUEUE  # pending self events that an instance may have
    kept: tuple[str, ...] = ()  # variables that must be states: other files' POINTERs use them
    draws: bool = False  # whether it draws from NEURON's one generator whatever parameters are
    changes: FileChanges = field(default_factory=FileChanges)

    def cleaned(self, text: str) -> str:
        return text

    def compiled(self, text: str) -> Compiled:
        includes = Includes(None, dict(self.includes))
        options = dict(self.function_tables), self.constructed, self.kept, self.draws, self.changes
        built = build(text, self.path, includes, self.use_tables, self.secondorder, *options)
        net = built.program.net
        if net is None or net.queue == self.queue:
            return built
        return replace(built, program=replace(built.program, net=replace(net, queue=self.queue)))


FunctionTables = Mapping[str, FunctionTable | Sequence[ArrayLike] | float]


def tables_of(tables: FunctionTables | None) -> tuple[tuple[str, FunctionTable], ...]:
    """Check and convert a user's FUNCTION_TABLE values."""
    if tables is not None and not (
        isinstance(tables, Mapping) and all(isinstance(k, str) for k in tables)
    ):
        raise InputError(f"function_tables is {shown(tables)}; expected a dict of tables by name")
    return tuple((name, _table_of(name, table)) for name, table in (tables or {}).items())


def _table_of(name: str, table: FunctionTable | Sequence[ArrayLike] | float) -> FunctionTable:
    most = MAX_MADE if name.startswith(MADE.format("")) else MAX_ROWS
    name = f"function_tables[{name!r}]"
    if isinstance(table, FunctionTable):
        parts: Sequence[ArrayLike] = (*table.axes, table.values)
    else:
        parts = table if isinstance(table, Sequence) else ([0.0], table)
    if not 2 <= len(parts) <= 3:
        raise InputError(f"{name} has {len(parts)} arrays; expected knots of 1 or 2, and values")
    arrays = (real_numbers(name, part).astype(np.float64) for part in parts)
    *axes, values = (np.atleast_1d(array) for array in arrays)
    shape = tuple(axis.size for axis in axes)
    is_flat = isinstance(table, FunctionTable) and values.size == np.prod(shape)
    if any(axis.ndim > 1 for axis in axes) or not (is_flat or values.shape == shape):
        raise InputError(f"{name} has values of shape {values.shape}; expected {shape}")
    if not 1 <= values.size <= most:
        raise InputError(f"{name} has {values.size} values; expected 1 to {most}")
    if not all(np.isfinite(array).all() for array in (*axes, values)):
        raise InputError(f"{name} has a number that is not finite")
    if any((np.diff(axis) < 0).any() for axis in axes):
        raise InputError(f"{name} has knots that do not ascend")
    return FunctionTable(tuple(tuple(a.tolist()) for a in axes), tuple(values.ravel().tolist()))


def read(
    text_or_path: str | Path,
    path: str = "",
    use_tables: bool = True,
    secondorder: bool = False,
    function_tables: FunctionTables | None = None,
) -> tuple[str, Nmodl]:
    """Read an NMODL text, or the file at a path; the options are fields of `Nmodl`."""
    folder, tables = None, tables_of(function_tables)
    if not isinstance(text_or_path, (str, Path)):
        raise InputError(f"text_or_path is {shown(text_or_path)}; expected a text or a path")
    if not isinstance(path, (str, Path)):
        raise InputError(f"path is {shown(path)}; expected a text or a path")
    path = str(path)
    use_tables = as_switch("use_tables", use_tables)
    secondorder = as_switch("secondorder", secondorder)
    if isinstance(text_or_path, Path) or "\n" not in text_or_path.strip():
        file = Path(text_or_path)
        if "{" in str(text_or_path) and not os.path.isfile(file):
            return str(text_or_path), Nmodl(path, (), use_tables, secondorder, tables)
        text = read_bytes(file, MAX_TEXT).decode("utf-8", "replace")
        path, folder = path or str(file), file.parent
    else:
        text = text_or_path
        folder = Path(path).parent if path else None
    includes = Includes(folder)
    try:
        tokens(text, includes)
    except Refused as refused:
        raise error_of([refused], path or "NMODL text") from refused
    return text, Nmodl(path, tuple(includes.texts.items()), use_tables, secondorder, tables)
