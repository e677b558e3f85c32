"""A saved state's arrays: every array that a run changes, and the meaning of its axes.

Files, checks, MPI ranks, copies, the start and the importer use the fields in `Model.schema`. So a
new array in the state only needs a new field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from clhines.simulator.network.plasticity import Rule


@dataclass(frozen=True)
class Field:
    """One array in a saved state.

    `per` names the last axis: ``node``, ``cell``, ``instance`` of `kind`, ``target``, ``plastic``
    connection, ``sent`` (a plastic connection's source), ``connection`` in `Model.netcons`,
    ``weight`` of such a connection, ``source``, ``ring`` entry, ``detector``, or ``remote`` node.
    `rows` names the first of two axes: ``slot`` in the ring buffer, self ``event`` in a queue, or
    ``watch`` condition.
    """

    name: str
    per: str
    dtype: str = "real"  # ``real``: the simulation's dtype
    kind: int | None = None  # a `Kind`'s index in the model
    family: str = ""  # fields of one purpose, such as ``state`` or ``queue``, have the same family
    rows: str = ""
    refers: str = ""  # ``connection`` if the values are connection numbers, -1 for none

    @cached_property
    def key(self) -> str:
        """The array's name in a file, such as ``v``, ``ion_cai`` or ``state3_m``."""
        number = "" if self.kind is None else str(self.kind)
        return f"{self.family}{number}_{self.name}" if self.family else self.name

    def dtype_in(self, real: DTypeLike) -> np.dtype:
        return np.dtype(real if self.dtype == "real" else self.dtype)


EXACT = (  # fields for events at exact times
    Field("weight", "weight"),
    Field("cursor", "connection", "int64"),
    Field("ring", "ring", "float64"),
    Field("count", "source", "int64"),
    Field("held", "detector", "int32"),
)
_PLASTIC = {"pre": "sent", "post": "sent", "synapse": "plastic"}
_QUEUE = (
    ("time", "float64", "event", ""),
    ("flag", "real", "event", ""),
    ("sent", "float64", "event", ""),
    ("connection", "int64", "event", "connection"),
    ("size", "int64", "", ""),
    ("last", "int64", "", ""),
    ("armed", "bool", "watch", ""),
    ("above", "bool", "watch", ""),
)


def plastic_fields(rule: Rule) -> Iterator[Field]:
    """Yield a plasticity rule's arrays in a saved state.

    These are the weights, the traces (``pre``, ``pre1`` ...), and their last updates' steps.
    """
    yield Field("weight", "plastic", "float64", family="plastic")
    for side, names in rule.kept.items():
        for k in range(len(names)):
            name = f"{side}{k or ''}"
            yield Field(name, _PLASTIC[side], "float64", family="plastic_trace")
    for side, names in rule.kept.items():
        if names:
            yield Field(side, _PLASTIC[side], "int32", family="plastic_step")


def split_name(name: str) -> tuple[str, int]:
    """Split a trace's field name into its side, such as ``pre``, and the trace's number."""
    side = name.rstrip("0123456789")
    return side, int(name[len(side) :] or 0)


def queue_of(kind: int) -> Iterator[Field]:
    for name, dtype, rows, refers in _QUEUE:
        yield Field(name, "instance", dtype, kind, "queue", rows, refers)


class Schema:
    """The fields in a model's saved state, each once, in file order."""

    def __init__(self, fields: Iterable[Field]) -> None:
        self._fields = tuple(dict.fromkeys(fields))

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    @cached_property
    def _families(self) -> dict[tuple[str, int | None], list[Field]]:
        families: dict[tuple[str, int | None], list[Field]] = {}
        for field in self._fields:
            families.setdefault((field.family, field.kind), []).append(field)
        return families

    def of(self, family: str, kind: int | None = None) -> list[Field]:
        return self._families.get((family, kind), [])

    def named(
        self, saved: Mapping[str, np.ndarray], family: str, kind: int | None = None
    ) -> dict[str, np.ndarray]:
        """Return a saved state's arrays for one `family` of fields, by field name."""
        return {field.name: saved[field.key] for field in self.of(family, kind)}
