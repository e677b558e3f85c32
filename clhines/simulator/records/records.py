"""Records: what a run keeps of which values, and the chunks in which it does."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clhines.core.checks import check_room
from clhines.simulator.analysis.features import Features
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import Model
from clhines.simulator.records.columns import RecordColumns
from clhines.simulator.records.features import Asked
from clhines.simulator.records.writer import RecordWriter

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


def kept_unit(record: Record) -> str:
    if record.reduce == "crossings":
        return "ms"
    if record.reduce in ("count", FEATURES) or record.matrix is not None:
        return ""
    return f"{record.unit} ms" if record.reduce == "integral" and record.unit else record.unit
