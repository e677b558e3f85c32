"""Recorded quantities: found in network and model; their columns, and files of rows."""

from __future__ import annotations

import errno
import glob
import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import stretch_of
from clhines.core.checks import (
    as_array,
    as_choice,
    as_indices,
    as_number,
    as_places,
    as_real,
    check_room,
    shown,
    unchangeable,
)
from clhines.core.errors import InputError, meant
from clhines.core.files import PathLike, path_text, whole, write_npz
from clhines.core.summary import counted
from clhines.simulator.analysis.features import Features
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.mechanisms.text.reader import CURRENT_UNITS
from clhines.simulator.model.model import IonNodes, Model
from clhines.simulator.network.groups import Group
from clhines.simulator.network.network import Network
from clhines.simulator.network.times import whole_steps
from clhines.simulator.records.features import Asked
from clhines.simulator.records.membrane import Membrane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SUFFIXES = (".npz", ".h5", ".hdf5")
_ROWS = 256  # rows of a chunk of an HDF5 file at most
_INDEX, _HEADERS = 1 << 9, 1 << 15  # bytes in an HDF5 file for each chunk, and besides
_BLOCK = 1 << 20  # bytes written at once


class RecordWriter:
    """A file, or files of one name, that rows are appended to; `paths` are those written so far.

    Rows that could not be written, as on a full disk, are kept, and written before the next ones.

    For ``NAME.npz`` there are files ``NAME-00000.npz``, ``NAME-00001.npz`` ..., each whole or not
    there, with arrays ``t`` and ``values``; ``NAME.h5`` or ``NAME.hdf5`` is one file with data sets
    of these names, by h5py. InputError: another ending, there is such a file, or h5py is missing.
    """

    def __init__(self, path: PathLike) -> None:
        self._path, self.paths = Path(path_text(path)), list[Path]()
        self._kept = list[tuple[np.ndarray, np.ndarray]]()
        if self._path.suffix not in _SUFFIXES:
            raise InputError(
                f"to is {shown(str(path))}; expected a name that ends in {', '.join(_SUFFIXES)}"
            )
        if not self._path.parent.is_dir():
            raise InputError(f"to: there is no folder {self._path.parent}; expected one")
        if self._path.suffix != ".npz":
            _h5py()
        name = glob.escape(self._path.stem) + "-[0-9][0-9][0-9][0-9][0-9].npz"
        here = sorted(self._path.parent.glob(name)) if self._path.suffix == ".npz" else [self._path]
        for path in here[:1]:
            _check_new(path)

    @property
    def file(self) -> Path:
        """Absolute path as it was given."""
        return self._path.absolute()

    def append(self, t: np.ndarray, values: np.ndarray) -> None:
        """Write rows: times, (rows,) float64, ms, and (rows, r) values."""
        self.keep(t, values)
        self.write()

    def keep(self, t: np.ndarray, values: np.ndarray) -> None:
        """Keep rows until `write`."""
        if len(t):
            self._kept.append((t, values))

    def write(self) -> None:
        """Write the rows that are kept; if that fails, the next call tries again."""
        while self._kept:
            self._append(*self._kept[0])
            del self._kept[0]

    def _append(self, t: np.ndarray, values: np.ndarray) -> None:
        if self._path.suffix == ".npz":
            path = self._path.with_name(f"{self._path.stem}-{len(self.paths):05d}.npz")
            _check_new(path)  # another simulation may have written it since
            write_npz(path, {"t": t, "values": values})
            self.paths.append(path)
            return
        try:
            self._append_hdf5(t, values)
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise InputError(f"{self._path} cannot be written: {reason}") from error

    def _append_hdf5(self, t: np.ndarray, values: np.ndarray) -> None:
        """Append rows in room that the disk has granted: libhdf5 crashes where a write fails."""
        if not self.paths:
            _check_new(self._path)
            with whole(self._path) as empty:
                empty.write(_empty_hdf5(values))
            self.paths = [self._path]
        _reserve(self._path, _room(values))
        with _h5py().File(os.fspath(self._path), "r+") as file:
            for name, rows in (("t", t), ("values", values)):
                data = file[name]
                begin = len(data)
                data.resize(begin + len(rows), axis=0)
                data[begin:] = rows


