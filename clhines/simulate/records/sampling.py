"""Sampling: states and currents of instances that the kernels of epochs record step by step.

Each instance, or group of instances, has a list of what is recorded of it: entries of four
integers, of which the last is the next entry of the same list.

>>> import numpy as np
>>> first, entries = lists(np.array([2, 0, 2]), np.array([1, 1, 0]), np.zeros(3), np.arange(3), 4)
>>> first.tolist()  # of owners 0 to 3
[1, -1, 0, -1]
>>> entries.tolist()  # what, lane, column, next
[[1, 0, 0, 2], [1, 0, 1, -1], [0, 0, 2, -1]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device.arrays import to_device

TABLES = ("const int *restrict samples_{k}",)  # first entry of each owner, -1: none
REST = "const int *restrict sample_list, real *restrict sampled, int sampled_width"


def sampled_source(k: int, condition: str, values: Sequence[str], row: str) -> str:
    """Source for ``epoch_by_instance.mako`` that writes values of an instance which are recorded.

    `k` is the number of the kind; `condition`, on `what`, is that of one of `values`, variables by
    `what` but for the last; `row` is the step whose row it is.
    """
    chosen = "".join(f"what == {n} ? {value} : " for n, value in enumerate(values[:-1]))
    at = f"(long)(record_row + {row} - first_step) * sampled_width + sample_list[4 * e + 2]"
    return (
        f"for (int e = samples_{k}[instance]; e >= 0; e = sample_list[4 * e + 3]) {{\n"
        "    const int what = sample_list[4 * e];\n"
        f"    if (what {condition}) sampled[{at}] = {chosen}{values[-1]};\n"
        "}"
    )


Owners: TypeAlias = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Sample:
    """A state or the current of some instances."""

    kind: int
    what: int  # number of the state, or the number of states for the current
    instance: np.ndarray
    column: int  # first of its columns, one an instance, among all samples


def lists(
    owner: np.ndarray, what: np.ndarray, lane: np.ndarray, column: np.ndarray, owners: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first entry of each owner, and (entries, 4) what, lane, column, next."""
    order = np.argsort(owner, kind="stable")
    following = np.full(len(owner), -1)
    same = np.flatnonzero(owner[order][1:] == owner[order][:-1])
    following[order[same]] = order[same + 1]
    first = np.full(owners, -1)
    first[owner[order[::-1]]] = order[::-1]
    return first, np.stack([what, lane, column, following], axis=1).astype(np.int64)


def arguments(
    queue: cl.CommandQueue,
    samples: Sequence[Sample],
    sizes: Sequence[int],
    owners: Owners,
    sampled: cla.Array,
) -> list[cla.Array | np.int32]:
    """Return the arguments that kernels take last, see `TABLES` and `REST`.

    `sizes` are the owners of each kind; `owners` returns owner and lane of instances of a kind.
    """
    firsts, entries, number = list[np.ndarray](), [np.zeros((0, 4), np.int64)], 0
    for k, size in enumerate(sizes):
        own = [s for s in samples if s.kind == k]
        none = [np.zeros(0, np.int64)]
        instance = np.concatenate(none + [s.instance for s in own])
        what = np.concatenate(none + [np.full(len(s.instance), s.what) for s in own])
        column = np.concatenate(none + [s.column + np.arange(len(s.instance)) for s in own])
        owner, lane = owners(k, instance)
        first, entry = lists(owner, what, lane, column, size)
        firsts.append(np.where(first < 0, -1, first + number))
        entry[:, 3] = np.where(entry[:, 3] < 0, -1, entry[:, 3] + number)
        entries.append(entry)
        number += len(entry)
    tables = [to_device(queue, a, np.int32) for a in (*firsts, np.concatenate(entries))]
    return [*tables, sampled, np.int32(sampled.shape[1])]
