"""Features of what a population did, for adapters that search its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from clhines.analysis.extract import extract
from clhines.analysis.spikes import RaggedArray
from clhines.checks import shown
from clhines.errors import InputError, meant


class Responses(Protocol):
    """Voltages as in `clhines.simulate.population.population.Responses`."""

    @property
    def t(self) -> np.ndarray: ...
    @property
    def v(self) -> np.ndarray: ...


class Population(Protocol):
    """Parameter sets under protocols, as in `clhines.simulate.population.population.Population`."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def protocols(self) -> tuple[str, ...]: ...
    def evaluate(self, sets: np.ndarray) -> Responses: ...


def check_population(population: object) -> None:
    if not all(hasattr(population, name) for name in ("names", "protocols", "evaluate")):
        raise InputError(f"population is {type(population).__name__}; expected clhines.Population")


def check_names(what: str, given: Mapping[str, object], expected: Iterable[str]) -> None:
    names = tuple(expected)
    if not isinstance(given, Mapping):
        raise InputError(f"{what} is {shown(given)}; expected a mapping of {', '.join(names)}")
    for name in given:
        if name not in names:
            raise InputError(
                f"{what} has {shown(name)}; expected {', '.join(names)}{meant(name, names)}"
            )
    missing = [name for name in names if name not in given]
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
    """(N,) float64: a feature, or the mean of its values; NaN where there is none."""
    if isinstance(feature, RaggedArray):
        return feature.reduced(np.add) / np.maximum(feature.counts, 1)
    return np.asarray(feature, np.float64)
