"""Pictures of results and cells, and features of recorded voltages by eFEL's definitions.

Features need only NumPy and are computed for all traces at once, or during a run on its device.
Words: a *trace* is a row of voltages [mV]; all rows share their times [ms]. The *stimulus* lasts
from `stim_start` to `stim_end`. A *spike* is a run of samples above the threshold, its *peak* the
first of its largest samples. Features with one value per spike are a `RaggedArray`: flat values
with offsets. Values that eFEL does not compute are NaN or empty arrays.

Modules
    `definitions`: `FEATURES`, the table of names, and their functions of `Traces`. `spikes`:
    checks; `RaggedArray`; sums and extremes. `segments`: the few samples of each spike. `features`:
    `extract`, and `Features` for runs. Both need only segments, and sums and extremes in windows
    whose bounds depend on times alone. `draw`: pictures of spikes, records and cells.
    `pictures`: their style and files, by matplotlib.

>>> import numpy as np
>>> from clhines.simulator import analysis
>>> t = np.arange(0.0, 300.0, 0.1)  # ms
>>> v = np.full((2, len(t)), -70.0)  # mV
>>> v[1, 1100::500] = 30.0  # spikes of one sample, every 50 ms from 110 ms on
>>> features = analysis.extract(
...     v, t, ["spike_count", "peak_time", "mean_frequency"], stim_start=100.0, stim_end=250.0
... )
>>> features["spike_count"].tolist()
[0, 4]
>>> features["peak_time"][1].round(6).tolist()
[110.0, 160.0, 210.0, 260.0]
>>> features["mean_frequency"].round(6).tolist()  # Hz: 3 spikes until the last in the stimulus
[nan, 27.272727]

To add a feature: a function of `Traces` in `definitions`, and its row in `FEATURES`; the test
compares each row with eFEL.
"""

from clhines.simulator.analysis.definitions import FEATURES
from clhines.simulator.analysis.features import Features, extract
from clhines.simulator.analysis.spikes import RaggedArray

__all__ = ["FEATURES", "Features", "RaggedArray", "extract"]