def _empty_hdf5(values: np.ndarray) -> bytes:
    """Return an HDF5 file without rows, made in memory."""
    width = values.shape[1]
    with _h5py().File("empty", "w", driver="core", backing_store=False) as file:
        file.create_dataset("t", (0,), "f8", maxshape=(None,), chunks=(_ROWS,))
        size = {"maxshape": (None, width or None), "chunks": (_ROWS, max(width, 1))}
        file.create_dataset("values", (0, width), values.dtype, **size)
        file.flush()
        return bytes(file.id.get_file_image())


def _room(values: np.ndarray) -> int:
    """Return the bytes by which rows may make an HDF5 file longer, at most."""
    chunks = -(-len(values) // _ROWS)
    of_chunk = _ROWS * (8 + max(values.shape[1], 1) * values.dtype.itemsize)
    return chunks * (of_chunk + _INDEX) + _HEADERS


def _reserve(path: Path, more: int) -> None:
    """Make a file longer on the disk, or raise OSError and leave it as it was."""
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        try:
            if not _allocated(file.fileno(), size, more):
                for begin in range(0, more, _BLOCK):
                    file.write(bytes(min(_BLOCK, more - begin)))
                file.flush()
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise


def _allocated(file: int, begin: int, size: int) -> bool:
    """Whether the system has allocated bytes of a file; False where it cannot."""
    if not hasattr(os, "posix_fallocate"):
        return False
    try:
        os.posix_fallocate(file, begin, size)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise
    return True


def _check_new(path: Path) -> None:
    if path.exists():
        raise InputError(f"to: {path} is there already; expected another name")


def _h5py():  # type: ignore[no-untyped-def]
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            "h5py is not installed; expected pip install h5py, or a name that ends in .npz"
        ) from error
    return h5py


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """Places of a record, whose names are made when they are asked for."""

    kind: str  # ``node``, ``row``, or a mechanism
    number: np.ndarray  # of the node in its cell, of the row, or of the instance
    cell: np.ndarray | None = None  # of nodes, where there are several; gids, if they have some
    is_soma: np.ndarray | None = None  # of nodes

    def __len__(self) -> int:
        return len(self.number)

    def names(self) -> list[str]:
        """Return a name for each column; see `Result.columns`."""
        names = [f"{self.kind} {k}" for k in self.number.tolist()]
        if self.is_soma is not None:
            here = "" if self.cell is not None else "soma"
            names = [here if s else n for s, n in zip(self.is_soma.tolist(), names, strict=True)]
        if self.cell is not None:
            cells = self.cell.tolist()
            names = [f"cell {c} {n}".rstrip() for c, n in zip(cells, names, strict=True)]
        return names


def columns_of(
    network: Network, at: ArrayLike | Group, index: ArrayLike | None, rows: int | None
) -> RecordColumns:
    """Return the columns of a record of nodes, of a group's instances, or of a matrix of `rows`."""
    if rows is not None:
        return RecordColumns("row", np.arange(rows))
    if isinstance(at, Group):
        every = np.arange(len(at))
        if index is not None:
            every = np.atleast_1d(every[np.asarray(index)]) if np.size(index) else every[:0]
        return RecordColumns(at.mechanism.name, every)
    nodes = np.atleast_1d(np.asarray(at)).astype(np.int64)
    cell = stretch_of(network.forest.cell_offsets, nodes)
    number = nodes - network.forest.cell_offsets[cell]
    is_soma = network.soma[cell] == nodes
    if network.gids is not None:
        return RecordColumns("node", number, network.gids[cell], is_soma)
    return RecordColumns("node", number, cell if network.num_cells > 1 else None, is_soma)


@unchangeable("another record(): a recording stays as it is")
class Recording(int):
    """Result of `Simulation.record`: the number of a record, by which a result has it.

    Attributes
    ----------
    name : str
        ``result[name]`` is the record, too.
    variable : str
        What is recorded, as ``v`` or ``hh.m``.
    unit : str
        Empty where none is known.
    """

    name: str
    variable: str
    unit: str
    _columns: RecordColumns

    def __new__(
        cls, number: int, name: str, variable: str, unit: str, columns: RecordColumns
    ) -> Recording:
        """Make the number of a record, with what users see of it."""
        found = super().__new__(cls, number)
        vars(found).update(name=name, variable=variable, unit=unit, _columns=columns)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Recording, (int(self), self.name, self.variable, self.unit, self._columns)

    def __repr__(self) -> str:
        unit = f" [{self.unit}]" if self.unit else ""
        what = "" if self.name == self.variable else f", {self.variable}"
        places = counted(len(self._columns), "place")
        return f"Recording({int(self)}, {self.name!r}{what}{unit}, {places})"

    @property
    def columns(self) -> list[str]:
        """Names of the columns; see `Result.columns`."""
        return self._columns.names()

    def plot(self, result: Any, path: PathLike | None = None, ax: Axes | None = None) -> Figure:
        """Draw what a result has of it below the spikes, or alone into `ax`.

        See `Result.plot` and `core.draw.plot_traces`.
        """
        if not hasattr(result, "traces"):
            raise InputError(f"result is {type(result).__name__}; expected one of Simulation.run()")
        return result.plot(self, path=path, ax=ax)


