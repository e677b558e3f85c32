"""Convert NMODL texts to mechanisms, or list the constructs that are not supported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np

from clhines.core.arrays import starts
from clhines.core.errors import InputError
from clhines.neuron.read.catalogue import CatalogueEntry
from clhines.simulator.mechanisms import Mechanism, Quantity, is_beside, nmodl, value_of
from clhines.simulator.refusals import Sentence, id_of, refusal, sentence_of, way_out_of


@dataclass(frozen=True)
class Rejected:
    """A construct of a model that is not supported.

    Attributes
    ----------
    mechanism : str
        Empty if the construct belongs to no mechanism.
    construct : str
        A sentence of the catalogue of refusals.
    way_out : str
        What to do instead; empty if there is nothing.
    file : str
    line : int
        0 if unknown.
    """

    mechanism: str
    construct: Sentence
    way_out: str = ""
    file: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        if not self.way_out:
            object.__setattr__(self, "way_out", way_out_of(self.construct))

    @property
    def id(self) -> str:
        """The sentence's id in the catalogue of refusals (`simulator.refusals`)."""
        return id_of(self.construct)

    def __str__(self) -> str:
        where = f" ({self.file}:{self.line})" if self.line else f" ({self.file})" * bool(self.file)
        start = f"{self.mechanism}: " if self.mechanism else ""
        return f"{start}{self.construct}{where}" + (f"; {self.way_out}" if self.way_out else "")


def reject(mechanism: str, id_: str, /, way_out: str = "", **fields: object) -> Rejected:
    """Return a rejection with sentence `id_` of the catalogue of refusals; insert `fields`."""
    return Rejected(mechanism, refusal(id_, **fields), way_out)


class RejectedError(InputError):
    """The model has constructs that are not supported.

    Attributes
    ----------
    rejected : list of Rejected
    """

    def __init__(self, rejected: Sequence[Rejected]) -> None:
        lines = dict.fromkeys(f"\n  {r}" for r in rejected)  # instances may share a reason
        count = f"{len(lines)} unsupported construct" + "s" * (len(lines) != 1)
        super().__init__(f"the model has {count}:{''.join(lines)}")
        self.rejected = list(rejected)


def rejection(mechanism: str, id_: str, /, way_out: str = "", **fields: object) -> RejectedError:
    return RejectedError([reject(mechanism, id_, way_out, **fields)])


def converted(
    entry: CatalogueEntry,
    pointers: Sequence[str] = (),
    use_tables: bool = True,
    secondorder: bool = False,
    function_tables: Mapping[str, nmodl.FunctionTable] | None = None,
    queue: int = nmodl.MAX_QUEUE,
    kept: Sequence[str] = (),
    draws: bool = False,
) -> Mechanism:
    """Convert the NMODL text of an entry; RejectedError if it has unsupported constructs.

    `pointers` are variables that ``target_var`` sets; `kept` are variables that other mechanisms
    read. `queue` is the maximum number of pending self events of an instance. With `draws`, the
    mechanism draws from NEURON's shared generator. Other options are fields of `Nmodl`.
    """
    changes = replace(entry.changes, pointing=tuple(pointers), shows_currents=True)
    try:
        options = use_tables, secondorder, function_tables
        text, language = nmodl.read(entry.text, entry.file, *options)
        language = replace(language, queue=queue, kept=tuple(kept), draws=draws, changes=changes)
        # NEURON has run CONSTRUCTOR
        return Mechanism(text, replace(language, constructed=True))
    except nmodl.NmodlError as error:
        name, every = entry.name, error.rejections
        raise RejectedError(
            [Rejected(name, r.construct, _way_out(r), r.file, r.line) for r in every]
        ) from None
    except InputError as error:
        raise RejectedError([Rejected(entry.name, sentence_of(error), file=entry.file)]) from None


def _way_out(r: nmodl.Rejection) -> str:
    if id_of(r.construct) != "mod.function-table-without-table":
        return r.way_out
    return "expected a FUNCTION, as tables of hoc are not read"


