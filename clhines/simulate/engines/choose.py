"""What advances a network: chosen and made for one process or for a rank of several."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from inspect import signature

from clhines.device import devices
from clhines.errors import BuildError, DeviceError, InputError, meant, shown, warn_caller
from clhines.model.model import Model
from clhines.plan.methods import METHODS
from clhines.simulate.cpu.extended_blocks import ExtendedBlocks
from clhines.simulate.engines.extended_reference import ExtendedReference
from clhines.simulate.engines.reference import ReferenceRun
from clhines.simulate.engines.run import (
    DeviceRun,
    PartRun,
    Request,
    Run,
    choose_executor,
    naming_memory,
)
from clhines.simulate.engines.steps import Steps
from clhines.simulate.gpu.extended_epochs import ExtendedEpochs
from clhines.simulate.ranks.extended_ranks import ExtendedSplit, make_extended
from clhines.simulate.ranks.mpi import Ranks, agreed
from clhines.simulate.ranks.partition import Share, cell_costs, part_of, split
from clhines.simulate.ranks.split import SplitRun
from clhines.simulate.state.decisions import Decisions
from clhines.simulate.state.state import State
from clhines.solve.solver import Solver

_log = logging.getLogger(__name__)


def check_options(options: Iterable[str], own: Iterable[str]) -> None:
    """Reject names that are options of no method, whatever engine will be used.

    `own` are the names of the parameters of `Simulation`, one of which may be meant.
    """
    solver = [name for name in signature(Solver).parameters if name not in ("forest", "options")]
    known = {*solver, *(name for row in METHODS.values() for name in row.options)}
    expected = [name for name in own if name not in ("self", "options")]
    for name in options:
        if name not in known:
            near = meant(name, [*expected, *sorted(known)])
            raise InputError(
                f"option {shown(name)} is none of Simulation; expected {', '.join(expected)}, or "
                f"an option of a Solver{near}"
            )


@dataclass(frozen=True)
class Made:
    """What advances a network, the name of its engine, and the steps of a chunk."""

    runner: Run
    engine: str
    chunk: int


def make_run(ranks: Ranks | None, model: Model, request: Request, overlap: bool) -> Made:
    """Make the run that advances the cells of this rank and exchanges their spikes.

    Parameters
    ----------
    ranks : Ranks or None
    model : Model
        The whole network.
    request : Request
    overlap : bool
        Whether spikes are exchanged during the next epoch.

    Raises
    ------
    InputError
        The engine cannot take the network.
    """
    if model.extended is not None:
        with naming_memory(request.what, request.chunk):
            runner = make_extended(ranks, model, request)
        names: dict[type, str] = {ExtendedReference: "reference"}
        names |= {ExtendedEpochs: "epochs", ExtendedBlocks: "epochs"}
        of_rank = runner.run if isinstance(runner, ExtendedSplit) else runner
        return Made(runner, names.get(type(of_rank), "steps"), request.chunk)
    share = None
    with agreed(ranks):
        part: PartRun
        own, decisions = model, Decisions.of(model, ranks is not None, overlap)
        if ranks is not None:
            share = Share(model, split(cell_costs(model), ranks.size))
            first, end = share.bounds[[ranks.rank, ranks.rank + 1]].tolist()
            own = part_of(model, first, end)
        epoch = decisions.epoch
        chunk = max(epoch, request.chunk // epoch * epoch)  # no epoch is cut short
        if request.engine == "reference":
            _log.info("engine reference (NumPy on the host, as given)")
            engine, part = "reference", ReferenceRun(own, decisions)
        else:
            with naming_memory(request.what, chunk):
                state = State(
                    own, request.queue, request.dtype, chunk, request.max_spikes, decisions
                )
                engine, executor = choose_executor(
                    state, request.engine, request.method, request.options
                )
                part = DeviceRun(state, executor)
    if share is None or ranks is None:
        return Made(part, engine, chunk)
    steps = ranks.gather_numbers([engine == "steps"])[:, 0]
    with ranks.agreed():
        # on other ranks a cell may be too large for epochs
        if steps.any() and engine == "epochs":
            _log.info("engine steps (a cell of another rank is too large for epochs)")
            engine, part = "steps", DeviceRun(state, Steps(state, request.method))
        return Made(SplitRun(ranks, share, part, overlap), engine, chunk)


def by_steps(request: Request, error: Exception) -> Request:
    """Return the request to go on by steps where the device does not take a kernel of epochs.

    Raises
    ------
    DeviceError
        Epochs were asked for.
    """
    assert request.queue is not None
    reason = str(error).splitlines()[0]
    if isinstance(error, BuildError):  # which shows the source
        reason = "its kernel does not build"
        _log.debug("%s", error)
    what = f"engine='epochs' does not run on {devices.label(request.queue.device)}: {reason}"
    if request.engine != "auto":
        raise DeviceError(f"{what}; expected engine='steps'") from error
    warn_caller(f"{what}; the simulation goes on with engine='steps'", UserWarning)
    return replace(request, engine="steps")