_log = logging.getLogger(__name__)
ROOM = 1 << 28  # bytes of recorded rows of a chunk at most, where an epoch takes no more
_FEW = 1 << 20
VOLTAGE, ION, MEMBRANE = -1, -2, -3  # instead of the number of a kind
CURRENT = "i"  # of the instances of a text
CROSSED = ("count", "crossings")  # of a threshold
REDUCTIONS = ("min", "max", "mean", "integral", *CROSSED)
FEATURES = "features"
NO_COLUMNS = RecordColumns("", np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class Record:
    """A request to record: a variable at places, and what is kept of its values."""

    name: str  # of the variable
    kind: int  # of the variable; -1 for voltages, -2 for ions, -3 for currents of membranes
    index: np.ndarray  # (r,) int64, natural nodes, or instances of the kind
    every: int = 1  # steps from one recorded row to the next
    reduce: str = ""  # one of `REDUCTIONS`, ``features``, or empty: rows are kept
    threshold: float = 0.0  # of ``count`` and ``crossings``
    matrix: np.ndarray | None = None  # (k, r): a row is its products with the variable's
    features: Features | None = None
    asked: Asked | None = None  # the `features` in a run
    stream: RecordWriter | None = None  # where its rows go
    label: str = ""  # by which users find it in a result
    unit: str = ""  # of its values; empty where none is known
    columns: RecordColumns = NO_COLUMNS

    @property
    def width(self) -> int:
        return len(self.index if self.matrix is None else self.matrix)

    @property
    def follows(self) -> bool:
        """Whether the values before the first step are needed, from which it is crossed."""
        return self.reduce in CROSSED

    @property
    def values_per_step(self) -> int:
        """Values on the device for each step of a chunk, at most about."""
        several = 2 if self.kind == MEMBRANE else 1
        return several * len(self.index) + (0 if self.matrix is None else len(self.matrix))

    def steps(self, begin: int, end: int) -> np.ndarray:
        """Return the steps taken before each row that a run from `begin` to `end` keeps."""
        first = begin + 1 if begin else 0
        return np.arange(-(-first // self.every) * self.every, end + 1, self.every)

    def at(self, columns: np.ndarray, index: np.ndarray, kind: int) -> Record:
        """Return the same of some columns, whose places have other numbers."""
        asked = None if self.asked is None else self.asked.some(columns)
        return replace(self, index=index, kind=kind, asked=asked)


def for_run(records: Sequence[Record], begin: int, steps: int, dt: float) -> list[Record]:
    """Return the records of a run of `steps` from `begin` on: new ones where they are reduced."""
    found = []
    for r in records:
        asked = None
        if r.features is not None:
            asked = Asked.of(r.features, r.width, begin, steps, dt)
        found.append(replace(r, asked=asked) if r.reduce else r)
    return found


def is_current(record: Record, model: Model) -> bool:
    """Whether it is a current of instances, which no variable of its kind has."""
    if record.kind < 0 or record.name != CURRENT:
        return False
    return has_bare_current(model.kinds[record.kind].mechanism)


def has_bare_current(mechanism: Mechanism) -> bool:
    """Whether the current of a mechanism is none of its variables: that of a text."""
    program = mechanism.program
    known = {q.name for q in (*program.states, *program.outputs, *program.parameters)}
    return CURRENT not in known and any(a.role == "i" for a in program.blocks.get("current", ()))


def chunk_of(records: Sequence[Record], steps: int, itemsize: int, chunk: int, epoch: int) -> int:
    """Check the host's memory for a run; return steps of a chunk, whole epochs within `ROOM`."""
    size = sum([r.values_per_step for r in records]) * itemsize
    if size * max(steps, epoch) < _FEW:  # of bytes, in one chunk
        return chunk
    of_host = [r for r in records if r.stream is None]
    kept = sum(r.width * (1 if r.reduce else -(-steps // r.every)) for r in of_host)
    check_room(kept * itemsize, f"{kept} values recorded in {steps} steps")
    most = ROOM // max(size, 1)
    most = min(chunk, max(most // epoch, 1) * epoch)
    room, host = size * min(most, steps), kept * itemsize
    if room + host >= _FEW:
        message = "records take %.3g MiB in chunks of %d steps, and %.3g MiB of the host's memory"
        _log.info(message, room / 2**20, most, host / 2**20)
    return most


def digest_of(records: Sequence[Record]) -> str:
    """Return a digest by which ranks compare what they record."""
    recorded: list[object] = []
    for r in records:
        recorded.append((r.name, r.kind, r.index.tobytes(), r.every, r.reduce, r.threshold))
        if r.asked is not None and r.features is not None:
            windows = r.asked.begin.tobytes(), r.asked.end.tobytes()
            recorded.append((r.features.names, r.features.threshold, *windows))
    return hashlib.sha256(repr(recorded).encode()).hexdigest()[:8]


def kept_of(
    record: Record,
    dt: float,
    every: float | None,
    reduce: str | Features | None,
    threshold: float | None,
    matrix: ArrayLike | None,
) -> Record:
    """Check what is to be kept of a record's values, and return the record with it."""
    features = reduce if isinstance(reduce, Features) else None
    if features is not None:
        if record.kind != VOLTAGE:
            raise InputError(f"reduce=Features(...) of {record.name}; expected it of 'v'")
        reduce = FEATURES
    if reduce is not None:
        as_choice("reduce", reduce, (*REDUCTIONS, FEATURES) if features else REDUCTIONS)
        if every is not None:
            raise InputError(
                f"every is {shown(every)} with reduce={reduce!r}; expected one of the two, as "
                "reductions are of all steps"
            )
    steps = 1 if every is None else whole_steps(every, dt)
    if not steps:
        raise InputError(
            f"every is {shown(every)} ms; expected a multiple of dt, {dt:g} ms, above 0"
        )
    crossed = reduce in CROSSED
    if crossed != (threshold is not None):
        expected = "a number" if crossed else "None, or reduce='count' or 'crossings'"
        raise InputError(f"threshold is {shown(threshold)}; expected {expected}")
    unit = "mV" if record.name == "v" else None
    limit = 0.0 if threshold is None else as_number("threshold", threshold, unit)
    weights = None
    if matrix is not None:
        weights = as_real("matrix", matrix)
        shape, places = weights.shape, len(record.index)
        if weights.ndim != 2 or not shape[0] or shape[1] != places:
            raise InputError(
                f"matrix has shape {shape}; expected (k, {places}), a column for each place"
            )
    return replace(
        record,
        every=steps,
        reduce=str(reduce or ""),
        threshold=limit,
        matrix=weights,
        features=features,
    )


def find_record(
    network: Network, model: Model, what: object, at: ArrayLike | Group, index: ArrayLike | None
) -> Record:
    """Check the arguments of `Simulation.record` and return the record."""
    if isinstance(what, str) and "=" in what:
        raise InputError(
            f"{shown(what)} is an expression; expected a name: record its variables, and compute "
            "it from the result"
        )
    if not isinstance(at, Group) and isinstance(what, str) and "." in what and index is None:
        return _record_at(network, model, what, at)
    if not isinstance(at, Group):
        if index is not None:
            raise InputError(
                f"index is {shown(index)} for nodes; expected None: it is of the instances of a "
                "Group; give the nodes alone"
            )
        if isinstance(what, str) and what == "i_membrane":
            nodes = _nodes(model, at)
            Membrane(model, nodes)  # rejects what it cannot
            return Record(what, MEMBRANE, nodes, unit="nA")
        ions = model.ions if model.has_times else ()
        known = {name: ion for ion in ions for name in ion.variables}
        if isinstance(what, str) and what in known:
            return _ion_record(known[what], what, at)
        if not isinstance(what, str) or what != "v":
            raise InputError(
                f"{shown(what)} of nodes; expected 'v', 'i_membrane', a name as 'hh.m', or for a "
                "state the Group that insert() or add() gave"
            )
        return Record("v", VOLTAGE, _nodes(model, at), unit="mV")
    if at.network is not network:
        raise InputError(f"group {at.mechanism.name} belongs to another network")
    chosen = np.arange(len(at))
    if index is not None:
        index = np.atleast_1d(as_array("index", index))
        chosen = as_places("index", index, len(at), at.mechanism.name)
    if what == "v":
        return Record("v", VOLTAGE, at.nodes[chosen], unit="mV")
    names = at.mechanism.states
    if what == CURRENT and has_bare_current(at.mechanism):
        return _current_record(model, at, chosen)
    kind, instance = model.instances[at.number]
    if model.has_times:
        program = at.mechanism.program
        played = [p.parameter for p in model.played if p.kind == kind]
        names = (*names, *(q.name for q in (*program.states, *program.outputs)), *played)
        public = {q.public: q.name for q in (*program.states, *program.outputs) if q.public}
        what = public.get(str(what), what)
    if what in model.of_last(kind):
        raise InputError(f"{what} of {at.mechanism.name} is one for all; expected another name")
    if what not in names:
        current = (CURRENT,) if kind >= 0 and has_bare_current(at.mechanism) else ()
        expected = ", ".join(dict.fromkeys(("v", *current, *names))) + meant(what, names)
        name, text = at.mechanism.name, shown(what)
        if isinstance(what, str) and what in at.mechanism.parameters:
            raise InputError(f"{text} of {name} is the same in all of a run; expected {expected}")
        raise InputError(f"{name} has no state {text}; expected {expected}")
    return Record(what, kind, instance[chosen], unit=at.mechanism.units.get(what, ""))


def _record_at(network: Network, model: Model, what: str, at: ArrayLike) -> Record:
    """Return the record of ``MECHANISM.VARIABLE`` at nodes, by the groups that are there."""
    mechanism, _, variable = what.partition(".")
    known = dict.fromkeys(g.mechanism.name for g in network.groups)
    if mechanism not in known:
        expected = ", ".join(known) or "none"
        problem = f"{shown(what)}: {mechanism} is not in the network"
        raise InputError(f"{problem}; expected one of {expected}{meant(mechanism, known)}")
    nodes = _nodes(model, at)
    found, index = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    kinds, name, unit = set[int](), variable, ""
    for group in (g for g in network.groups if g.mechanism.name == mechanism):
        order = np.argsort(group.nodes, kind="stable")
        first, last = (np.searchsorted(group.nodes, nodes, s, order) for s in ("left", "right"))
        found += last - first
        here = np.flatnonzero(last > first)
        if len(here):
            one = find_record(network, model, variable, group, order[first[here]])
            index[here], name, unit = one.index, one.name, one.unit
            kinds.add(one.kind)
    wrong = np.flatnonzero(found != 1)
    if len(wrong) or len(kinds) != 1:
        if not len(wrong):
            raise InputError(f"{what}: expected nodes of one group that insert() or add() gave")
        times, node = int(found[wrong[0]]), int(nodes[wrong[0]])
        raise InputError(
            f"{what} of node {node}, where {mechanism} is {times} times; expected it once, or the "
            "Group that insert() or add() gave"
        )
    return Record(name, kinds.pop(), index, unit=unit)


def kept_unit(record: Record) -> str:
    if record.reduce == "crossings":
        return "ms"
    if record.reduce in ("count", FEATURES) or record.matrix is not None:
        return ""
    return f"{record.unit} ms" if record.reduce == "integral" and record.unit else record.unit


def _nodes(model: Model, at: ArrayLike) -> np.ndarray:
    return as_indices("at", np.atleast_1d(as_array("at", at)), model.forest.num_nodes, "node")


def _current_record(model: Model, at: Group, chosen: np.ndarray) -> Record:
    kind, instance = model.instances[at.number]
    name = at.mechanism.name
    if kind < 0:
        raise InputError(
            f"the current of {name} has constants and v alone; expected 'v', to compute it from"
        )
    if len(np.unique(chosen)) < len(chosen):
        raise InputError(f"index has an instance of {name} twice; expected each once")
    unit = CURRENT_UNITS[at.mechanism.kind]
    return Record("i", kind, instance[chosen], unit=unit)


def _ion_record(ion: IonNodes, what: str, at: ArrayLike) -> Record:
    nodes = np.atleast_1d(as_array("at", at))
    index = as_indices("at", nodes, int(max(ion.node.max(initial=0), nodes.max(initial=0))) + 1,
                       "node")  # fmt: skip
    bare = index[~np.isin(index, ion.node)]
    if len(bare):
        raise InputError(f"{what} of node {bare[0]}, where there is no ion {ion.name}")
    units = dict(zip(ion.variables, ("mV", "mM", "mM", "mA/cm2"), strict=True))
    return Record(what, ION, index, unit=units[what])
