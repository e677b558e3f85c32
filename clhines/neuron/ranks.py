"""NEURON's MPI ranks: each imports and advances its own cells, and hears of others by gids."""

from __future__ import annotations

from functools import partial

import numpy as np

from clhines.checks import as_choice
from clhines.errors import InputError
from clhines.neuron.importer import Imported
from clhines.neuron.kept import Kept, Request
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.patterns import OF_GID
from clhines.neuron.read.wiring import on_ranks
from clhines.simulate.engines.choose import make_joined
from clhines.simulate.engines.table import CHOICES
from clhines.simulate.ranks.joined import Joints
from clhines.simulate.ranks.mpi import Ranks, own_queue, world


def ranks_of(h: Hoc) -> Ranks | None:
    if not on_ranks(h):
        return None
    comm, size = world(), int(h.ParallelContext().nhost())
    if comm.size != size:
        raise InputError(
            f"mpi4py has {comm.size} ranks, NEURON {size}: they have loaded two MPI libraries, or "
            "there are subworlds; expected MPI_LIB_NRN_PATH to be that of mpi4py, and all ranks"
        )
    return Ranks(comm)


def same_on(ranks: Ranks | None, steps: int, h: Hoc) -> int:
    """Return a number of steps, which must be the same on all ranks, as must NEURON's clock."""
    if ranks is not None:
        ranks.same({"steps": steps, "h.t": float(h.t), "h.dt": float(h.dt)})
    return steps


def kept_by_all(ranks: Ranks | None, kept: Kept | None) -> Kept | None:
    """Return a model that is kept, where all ranks have theirs, and it gets the same voltages."""
    if _by_all(ranks, kept is not None) and kept is not None:
        gaps = kept.model.memory.transfers
        same = not gaps or kept.model.read_gaps() == (kept.model.gaps, [])
        if not gaps or _by_all(ranks, same):
            return kept
    if kept is not None:
        kept.model.forget()
    return None


def _by_all(ranks: Ranks | None, holds: bool) -> bool:
    """Whether something holds on all ranks."""
    return holds if ranks is None else bool(ranks.gather_numbers([holds]).all())


def together(ranks: Ranks | None, kept: Kept, steps: int) -> int:
    """Return the steps that all ranks take, of `steps` of this one; all go on, or start anew."""
    if ranks is None:
        return steps
    t, dt = float(kept.model.h.t), float(kept.model.h.dt)
    found = ranks.gather_numbers([steps, kept.lag, abs(t) > 0.5 * dt])
    differ = bool(np.ptp(found[:, 1]))
    if found[:, 2].any() and (differ or kept.lag < 0):
        raise InputError(
            f"several MPI ranks go on at {t:g} ms after steps of NEURON's own, or after changes; "
            "expected h.finitialize() before"
        )
    if differ:
        kept.sim = None
    return int(found[:, 0].min())


def joints_of(ranks: Ranks | None, kept: Kept) -> Joints | None:
    """Return what joins a model to those of other ranks, anew where it has no simulation."""
    return kept.joints if ranks is None or kept.sim is not None else Joints(ranks)


def joined(joints: Joints | None, once: Imported, request: Request) -> dict[str, object]:
    """Return the arguments of `Simulation` that depend on whether a network is joined to others."""
    if joints is None:
        return {"device": request.device, "engine": request.engine}
    number, origins = once.numbers(), once.model.wires.origins
    gid = np.array([origin.gid for origin in origins], np.int64)
    heard = np.array([o.sender is not None and o.sender[0] == OF_GID for o in origins], bool)
    sent = np.array([o.is_sent for o in origins], bool) & (gid >= 0) & ~heard
    joints.join(number[sent], gid[sent], number[heard], gid[heard])
    joints.point(once.model.nodes, once.model.remote)
    engine = as_choice("engine", request.engine, CHOICES)
    queue = own_queue(joints.ranks, request.device, request.dtype)
    return {"queue": queue, "engine": partial(make_joined, engine=engine, joints=joints)}