def split_name(quantity: Quantity) -> tuple[str, int | None]:
    """Return the name of a variable in hoc, and the index of an array element, else None."""
    name = quantity.public or quantity.name
    if not name.endswith("]"):
        return name, None
    base, place = name[:-1].split("[")
    return base, int(place)


@dataclass(frozen=True)
class MadeTable:
    """A TABLE of an NMODL text, which NEURON fills when it is first used."""

    columns: tuple[str, ...]  # C names
    depends: tuple[str, ...]  # variables in DEPEND
    rows: int
    beyond: frozenset[str]  # inputs that DEPEND does not list
    begun: frozenset[str]  # inputs that INITIAL sets
    aside: frozenset[str]  # variables besides columns that filling sets and other blocks use

    def with_values(self, values: np.ndarray) -> nmodl.FunctionTable:
        """Return the TABLE as a mechanism's FunctionTable with these `values`, (rows, columns)."""
        axes = tuple(tuple(map(float, range(n))) for n in values.shape)
        return nmodl.FunctionTable(axes, tuple(values.ravel().tolist()))


def file_of(text: str, path: str) -> nmodl.File:
    return nmodl.parse(text, path, nmodl.Includes(Path(path).parent))


@lru_cache(maxsize=64)  # an import calls it several times per text
def tables_of(text: str, path: str) -> dict[str, MadeTable]:
    """Return the TABLEs of an NMODL text by block name."""
    file, tables = file_of(text, path), dict[str, MadeTable]()
    for name, block in file.blocks.items():
        for s in block.body:
            if s.kind == "table":
                tables[name] = _table_of(file, block, s)
    return tables


def _table_of(file: nmodl.File, block_of_table: nmodl.Block, s: nmodl.Statement) -> MadeTable:
    block = block_of_table.name
    names, depends, n = cast("tuple[Sequence[str], Sequence[str], int]", s.names)
    columns = list[str]()
    for name in (block,) if block_of_table.sort == "FUNCTION" else names:
        length = file.variables[name].length if name in file.variables else 0
        columns += [f"{name}.{k}" for k in range(length)] if length else [name]
    called = _blocks_called_by(block_of_table.body, file.blocks)
    bodies = [block_of_table.body, *(file.blocks[name].body for name in called)]
    inputs = {"celsius", "dt", *file.variables} - {block, *block_of_table.arguments, *names}
    inputs -= nmodl.set_by(block_of_table.body, file.blocks)
    inputs = {name for name in inputs if any(nmodl.uses(body, name) for body in bodies)}
    initial = file.main["INITIAL"].body if "INITIAL" in file.main else []
    begun = frozenset(inputs & nmodl.set_by(initial, file.blocks))
    beyond = frozenset(inputs.difference(depends))
    aside = _set_aside(file, block_of_table) - {*names}
    return MadeTable(tuple(columns), tuple(depends), int(n) + 1, beyond, begun, aside)


def _set_aside(file: nmodl.File, block_of_table: nmodl.Block) -> frozenset[str]:
    """Return variables that the TABLE's block or a block it calls sets, and other blocks use."""
    within = {block_of_table.name, *_blocks_called_by(block_of_table.body, file.blocks)}
    declared = (s.names for s in block_of_table.body if s.kind == "local")
    local = {name for names in declared for name, _ in cast("Sequence[tuple[str, object]]", names)}
    others = [*file.main.values(), *(b for n, b in file.blocks.items() if n not in within)]
    rest = {name: b for name, b in file.blocks.items() if b is not block_of_table}
    others += [rest[name] for b in others for name in _blocks_called_by(b.body, rest)]
    set_names = nmodl.set_by(block_of_table.body, file.blocks) & file.variables.keys()
    set_names -= {*local, *block_of_table.arguments}
    return frozenset(n for n in set_names if any(nmodl.uses(b.body, n) for b in others))


def _blocks_called_by(
    body: Sequence[nmodl.Statement], blocks: Mapping[str, nmodl.Block]
) -> set[str]:
    called, new = set[str](), {name for name in blocks if nmodl.uses(body, name)}
    while new:
        called |= new
        new = {n for n in blocks if any(nmodl.uses(blocks[k].body, n) for k in new)} - called
    return called


