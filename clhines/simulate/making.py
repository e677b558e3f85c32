"""What advances a network: chosen and made for one process or for a rank of several."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import pyopencl as cl

from clhines.errors import InputError
from clhines.network.model import Model
from clhines.simulate.decisions import Decisions
from clhines.simulate.extended_ranks import make_extended
from clhines.simulate.mpi import Ranks
from clhines.simulate.partition import Share, cell_costs, part_of, split
from clhines.simulate.reference import ReferenceRun
from clhines.simulate.runs import DeviceRun, MakeExecutor, PartRun, Run, choose_executor
from clhines.simulate.split_run import SplitRun
from clhines.simulate.state import State
from clhines.simulate.steps import Steps

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """What was asked for; see `Simulation`.

    Attributes
    ----------
    queue : pyopencl.CommandQueue or None
        None for ``reference``.
    dtype : numpy.dtype
    engine : str or callable
    chunk : int
    max_spikes : int or None
    method : str
    options : dict of str to object
        Of the `Solver`.
    """

    queue: cl.CommandQueue | None
    dtype: np.dtype
    engine: str | MakeExecutor
    chunk: int
    max_spikes: int | None
    method: str
    options: dict[str, object]


@dataclass(frozen=True)
class Made:
    """What advances a network, the name of its engine, and the steps of a chunk."""

    runner: Run
    engine: str
    chunk: int


def make_run(ranks: Ranks | None, model: Model, wanted: Wanted, overlap: bool) -> Made:
    """Make the run that advances the cells of this rank and exchanges their spikes.

    Parameters
    ----------
    ranks : Ranks or None
    model : Model
        The whole network.
    wanted : Wanted
    overlap : bool
        Whether spikes are exchanged during the next epoch.

    Raises
    ------
    InputError
        The engine cannot take the network.
    """
    if model.extended is not None:
        return _extended(ranks, model, wanted)
    share = None
    with _agreed(ranks):
        own, decisions = model, Decisions.of(model, ranks is not None, overlap)
        if ranks is not None:
            share = Share(model, split(cell_costs(model), ranks.size))
            first, end = share.bounds[[ranks.rank, ranks.rank + 1]].tolist()
            own = part_of(model, first, end)
        epoch = decisions.epoch
        chunk = max(epoch, wanted.chunk // epoch * epoch)  # no epoch is cut short
        if wanted.engine == "reference":
            engine, part = "reference", _on_host(own, decisions)
        else:
            state = State(own, wanted.queue, wanted.dtype, chunk, wanted.max_spikes, decisions)
            engine, executor = choose_executor(state, wanted.engine, wanted.method, wanted.options)
            part = DeviceRun(state, executor)
    if share is None or ranks is None:
        return Made(part, engine, chunk)
    steps = ranks.gather_numbers([engine == "steps"])[:, 0]
    with ranks.agreed():
        # on other ranks a cell may be too large for epochs
        if steps.any() and engine == "epochs":
            _log.info("engine steps (a cell of another rank is too large for epochs)")
            engine, part = "steps", DeviceRun(state, Steps(state, wanted.method))
        return Made(SplitRun(ranks, share, part, overlap), engine, chunk)


def _on_host(model: Model, decisions: Decisions) -> PartRun:
    _log.info("engine reference (NumPy on the host, as given)")
    return ReferenceRun(model, decisions)


def _extended(ranks: Ranks | None, model: Model, wanted: Wanted) -> Made:
    """Make the run of a network with ions, events of their own times, pointers or the like."""
    with _agreed(ranks):
        if not isinstance(wanted.engine, str):
            raise InputError(
                "engine is a function; expected the name of one, as the network needs engine "
                "'steps' or 'reference'"
            )
    runner = make_extended(
        ranks,
        model,
        wanted.queue,
        wanted.dtype,
        wanted.engine,
        wanted.max_spikes,
        wanted.method,
        wanted.options,
    )
    return Made(runner, "reference" if wanted.engine == "reference" else "steps", wanted.chunk)


def _agreed(ranks: Ranks | None) -> AbstractContextManager[None]:
    """Wait for the other ranks at the end of a block; an error is one of all."""
    return nullcontext() if ranks is None else ranks.agreed()
