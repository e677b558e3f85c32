"""Measurements of clhines: ``python -m bench`` lists them, ``python -m bench NAME`` runs one.

- `__main__`: the runner and the list of measures; `again` writes tables and pictures of results.
- `measures`: a module or package for each measure, with ``main(arguments)``.
- `peers`: other solvers and simulators, to compare with.
- `papers`: the experiments of three papers.
- `record`: records a run and writes its files; `table`, `plot`: tables and pictures of results.
- `systems`: batches of cells, their values, and solvers to time; `child`: runs in other processes.
- `neurons`: cells of the measure `cells`; `nrn`: NEURON's compiler, and names of its mechanisms.

``results`` holds the measurements, ``notes`` the experiments, one file per subject.
"""


class MissingError(Exception):
    """A solver, simulator or check that is not available; the message is the reason."""