def table_rows(mechanism: Mechanism, block: str, now: Callable[[str], float]) -> np.ndarray | None:
    """Compute the values of a block's TABLE, (rows, columns), from present parameters.

    `now(name)` returns the present value of a variable. The result is None if the TABLE depends on
    more than parameters.
    """
    program = mechanism.program
    table = next(t for t in program.tables if t.name == block)
    names = {q.name: split_name(q) for q in program.parameters}

    def call(of: str, x: np.ndarray) -> tuple[np.ndarray, ...] | None:
        values = list[object]()
        for a in program.blocks[of]:
            if a.direction == "out":
                continue
            if a.role == "parameter" and names[a.name][1] is None:
                values.append(np.float64(now(names[a.name][0])))
            elif a.role in ("x", "dt"):
                values.append(x if a.role == "x" else np.float64(now("dt")))
            else:
                return None
        with np.errstate(all="ignore"):
            return mechanism.twin(of)(*values)

    ends = call(f"grid_{block}", np.zeros(1))
    if ends is None:
        return None
    low, high = (float(np.ravel(end)[0]) for end in ends)
    x = np.cumsum([low, *[(high - low) / table.n] * table.n])
    rows = call(f"table_{block}", x)
    return None if rows is None else np.stack([np.broadcast_to(r, x.shape) for r in rows], axis=1)


def begins_as(mechanism: Mechanism, names: Collection[str], now: Callable[[str], float]) -> str:
    """Return the first of `names` whose present value differs from the value that INITIAL sets.

    `now(name)` returns the present value of a variable. The result is "" if there is no difference.
    """
    writes = mechanism.compiled.bodies["initial"].writes
    shared = (q for q in mechanism.program.parameters if q.is_global)
    parameters = {"celsius": now("celsius"), **{q.name: now(split_name(q)[0]) for q in shared}}
    for name in sorted({*names} & writes.keys()):
        value = value_of(writes[name], parameters)
        if value is not None and not np.isclose(value, now(name), 1e-12, 0, equal_nan=True):
            return name
    return ""


def rounded_tables(mechanism: Mechanism) -> list[str]:
    """Return the constant TABLEs with an entry that rounding errors alone keep from 0/0."""
    rounded, bodies = list[str](), mechanism.compiled.bodies
    for table in mechanism.program.tables:
        name = f"table_{table.name}"
        if table.depends or table.made:
            continue
        ends = [end for _, _, end in bodies[f"grid_{table.name}"].results]
        if all(end.is_number for end in ends):
            low, high = (float(end.value) for end in ends)
            rows = np.cumsum([low, *[(high - low) / table.n] * table.n])
            if is_beside(bodies[name].every(), rows, mechanism.defaults):
                rounded.append(table.name)
    return rounded


@lru_cache(maxsize=64)  # each run calls it
def lengths_of(text: str, path: str) -> dict[str, int]:
    """Return the array length of each variable in an NMODL text, 0 for a scalar."""
    variables = file_of(text, path).variables
    return {name: variable.length for name, variable in variables.items()}


@lru_cache(maxsize=64)  # each run calls it
def locals_of(text: str, path: str) -> dict[str, int]:
    """Return each file-level LOCAL's index in NEURON's array of these LOCALs, by name."""
    variables = [v for v in file_of(text, path).variables.values() if v.sort == "local"]
    first = starts(np.array([max(v.length, 1) for v in variables], int)).tolist()
    return dict(zip([v.name for v in variables], first, strict=True))


@lru_cache(maxsize=64)  # a fingerprint calls it in each run
def statics_of(text: str) -> list[str]:
    """Return the names of static C ints that VERBATIM declares outside blocks."""
    try:
        blocks = nmodl.parse(text).verbatim if "static" in text else []
    except nmodl.Refused:
        return []  # reported when the text is converted
    return [name for _, c in blocks for name in nmodl.statics_in(c)]
