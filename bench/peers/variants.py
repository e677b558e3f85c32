"""A generation of variants of one cell: code that all simulators of `bench variants` share."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from bench import neurons
from bench.record import SEED
from clhines.simulator.analysis import RaggedArray, extract

CELL = "l5pc-firing"
VARIED = (("nata", neurons.SOMA), ("skv", neurons.SOMA), ("im", neurons.SOMA))
AMPS = (1.0, 1.5, 2.0)  # nA, one protocol each
BEGIN, SHARE = 0.1, 0.8  # a protocol's shares: before the stimulus, and in it
FEATURES = (
    "spike_count",
    "mean_frequency",
    "time_to_first_spike",
    "ISI_CV",
    "AHP_depth",
    "peak_voltage",
    "voltage_base",
    "steady_state_voltage_stimend",
)
Features = dict[str, list[list[float]]]


@dataclass
class Generation:
    """One simulator's results for its generation."""

    name: str
    where: str
    make_s: float  # describing the model and all else before the first simulation
    simulate_s: float
    features_s: float
    cpu_s: float  # processor time for the last simulations on all cores
    features: Features  # by variant and protocol; NaN if there is none; means over several values
    notes: list[str] = field(default_factory=list)

    def write(self, path: str) -> None:
        Path(path).write_text(json.dumps(asdict(self)), "utf-8")


def sets(count: int) -> np.ndarray:
    """Return parameters, (count, parameters) float64, S/cm²: 0.7 to 1.3 of the cell's."""
    factor = np.random.default_rng(SEED).uniform(0.7, 1.3, (count, len(VARIED)))
    return factor * [neurons.NEURONS[CELL].densities[name][region] for name, region in VARIED]


def window(stop: float) -> tuple[float, float]:
    return BEGIN * stop, SHARE * stop


def mean_of(values: np.ndarray | RaggedArray, shape: tuple[int, int]) -> list[list[float]]:
    """Return a feature by variant and protocol; the mean over several values."""
    if isinstance(values, RaggedArray):
        values = values.reduced(np.add) / np.maximum(values.counts, 1)
    nested: list[list[float]] = np.asarray(values, np.float64).reshape(shape).tolist()
    return nested


def features_of(v: np.ndarray, t: np.ndarray, stop: float) -> Features:
    begin, duration = window(stop)
    rows = v.reshape(-1, v.shape[-1])
    features = extract(rows, t, FEATURES, stim_start=begin, stim_end=begin + duration)
    return {name: mean_of(features[name], v.shape[:2]) for name in FEATURES}


def joined(parts: Sequence[Features]) -> Features:
    return {name: [row for part in parts for row in part[name]] for name in FEATURES}


def timed_features(v: np.ndarray, t: np.ndarray, stop: float) -> tuple[Features, float]:
    start = time.perf_counter()
    features = features_of(v, t, stop)
    return features, time.perf_counter() - start


def compared(found: Features, truth: Features) -> dict[str, float | dict[str, float]]:
    """Return the differences between two simulators' features of the same variants.

    Returns
    -------
    dict
        ``same_count``, the share of traces with as many spikes; the largest difference of each
        other feature in these traces, in its unit; and ``most``, the difference of each feature
        that 95 % of all traces do not exceed.
    """
    ours, theirs = np.array(found["spike_count"]), np.array(truth["spike_count"])
    count = min(len(ours), len(theirs))
    same = ours[:count] == theirs[:count]
    result: dict[str, float | dict[str, float]] = {"same_count": float(same.mean())}
    most: dict[str, float] = {}
    for name in FEATURES[1:]:
        a, b = (np.array(f[name], np.float64)[:count] for f in (found, truth))
        apart = np.where(np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b))
        result[name] = float(apart[same].max(initial=0.0))  # NaN if either has none
        most[name] = float(np.quantile(np.nan_to_num(apart, nan=np.inf), 0.95, method="higher"))
    return result | {"most": most}
