"""Choose an engine, and make its run for one process or for one of several ranks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from itertools import pairwise
from typing import cast

import numpy as np

from clhines.core.errors import (
    BuildError,
    DeviceError,
    DeviceMemoryError,
    InputError,
    meant,
    shown,
    warn_caller,
)
from clhines.core.progress import phase
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.engines.reference import Reference
from clhines.simulator.engines.run import Job, PartRun, Request, Run, naming_memory
from clhines.simulator.engines.steps import Steps
from clhines.simulator.engines.table import ALL, ENGINES, FAMILY, Engine
from clhines.simulator.model.compiling import compile
from clhines.simulator.model.model import Model
from clhines.simulator.model.needs import EXACT, listed, phrases, refused
from clhines.simulator.network.network import Network
from clhines.simulator.network.stored import packed, unpacked
from clhines.simulator.ranks.exchange import ErrorGuard, exchange_of
from clhines.simulator.ranks.joining import Ends, join_networks
from clhines.simulator.ranks.joints import JoinedExchange, Joints, Outbox, agreed_epoch
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks
from clhines.simulator.ranks.one_device import OneDeviceRun, WholeRun
from clhines.simulator.ranks.partition import Share, cell_costs, check_pointers, split
from clhines.simulator.ranks.parts import RankLayout, RankPart
from clhines.simulator.ranks.run import RankedRun, SharedRun
from clhines.simulator.state.decisions import MAX_EPOCH, Decisions, epoch_steps
from clhines.solver.device import devices
from clhines.solver.plan.methods import METHODS
from clhines.solver.solver import Solver

_log = logging.getLogger(__name__)
_NOT_SPLIT = {  # needs that ranks cannot split, and the refusals
    "bins": "network.ranks-bins",
    "written_pointers": "network.ranks-written-pointers",
    "read_pointers": "network.ranks-read-pointers",
    "last_instances": "network.ranks-last-instances",
}


def check_options(options: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise InputError unless all `options` are names of `Solver` options.

    The message suggests a similar name, also from `parameters`, those of `Simulation`.
    """
    solver = [name for name in signature(Solver).parameters if name not in ("forest", "options")]
    solver_options = {*solver, *(name for row in METHODS.values() for name in row.options)}
    expected = [name for name in parameters if name not in ("self", "options")]
    for name in options:
        if name not in solver_options:
            near = meant(name, [*expected, *sorted(solver_options)])
            raise InputError(
                f"Simulation has no option {shown(name)}; expected {', '.join(expected)}, or "
                f"an option of a Solver{near}"
            )


@dataclass(frozen=True)
class EngineRun:
    run: Run
    engine: str
    chunk: int


def engines_for(needs: frozenset[str], name: str, device: str) -> list[Engine]:
    """Return engines by this name that support `needs` on a device, in the order to try them.

    `device` is ``gpu``, ``cpu`` or ``host``. InputError if there is none.
    """
    engines = [e for e in ENGINES if e.name == name]
    if name in ("auto", FAMILY):
        engines = [e for e in ENGINES if e.on == device or (not e.on and name == "auto")]
    fitting = [e for e in engines if e.supports(needs) and e.runs_on(device)]
    if not fitting:
        raise InputError(_why_no_engine(engines, needs, name, device))
    return fitting


def _why_no_engine(engines: Sequence[Engine], needs: frozenset[str], name: str, device: str) -> str:
    """Return the message that `engines` lack some `needs`; it names engines that support all."""
    others = [repr(e.name) for e in ENGINES if e.supports(needs) and e.runs_on(device)]
    expected = listed(others or ["a network without"])
    lacking = min((needs & e.lacks for e in engines), key=len) if needs <= ALL else needs - ALL
    if not lacking:
        return f"engine={name!r} is for {engines[0].on.upper()}s; expected {expected}"
    if lacking & EXACT > {"exact_times"}:
        lacking -= {"exact_times"}  # implied by the others
    got = f"engine={name!r} takes no" if others else "no engine takes"
    return f"{got} {phrases(lacking)}; expected {expected}"


