"""The parts of results and populations that adapters use, and features of a population."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from clhines.core.checks import as_whole_number, shown
from clhines.core.errors import InputError, meant
from clhines.simulator.analysis.extract import extract
from clhines.simulator.analysis.spikes import RaggedArray


class ResultLike(Protocol):
    """Spikes and records, as of `simulator.result.Result`."""

    @property
    def spike_time(self) -> np.ndarray: ...
    @property
    def spike_cell(self) -> np.ndarray: ...
    @property
    def t(self) -> np.ndarray: ...
    @property
    def values(self) -> Sequence[np.ndarray]: ...
    @property
    def times(self) -> Sequence[np.ndarray]: ...


class Responses(Protocol):
    """Voltages as in `simulator.population.result.PopulationResult`."""

    @property
    def t(self) -> np.ndarray: ...
    @property
    def v(self) -> np.ndarray: ...


class PopulationLike(Protocol):
    """Parameter sets under protocols, as in `clhines.Population`."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def protocols(self) -> tuple[str, ...]: ...
    def evaluate(self, sets: np.ndarray) -> Responses: ...


def timed_record_of(
    result: ResultLike, record: int, least: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(rows,) ms and (rows, r): a record of `least` times, which need not be all of the run."""
    if not len(result.values):
        raise InputError(f"record is {record}; expected a result with records")
    number = as_whole_number("record", record, 0, len(result.values) - 1)
    t, values = result.times[number], result.values[number]
    has_rows = values.ndim == 2 and len(values) == len(t)
    if not has_rows or (len(result.t) and not len(t)):  # `to` leaves none
        raise InputError(
            f"record {record} has shape {values.shape}; expected one without reduce and to"
        )
    if len(t) < least:
        raise InputError(f"record {record} has {len(t)} times; expected {least} or more")
    return t, values


def cells_of(result: ResultLike, num_cells: int) -> int:
    count = as_whole_number("num_cells", num_cells, 1)
    if len(result.spike_cell) and result.spike_cell.max() >= count:
        raise InputError(f"num_cells is {count}; expected more than {result.spike_cell.max()}")
    return count


def check_population(population: object) -> None:
    if not all(hasattr(population, name) for name in ("names", "protocols", "evaluate")):
        raise InputError(f"population is {type(population).__name__}; expected clhines.Population")


def check_names(what: str, mapping: Mapping[str, object], expected: Iterable[str]) -> None:
    names = tuple(expected)
    if not isinstance(mapping, Mapping):
        raise InputError(f"{what} is {shown(mapping)}; expected a mapping of {', '.join(names)}")
    for name in mapping:
        if name not in names:
            raise InputError(
                f"{what} has {shown(name)}; expected {', '.join(names)}{meant(name, names)}"
            )
    missing = [name for name in names if name not in mapping]
    if missing:
        raise InputError(f"{what} lacks {missing[0]}; expected {', '.join(names)}")


def traces(responses: Responses, protocol: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times (k,), ms, and voltages (N, k), mV, until the stop of a protocol."""
    v = responses.v[:, protocol]
    there = ~np.isnan(v).all(axis=0)
    return responses.t[there], v[:, there]


def features(
    responses: Responses,
    protocol: int,
    names: Iterable[str],
    stimulus: tuple[float, float],
    *,
    current: float | None = None,
    threshold: float = -20.0,
    interp_step: float | None = None,
) -> dict[str, np.ndarray | RaggedArray]:
    t, v = traces(responses, protocol)
    return extract(
        v,
        t,
        names,
        stim_start=stimulus[0],
        stim_end=stimulus[1],
        stimulus_current=current,
        threshold=threshold,
        interp_step=interp_step,
    )


def mean_of(feature: np.ndarray | RaggedArray) -> np.ndarray:
    """(N,) float64: a feature, or the mean of its values; NaN if there is none."""
    if isinstance(feature, RaggedArray):
        return feature.reduced(np.add) / np.maximum(feature.counts, 1)
    return np.asarray(feature, np.float64)
