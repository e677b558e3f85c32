"""Results for other packages: a thin module each, imported by name, which imports the package.

Words: a *result* is what `Simulation.run` returns, or anything with its `spike_time`, `spike_cell`,
`t` and `values`.

Who owns what
    `pandas`: tables of spikes and of records. `neo`: a `neo.Segment`. `sonata`: files of spikes
    that libsonata reads (h5py). `efel`: features by eFEL itself; `clhines.features` has the
    common ones without it. `results`: what is asked of a result, and checks.

>>> import importlib.util
>>> import numpy as np
>>> from types import SimpleNamespace
>>> result = SimpleNamespace(
...     spike_time=np.array([2.5, 7.0]), spike_cell=np.array([3, 0]), t=np.arange(11.0), values=[]
... )
>>> if importlib.util.find_spec("pandas"):
...     from clhines.adapters import pandas
...     assert pandas.spikes(result).to_dict("list") == {"time": [2.5, 7.0], "cell": [3, 0]}

To add a package: a module of its name, an extra in ``setup.cfg``, and a test against the package.
"""
