"""Records: variables that a run records, their reductions, and the length of chunks."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clhines.core.checks import check_room
from clhines.simulator.analysis.features import Features
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import Model
from clhines.simulator.records.columns import RecordColumns
from clhines.simulator.records.features import FeatureWindows

_log = logging.getLogger(__name__)
ROOM = 1 << 28  # bytes: most recorded rows in a chunk with several epochs
FEW_BYTES = 1 << 20  # a run's records that need no plan of its chunks
VOLTAGE, ION, MEMBRANE = -1, -2, -3  # instead of a kind's number
CURRENT = "i"  # a text's current
CROSSED = ("count", "crossings")
REDUCTIONS = ("min", "max", "mean", "integral", *CROSSED)
FEATURES = "features"
NO_COLUMNS = RecordColumns("", np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class Record:
    """A request to record a variable at nodes or in instances, and to reduce its values."""

    name: str  # variable
    kind: int  # the variable's kind, or `VOLTAGE`, `ION` or `MEMBRANE`
    index: np.ndarray  # (r,) int64: nodes in natural order, or the kind's instances
    every: int = 1  # steps from one recorded row to the next
    reduce: str = ""  # one of `REDUCTIONS`, `FEATURES`, or "": rows stay
    threshold: float = 0.0  # for ``count`` and ``crossings``
    matrix: np.ndarray | None = None  # (k, r): rows are its products with the variable's rows
    features: Features | None = None
    windows: FeatureWindows | None = None  # `features` in a run
    label: str = ""  # name in a result
    unit: str = ""  # empty if unknown
    columns: RecordColumns = NO_COLUMNS

    @property
    def width(self) -> int:
        return len(self.index if self.matrix is None else self.matrix)

    @cached_property
    def num_different(self) -> int:
        return len(np.unique(self.index))

    @property
    def follows(self) -> bool:
        """Whether the reduction compares each step with the one before, as crossings do."""
        return self.reduce in CROSSED

    @property
    def values_per_step(self) -> int:
        """About how many values a step of a chunk has on the device."""
        per_place = 2 if self.kind == MEMBRANE and self.matrix is None else 1
        return per_place * len(self.index) + (0 if self.matrix is None else len(self.matrix))

    def steps(self, begin: int, end: int) -> range:
        """Return, for each row in a run from `begin` to `end`, the step count before it."""
        first = begin + 1 if begin else 0
        return range(-(-first // self.every) * self.every, end + 1, self.every)

    def at(self, columns: np.ndarray, index: np.ndarray, kind: int) -> Record:
        """Return a record with only some `columns` of this one.

        In the new record the columns are instances `index` of mechanism `kind`, or nodes `index`.
        """
        windows = None if self.windows is None else self.windows.of_columns(columns)
        return replace(self, index=index, kind=kind, windows=windows)


def for_run(records: Sequence[Record], begin: int, steps: int, dt: float) -> list[Record]:
    """Return the records for a run of `steps` steps from `begin` on.

    Reduced records are new objects, so that their reductions start again.
    """

    def of_run(record: Record) -> Record:
        if record.features is None:
            return replace(record) if record.reduce else record
        return replace(
            record, windows=FeatureWindows.of(record.features, record.width, begin, steps, dt)
        )

    return [of_run(record) for record in records]


def is_current(record: Record, model: Model) -> bool:
    """Whether a record is a mechanism's current ``i`` and the mechanism has no variable for it."""
    if record.kind < 0 or record.name != CURRENT:
        return False
    return has_bare_current(model.kinds[record.kind].mechanism)


def has_bare_current(mechanism: Mechanism) -> bool:
    """Whether a mechanism has a current, but no variable with its value, only an expression."""
    program = mechanism.program
    names = {q.name for q in (*program.states, *program.outputs, *program.parameters)}
    return CURRENT not in names and any(a.role == "i" for a in program.blocks.get("current", ()))


def chunk_of(
    records: Sequence[Record],
    steps: int,
    chunk: int,
    epoch: int,
    step_bytes: int,
    itemsize: int,
    memory: int,
) -> int:
    """Choose a chunk's step count, in whole epochs, so that its rows fit into device memory.

    A step needs `step_bytes`. Rows need up to `ROOM` bytes, or a 64th of a GPU's `memory`:
    combining more rows at once reads a matrix less often. Raise HostMemoryError if the run's rows
    do not fit into the host's memory.
    """
    values = sum(r.width * (1 if r.reduce else -(-steps // r.every)) for r in records)
    check_room(values * itemsize, f"{values} values recorded in {steps} steps")
    epochs = max(ROOM, memory >> 6) // max(step_bytes, 1) // epoch
    chunk = min(chunk, max(epochs, 1) * epoch)
    device_bytes, host_bytes = step_bytes * min(chunk, steps), values * itemsize
    if device_bytes + host_bytes >= FEW_BYTES:
        message = "records take %.3g MiB in chunks of %d steps, and %.3g MiB of the host's memory"
        _log.info(message, device_bytes / 2**20, chunk, host_bytes / 2**20)
    return chunk


def digest_of(records: Sequence[Record]) -> str:
    """Return a digest of the records, by which ranks check that theirs are equal."""
    settings: list[object] = []
    for r in records:
        settings.append((r.name, r.kind, r.index.tobytes(), r.every, r.reduce, r.threshold))
        if r.windows is not None and r.features is not None:
            windows = r.windows.begin.tobytes(), r.windows.end.tobytes()
            settings.append((r.features.names, r.features.threshold, *windows))
    return hashlib.sha256(repr(settings).encode()).hexdigest()[:8]


def unit_of(record: Record) -> str:
    """Return the unit of a record's reduced values; "" if unknown."""
    if record.reduce == "crossings":
        return "ms"
    if record.reduce in ("count", FEATURES) or record.matrix is not None:
        return ""
    return f"{record.unit} ms" if record.reduce == "integral" and record.unit else record.unit
