"""What advances a network: chosen and made for one process or for a rank of several."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from typing import Any, cast

from clhines.device import devices
from clhines.errors import BuildError, DeviceError, InputError, meant, shown, warn_caller
from clhines.model.copied import CopiedModel
from clhines.model.model import Model
from clhines.model.needs import EXACT, listed, phrases
from clhines.plan.methods import METHODS
from clhines.simulate.engines.reference import Reference
from clhines.simulate.engines.run import Job, PartRun, Request, Run, naming_memory
from clhines.simulate.engines.steps import Steps
from clhines.simulate.engines.table import ALL, ENGINES, FAMILY, Engine
from clhines.simulate.ranks.exact_split import ExactSplit
from clhines.simulate.ranks.mpi import Ranks, agreed
from clhines.simulate.ranks.partition import Share, cell_costs, part_of, split
from clhines.simulate.ranks.split import SplitRun
from clhines.simulate.state.decisions import Decisions
from clhines.simulate.state.exact_copies import CopiedSteps
from clhines.solve.solver import Solver

_log = logging.getLogger(__name__)
_ANY = {"steps", "reference"}  # engines that take every network
_EXACT = {"epochs-gpu-exact", "epochs-cpu-exact"}


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


def engines_for(needs: frozenset[str], asked: str, device: str) -> list[Engine]:
    """Return the engines to try, in turn.

    Parameters
    ----------
    needs : frozenset of str
        See `clhines.model.needs`.
    asked : str
        ``auto``, ``epochs`` or a name.
    device : str
        ``gpu``, ``cpu`` or ``host``.

    Raises
    ------
    InputError
        None of them takes all needs, or runs on the device.
    """
    some = [e for e in ENGINES if e.name == asked]
    if asked in ("auto", FAMILY):
        some = [e for e in ENGINES if e.on == device or (not e.on and asked == "auto")]
    named = {e.name: e.takes | (e.named if e.name == asked else frozenset()) for e in ENGINES}
    fit = [e for e in some if needs <= named[e.name] and e.runs_on(device)]
    if fit:
        return fit
    others = [e.name for e in ENGINES if needs <= e.takes and e.runs_on(device)]
    expected = listed([repr(name) for name in others] or ["a network without"])
    lacking = min((needs - named[e.name] for e in some), key=len) if needs <= ALL else needs - ALL
    if not lacking:
        raise InputError(f"engine={asked!r} is for {some[0].on.upper()}s; expected {expected}")
    if lacking & EXACT > {"exact_times"}:
        lacking -= {"exact_times"}  # which the others say
    what = f"engine={asked!r} takes no" if others else "no engine takes"
    raise InputError(f"{what} {phrases(lacking)}; expected {expected}")


def described() -> list[tuple[str, str, str, str, str]]:
    """Return name, devices, description, missing needs and limits of each engine, in words."""
    found = []
    for e in ENGINES:
        lacks = e.lacks - EXACT | {"exact_times"} if "exact_times" in e.lacks else e.lacks
        on = {"": "all", "host": "host"}.get(e.on) or f"{e.on.upper()}s"
        found.append((e.name, on, e.about, phrases(lacks, "and") if lacks else "", e.limits))
    return found


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
    with agreed(ranks):
        engines = _engines(ranks, model, request)
    names = {e.name for e in engines}
    exact = model.exact or (model.num_extra > 0 and bool(names) and names <= _ANY)
    exact |= bool(names) and names <= _EXACT
    return (_at_exact_times if exact else _in_whole_steps)(ranks, model, request, overlap, engines)


def _engines(ranks: Ranks | None, model: Model, request: Request) -> list[Engine]:
    """Return the engines to try; none where the user has given one."""
    if not isinstance(request.engine, str):
        return []
    needs, device = model.needs, "host"
    if request.method != "auto" or request.options:
        needs |= {"solver"}
    if ranks is not None:
        needs |= {"ranks", "ranked_bins"} if "bins" in needs else {"ranks"}
    if request.queue is not None:
        device = "cpu" if devices.is_cpu(request.queue.device) else "gpu"
    return engines_for(needs, request.engine, device)


def _first(engines: Sequence[Engine], job: Job) -> tuple[Run, str]:
    """Make the run of the first engine that can; return its name too."""
    said = list[str]()
    for engine in engines:
        try:
            module, name = engine.make.split(":")
            run = getattr(import_module(f"clhines.simulate.{module}"), name)(job)
        except InputError as error:
            if engine is engines[-1]:
                raise
            said.append(f"{engine.name}: {error}")
            continue
        why = "; ".join(said) or ("as given" if job.asked else engine.about)
        _log.info("engine %s (%s)", engine.name, why)
        return run, engine.name
    return job.of_user(), "custom"


def _at_exact_times(
    ranks: Ranks | None, model: Model, request: Request, _: bool, engines: list[Engine]
) -> Made:
    """Make a run of a network whose events act at exact times."""
    name, asked = "", request.engine != "auto"
    decisions = None if ranks is None else Decisions.of(model, split=True)

    def of_share(part: Model) -> Any:
        nonlocal name
        run, name = _first(engines, Job(part, request, decisions, asked))
        return run

    with naming_memory(request.what, request.chunk):
        if ranks is None:
            return Made(of_share(model), name, request.chunk)
        with ranks.agreed():
            bounds = split(cell_costs(model), ranks.size)
        assert decisions is not None
        run = ExactSplit(ranks, decisions, bounds, of_share)
    return Made(run, name, request.chunk)


def _in_whole_steps(
    ranks: Ranks | None, model: Model, request: Request, overlap: bool, engines: list[Engine]
) -> Made:
    """Make a run of a network whose events act in whole steps."""
    share = None
    with agreed(ranks):
        own, decisions = model, Decisions.of(model, ranks is not None, overlap)
        if ranks is not None:
            share = Share(model, split(cell_costs(model), ranks.size))
            first, end = share.bounds[[ranks.rank, ranks.rank + 1]].tolist()
            own = part_of(model, first, end)
        epoch = decisions.epoch
        chunk = max(epoch, request.chunk // epoch * epoch)  # no epoch is cut short
        job = Job(own, replace(request, chunk=chunk), decisions, request.engine != "auto")
        with naming_memory(request.what, chunk):
            part, engine = _first(engines, job)
    if share is None or ranks is None:
        return Made(part, engine, chunk)
    steps = ranks.gather_numbers([engine == "steps"])[:, 0]
    with ranks.agreed():
        # on other ranks a cell may be too large for epochs
        if steps.any() and engine.startswith(FAMILY):
            _log.info("engine steps (a cell of another rank is too large for epochs)")
            engine, part = "steps", make_steps(job)
        return Made(SplitRun(ranks, share, cast("PartRun", part), overlap), engine, chunk)


def make_steps(job: Job) -> Run:
    """Make a run by steps; see `Job`."""
    request, model = job.request, job.model
    options = cast("dict[str, Any]", {**request.options, "method": request.method})
    given = job.queue, job.dtype, job.max_spikes, job.decisions
    if isinstance(model, CopiedModel):
        return CopiedSteps(model, *given[:2], max_spikes=given[2], **options)
    return Steps(model, *given, **options)


def make_reference(job: Job) -> Run:
    """Make a run on the host; see `Job`."""
    return Reference(job.model, decisions=job.decisions)


def by_steps(request: Request, engine: str, error: Exception) -> Request:
    """Return the request to go on by steps where the device does not take an engine's kernel.

    Raises
    ------
    DeviceError
        The engine was asked for.
    """
    assert request.queue is not None
    reason = str(error).splitlines()[0]
    if isinstance(error, BuildError):  # which shows the source
        reason = "its kernel does not build"
        _log.debug("%s", error)
    what = f"engine={engine!r} does not run on {devices.label(request.queue.device)}: {reason}"
    if request.engine != "auto":
        raise DeviceError(f"{what}; expected engine='steps'") from error
    warn_caller(f"{what}; the simulation goes on with engine='steps'", UserWarning)
    return replace(request, engine="steps")