def described() -> list[tuple[str, str, str, str, str]]:
    """Return five texts for each engine: name, devices, description, missing needs, limits."""
    rows = []
    for e in ENGINES:
        on = {"": "all", "host": "host"}.get(e.on) or f"{e.on.upper()}s"
        rows.append((e.name, on, e.about, phrases(e.lacks, "and") if e.lacks else "", e.limits))
    return rows


def make_run(ranks: Ranks, model: Model, request: Request, overlap: bool) -> EngineRun:
    with ranks.agreed():
        by_name, decisions = request.engine != "auto", None
        part, shares = model, list[Share]()
        if ranks.size > 1:
            bounds = split(cell_costs(model), ranks.size).tolist()
            shares = [Share(model, first, end) for first, end in pairwise(bounds)]
        engines = _engines(shares, model, request)
        if shares:
            decisions = Decisions.of(model, split=True, overlap=overlap)
            part = shares[ranks.rank].model()
        if model.has_sums:  # chunks are whole epochs
            epoch = epoch_steps(model, overlap)
            request = replace(request, chunk=max(epoch, request.chunk // epoch * epoch))
        job = Job(part, request, decisions, by_name)
        with naming_memory(request.what, request.chunk):
            run, engine = _first(engines, job)
    if decisions is None:
        return EngineRun(run, engine, request.chunk)
    run, engine = _of_all(ranks, job, run, engine)
    with ranks.agreed():
        exchange = exchange_of(ErrorGuard(ranks, run), shares, decisions)
    return EngineRun(SharedRun(exchange, shares), engine, request.chunk)


def _of_all(ranks: Ranks, job: Job, run: Run, engine: str) -> tuple[PartRun, str]:
    """Return this rank's run and its engine's name: all ranks use ``steps`` if one must."""
    by_steps = ranks.gather_numbers([engine == "steps"])[:, 0]
    with ranks.agreed():
        if by_steps.any() and engine.startswith(FAMILY):
            _log.info("engine steps (a cell of another rank is too large for epochs)")
            engine, run = "steps", make_steps(job)
    return cast("PartRun", run), engine


def check_split(needs: frozenset[str]) -> None:
    """Refuse to divide a network among ranks if its cells interact within a step."""
    for word, name in _NOT_SPLIT.items():
        if word in needs:
            raise refused(name)


def _engines(shares: Sequence[Share], model: Model, request: Request) -> list[Engine]:
    """Return the engines to try for a model, in order; none if the user passed a function."""
    needs, device = model.needs, "host"
    if not isinstance(request.method, str) or request.method != "auto" or request.options:
        needs |= {"solver"}
    if shares:
        check_split(needs)
        needs |= {"ranks"}
    if any(len(share.remote) for share in shares):
        needs |= {"ranked_pointers"}
    if not isinstance(request.engine, str):
        return []
    if request.queue is not None:
        device = "cpu" if devices.is_cpu(request.queue.device) else "gpu"
    return engines_for(needs, request.engine, device)


def _first(engines: Sequence[Engine], job: Job) -> tuple[Run, str]:
    refusals = list[str]()
    for engine in engines:
        phase(f"planning for engine {engine.name}")
        try:
            module, name = engine.make.split(":")
            run = getattr(import_module(f"clhines.simulator.{module}"), name)(job)
        except InputError as error:
            if engine is engines[-1]:
                raise
            refusals.append(f"{engine.name}: {error}")
            continue
        why = "; ".join(refusals) or ("as given" if job.requested else engine.about)
        _log.info("engine %s (%s)", engine.name, why)
        return run, engine.name
    return job.of_function(), "custom"


def make_joined(job: Job, engine: str, joints: Joints, is_shared: bool = False) -> Run:
    """Make the run on a rank whose network exchanges events with the other ranks' networks.

    `joints` says how the networks are connected. `is_shared`: this machine's ranks share one
    device; a GPU then simulates all their cells in one run.
    """
    needs = job.model.needs
    joints.ranks.agree(None)  # if a rank has failed before, all learn it here
    on_gpu = not devices.is_cpu(job.queue.device)
    wanted = on_gpu if OneDeviceRun.wanted is None else OneDeviceRun.wanted
    is_shared &= wanted and joints.ranks.local_size == joints.ranks.size
    if joints.ranks.all(is_shared):
        one = _on_one_device(job, engine, joints)
        if one is not None:
            return one
    if joints.ranks.gather_numbers([len(job.model.remote_v)]).any():
        needs |= {"ranked_pointers"}
    device = "cpu" if devices.is_cpu(job.queue.device) else "gpu"
    with joints.agreed():
        n = job.model.forest.num_nodes
        check_pointers(job.model, [p for p, to in job.model.pointers.items() if (to >= n).any()])
        request = replace(job.request, engine=engine)
        part_job = replace(job, request=request, requested=engine != "auto")
        run, _ = _first(engines_for(needs, engine, device), part_job)
    return RankedRun(JoinedExchange(cast("PartRun", run), joints, job.model))


_Described = tuple[str, list[np.ndarray], Ends, np.ndarray, RankLayout]


def _on_one_device(job: Job, engine: str, joints: Joints) -> OneDeviceRun | None:
    """Make a run of all ranks' networks on rank 0's device; None if that is not supported."""
    ranks, model, reason = joints.ranks, job.model, ""
    outbox = Outbox(joints, model)
    with joints.agreed():
        agreed_epoch(joints, model, MAX_EPOCH, outbox.is_loose, during=False)
    try:
        if joints.in_steps and outbox.is_loose:
            raise InputError("pc.spike_compress rounds times of events between ranks")
        network = cast("Network", job.request.what)
        text, arrays = packed(network, network.celsius)
        part: _Described | None = text, arrays, joints.ends, model.v_init, RankLayout.of(model)
    except InputError as error:
        part, reason = None, str(error)
    whole, parts = None, ranks.comm.gather(part)
    with joints.agreed():
        try:
            if parts is not None and all(parts):
                whole = _whole_run(job, engine, parts)
        except (InputError, DeviceMemoryError) as error:
            reason = str(error)
    reasons = [line for line in ranks.gather(reason) if line]
    if reasons:
        _log.info("each rank has a run of its own: %s", reasons[0])
        return None
    return OneDeviceRun(joints, model, job.request.dtype, job.queue.device, whole)


def _whole_run(job: Job, engine: str, parts: Sequence[_Described]) -> WholeRun:
    networks = [unpacked(text, arrays, Network) for text, arrays, *_ in parts]
    network, numbers = join_networks(networks, [ends for _, _, ends, *_ in parts])
    model = job.model
    order = 2 if model.second_order_currents else int(model.secondorder)
    v_init = np.concatenate([v for *_, v, _ in parts])
    compiled = compile(network, model.dt, v_init, order, model.seed)
    request = replace(job.request, what=network, engine=engine)
    made = make_run(ONE_PROCESS, compiled, request, overlap=False)
    layouts = [layout for *_, layout in parts]
    pairs = zip(numbers, layouts, strict=True)
    return WholeRun(made.run, compiled, [RankPart(compiled, *pair) for pair in pairs])


def make_steps(job: Job) -> ArenaRun:
    return ArenaRun(job, Steps)


def make_reference(job: Job) -> Reference:
    return Reference(job.model, decisions=job.decisions)


def by_steps(request: Request, engine: str, error: Exception) -> Request:
    """Return the request for engine steps; DeviceError if the user named the engine that failed."""
    assert request.queue is not None  # all engines in `FAMILY` have one
    reason = str(error).splitlines()[0]
    if isinstance(error, BuildError):  # its text shows the source
        reason = "its kernel does not build"
        _log.debug("%s", error)
    what = f"engine={engine!r} does not run on {devices.label(request.queue.device)}: {reason}"
    if request.engine != "auto":
        raise DeviceError(f"{what}; expected engine='steps'") from error
    warn_caller(f"{what}; the simulation goes on with engine='steps'", UserWarning)
    return replace(request, engine="steps")
