"""Measurements of clhines: ``python -m bench`` lists them, ``python -m bench NAME`` runs one.

- `__main__`: the runner and the list of measures; `again` writes tables and pictures of results.
- `measures`: a module or package each for what is measured, with ``main(arguments)``.
- `peers`: other solvers and simulators that measures are compared with.
- `papers`: the experiments of three papers.
- `record`: how a run is recorded and written; `table`, `plot`: how results look.
- `systems`: batches of cells, their values, and solvers to time; `child`: runs in other processes.
- `neurons`: cells of the measure `cells`; `nrn`: NEURON's compiler, and names of its mechanisms.

``results`` holds what was measured, ``notes`` what was tried, one file a subject.
"""


class MissingError(Exception):
    """A solver, simulator or check that is not available; the message is the reason."""
