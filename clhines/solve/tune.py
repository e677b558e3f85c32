"""Measuring on a device: the memory floor, candidates of `auto`, and the store of winners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from clhines import reference
from clhines.device.timing import Launch, seconds_in_turns
from clhines.errors import BuildError, DeviceMemoryError
from clhines.forest import Forest
from clhines.plan.auto import Candidate
from clhines.plan.plan import Plan

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_TIE = 0.01  # the heuristic's choice stays when it is slower than the best by at most this share


@dataclass(frozen=True)
class Tuning:
    """Measured times of the candidates of `auto`.

    Attributes
    ----------
    rows : tuple of (Candidate, float)
        Seconds of a solve, of each candidate that the device could run, in the order in which
        the cost model expects them.
    heuristic : Candidate
        Choice of the cost model.
    best : Candidate
        The fastest; the heuristic's choice where that is slower by at most one percent.
    """

    rows: tuple[tuple[Candidate, float], ...]
    heuristic: Candidate
    best: Candidate


def random_system(forest: Forest, dtype: DTypeLike, seed: int) -> list[np.ndarray]:
    """Random d, u, b in natural order, strictly diagonally dominant by 0.5 to 1.5.

    Returns
    -------
    list of three (n,) arrays of `dtype`
    """
    rng = np.random.default_rng(seed)
    n = forest.num_nodes
    u = -rng.uniform(0.1, 1.0, n)
    d = rng.uniform(0.5, 1.5, n) + reference.multiply(forest, np.zeros(n), -u, np.ones(n))
    return [a.astype(dtype) for a in (d, u, rng.uniform(-1.0, 1.0, n))]


def measure(
    queue: cl.CommandQueue,
    candidates: Sequence[tuple[Candidate, Plan]],
    prepare: Callable[[Plan], Launch],
    keep: bool = True,
) -> Tuning:
    """Time candidates and return the times and the winner.

    Parameters
    ----------
    candidates : sequence of (Candidate, Plan)
        The heuristic's choice first.
    prepare : callable
        ``prepare(plan)`` puts a plan and its values on the device and returns what
        `median_seconds` launches. A candidate for which it raises `DeviceMemoryError` or
        `BuildError` is passed over.
    keep : bool
        Hold all candidates on the device at once; otherwise each is prepared again in every round.

    Raises
    ------
    DeviceMemoryError, BuildError
        No candidate runs; that of the first.
    """
    ready: list[Callable[[], Launch]] = []
    able: list[Candidate] = []
    refused: DeviceMemoryError | BuildError | None = None
    for candidate, plan in candidates:
        try:
            launch = prepare(plan)
        except (DeviceMemoryError, BuildError) as error:
            refused = refused or error
            continue
        able.append(candidate)
        ready.append(partial(_itself, launch) if keep else partial(prepare, plan))
        del launch
    if refused is not None and not able:
        raise refused
    rows = tuple(zip(able, seconds_in_turns(queue, ready), strict=True))
    least = min(seconds for _, seconds in rows)
    near = [candidate for candidate, seconds in rows if seconds <= least * (1 + _TIE)]
    heuristic, fastest = candidates[0][0], min(rows, key=lambda row: row[1])[0]
    return Tuning(rows, heuristic, heuristic if heuristic in near else fastest)


def _itself(launch: Launch) -> Launch:
    return launch
