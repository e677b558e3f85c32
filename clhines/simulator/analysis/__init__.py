"""Recorded voltages and spikes: features by eFEL's definitions, and results for other packages.

Features need NumPy only and take all traces at once; or a run computes them on its device. Words: a
*trace* is a row of voltages [mV] at times [ms] that all rows share. The *stimulus* lasts from
`stim_start` to `stim_end`. A *spike* is a stretch above the threshold, its *peak* the first of its
largest samples. Features with one value per spike are a `RaggedArray`: flat values with
offsets. What eFEL does not compute is NaN here, or an empty array. A *result* is what
`Simulation.run` returns, or anything with its `spike_time`, `spike_cell`, `t` and `values`.

Who owns what
    `extract`: `extract`, `FEATURES`, the table of names, `voltage_at`, and means and extremes
    between times. `spikes`: `Traces`, checked, and eFEL's interpolation; `RaggedArray`; crossings,
    peaks, minima after them. Bounds of windows are indices that depend on times alone,
    and what is taken of the voltages are sums, extremes and crossings in the order of the samples:
    one pass per trace. `features`: `Features`, those that a run computes as it goes, from what it
    keeps of windows and, in `segments`, of spikes.
    Adapters, a thin module each, imported by name, which imports its package: `pandas` (tables of
    spikes and of records), `neo` (a `neo.Segment`), `sonata` (files of spikes and reports that
    libsonata reads, by h5py), `efel` (features by eFEL itself). `results`: what they ask of a
    result or a population, and features of a population. For searches of a population's parameters:
    `bluepyopt` (an evaluator that takes a whole generation), `sbi` (a simulator over a batch of
    tensors).

>>> import numpy as np
>>> from clhines.simulator import analysis
>>> t = np.arange(0.0, 300.0, 0.1)  # ms
>>> v = np.full((2, len(t)), -70.0)  # mV
>>> v[1, 1100::500] = 30.0  # spikes of one sample, every 50 ms from 110 ms on
>>> found = analysis.extract(
...     v, t, ["spike_count", "peak_time", "mean_frequency"], stim_start=100.0, stim_end=250.0
... )
>>> found["spike_count"].tolist()
[0, 4]
>>> found["peak_time"][1].round(6).tolist()
[110.0, 160.0, 210.0, 260.0]
>>> found["mean_frequency"].round(6).tolist()  # Hz: 3 spikes until the last in the stimulus
[nan, 27.272727]

To add a feature: a function of `Traces` in `extract`, and its row in `FEATURES`; the test compares
each row with eFEL. To add a package: a module of its name, an extra in ``setup.cfg``, and a test
against the package.
"""

from clhines.simulator.analysis.extract import FEATURES, extract, voltage_at
from clhines.simulator.analysis.features import Features
from clhines.simulator.analysis.spikes import RaggedArray

__all__ = ["FEATURES", "Features", "RaggedArray", "extract", "voltage_at"]
