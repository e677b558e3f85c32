"""Engines, chosen and made for one process or for a rank of several."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from itertools import pairwise
from typing import cast

from clhines.core.errors import BuildError, DeviceError, InputError, meant, shown, warn_caller
from clhines.core.progress import phase
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.engines.reference import Reference
from clhines.simulator.engines.run import Job, PartRun, Request, Run, naming_memory
from clhines.simulator.engines.steps import Steps
from clhines.simulator.engines.table import ALL, ENGINES, FAMILY, Engine
from clhines.simulator.model.model import Model
from clhines.simulator.model.needs import EXACT, listed, phrases
from clhines.simulator.network.network import Network
from clhines.simulator.ranks.described import gathered
from clhines.simulator.ranks.mpi import Ranks, agreed
from clhines.simulator.ranks.partition import Share, cell_costs, check_pointers, split
from clhines.simulator.ranks.split import JoinedRun, Joints, OwnRun, SplitRun
from clhines.simulator.refusals import refusal
from clhines.simulator.state.decisions import Decisions, epoch_steps
from clhines.solver.device import devices
from clhines.solver.plan.methods import METHODS
from clhines.solver.solver import Solver

_log = logging.getLogger(__name__)
TIMES = frozenset({"grid_times", "exact_times"})
_NOT_SPLIT = {  # needs of networks that ranks cannot split, and their refusals
    "bins": "network.ranks-bins",
    "written_pointers": "network.ranks-written-pointers",
    "read_pointers": "network.ranks-read-pointers",
    "last_instances": "network.ranks-last-instances",
}


def check_options(options: Iterable[str], own: Iterable[str]) -> None:
    """Reject names that are options of no method; parameters of `Simulation` may be meant."""
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
class EngineRun:
    run: Run
    engine: str
    chunk: int


def engines_for(needs: frozenset[str], asked: str, device: str) -> list[Engine]:
    """Engines to try, in turn, on a ``gpu``, ``cpu`` or ``host``; an InputError says what lacks."""
    engines = [e for e in ENGINES if e.name == asked]
    if asked in ("auto", FAMILY):
        engines = [e for e in ENGINES if e.on == device or (not e.on and asked == "auto")]
    fit = [e for e in engines if e.kernels_for(needs) and e.runs_on(device)]
    if fit:
        return fit
    others = [e.name for e in ENGINES if e.kernels_for(needs) and e.runs_on(device)]
    expected = listed([repr(name) for name in others] or ["a network without"])
    lacking = min((e.lacks(needs) for e in engines), key=len) if needs <= ALL else needs - ALL
    if not lacking:
        raise InputError(f"engine={asked!r} is for {engines[0].on.upper()}s; expected {expected}")
    if lacking & EXACT > {"exact_times"}:
        lacking -= {"exact_times"}  # which the others say
    what = f"engine={asked!r} takes no" if others else "no engine takes"
    raise InputError(f"{what} {phrases(lacking)}; expected {expected}")


def described() -> list[tuple[str, str, str, str, str]]:
    """Return name, devices, description, missing needs and limits of each engine, in words."""
    found = []
    for e in ENGINES:
        lacks = [(phrases(kernels.takes & TIMES), phrases(kernels.lacks, "and"))
                 for kernels in e.kernels if kernels.lacks]  # fmt: skip
        without = "; ".join(f"with {times}: {words}" for times, words in lacks)
        on = {"": "all", "host": "host"}.get(e.on) or f"{e.on.upper()}s"
        found.append((e.name, on, e.about, without, e.limits))
    return found


def make_run(ranks: Ranks | None, model: Model, request: Request, overlap: bool) -> EngineRun:
    with agreed(ranks):
        asked, decisions, own, shares = request.engine != "auto", None, model, list[Share]()
        if ranks is not None:
            model = model.apart
            bounds = split(cell_costs(model), ranks.size).tolist()
            shares = [Share(model, first, end) for first, end in pairwise(bounds)]
        engines, needs = _engines(shares, model, request)
        if ranks is not None:
            decisions = Decisions.of(model, split=True, overlap=overlap)
            own = shares[ranks.rank].model()
        if model.has_sums:  # no epoch is cut short
            epoch = epoch_steps(model, overlap)
            request = replace(request, chunk=max(epoch, request.chunk // epoch * epoch))
        job = Job(own, request, decisions, asked)
        with naming_memory(request.what, request.chunk):
            run, engine = _first(engines, needs, job)
    if ranks is None or decisions is None:
        return EngineRun(run, engine, request.chunk)
    run, engine = _of_all(ranks, job, run, engine)
    return EngineRun(SplitRun(ranks, shares, decisions, run), engine, request.chunk)


def make_own(
    ranks: Ranks, network: Network, model: Model, request: Request, overlap: bool | None
) -> EngineRun:
    """Make the run of a rank that has described its own cells."""
    on_host = request.queue is None or devices.is_cpu(request.queue.device)
    whole = gathered(ranks, network, model, on_host, overlap)
    with ranks.agreed():
        epoch = whole.decisions.epoch
        request = replace(request, chunk=max(epoch, request.chunk // epoch * epoch))
        asked = replace(whole.model, needs=whole.model.needs | {"ranks"})
        job = Job(whole.model, request, whole.decisions, request.engine != "auto")
        with naming_memory(request.what, request.chunk):
            found = _first(*_engines([], asked, request), job)
    run, engine = _of_all(ranks, job, *found)
    return EngineRun(OwnRun(ranks, whole, run), engine, request.chunk)


def _of_all(ranks: Ranks, job: Job, run: Run, engine: str) -> tuple[PartRun, str]:
    """Return the run of a rank, by steps where a cell of another is too large for epochs."""
    by_steps = ranks.gather_numbers([engine == "steps"])[:, 0]
    with ranks.agreed():
        if by_steps.any() and engine.startswith(FAMILY):
            _log.info("engine steps (a cell of another rank is too large for epochs)")
            engine, run = "steps", make_steps(job)
    return cast("PartRun", run), engine


def check_split(needs: frozenset[str]) -> None:
    """Refuse a network that ranks split whose parts would act on each other within a step."""
    for word, name in _NOT_SPLIT.items():
        if word in needs:
            raise InputError(refusal(name))


def _engines(
    shares: Sequence[Share], model: Model, request: Request
) -> tuple[list[Engine], frozenset[str]]:
    """Engines to try, none where the user has given one, and what they must take."""
    needs, device = model.needs, "host"
    if not isinstance(request.method, str) or request.method != "auto" or request.options:
        needs |= {"solver"}
    if shares:
        check_split(needs)
        needs |= {"ranks"}
    if any(len(share.remote) for share in shares):
        needs |= {"ranked_pointers"}
    if not isinstance(request.engine, str):
        return [], needs
    if request.queue is not None:
        device = "cpu" if devices.is_cpu(request.queue.device) else "gpu"
    return engines_for(needs, request.engine, device), needs


def _first(engines: Sequence[Engine], needs: frozenset[str], job: Job) -> tuple[Run, str]:
    """Make the run of the first engine that can; return its name too."""
    refusals = list[str]()
    for engine in engines:
        kernels = engine.kernels_for(needs)
        assert kernels is not None
        phase(f"planning for engine {engine.name}")
        try:
            module, name = kernels.make.split(":")
            run = getattr(import_module(f"clhines.simulator.{module}"), name)(job)
        except InputError as error:
            if engine is engines[-1]:
                raise
            refusals.append(f"{engine.name}: {error}")
            continue
        why = "; ".join(refusals) or ("as given" if job.asked else engine.about)
        _log.info("engine %s (%s)", engine.name, why)
        return run, engine.name
    return job.of_user(), "custom"


def make_joined(job: Job, engine: str, joints: Joints) -> JoinedRun:
    """Make a run of this rank's own network, joined to others, by the first engine that can."""
    needs = job.model.needs
    joints.ranks.agree(None)  # a rank that has failed before this tells the others here
    if joints.ranks.gather_numbers([len(job.model.remote_v)]).any():
        needs |= {"ranked_pointers"}
    device = "cpu" if devices.is_cpu(job.queue.device) else "gpu"
    with joints.agreed():
        n = job.model.forest.num_nodes
        check_pointers(job.model, [p for p, to in job.model.pointers.items() if (to >= n).any()])
        own = replace(job, request=replace(job.request, engine=engine), asked=engine != "auto")
        run, _ = _first(engines_for(needs, engine, device), needs, own)
    return JoinedRun(joints, job.model, cast("PartRun", run))


def make_steps(job: Job) -> ArenaRun:
    return ArenaRun(job, Steps)


def make_reference(job: Job) -> Reference:
    return Reference(job.model, decisions=job.decisions)


def by_steps(request: Request, engine: str, error: Exception) -> Request:
    """Return the request to go on by steps; DeviceError where another engine was asked for."""
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
