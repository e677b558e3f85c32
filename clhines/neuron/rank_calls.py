"""Agree with NEURON's other MPI ranks before a run, and join the ranks' networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clhines.core.errors import InputError
from clhines.neuron.calls import RunOptions
from clhines.neuron.importer import NeuronNetwork
from clhines.neuron.kept import KeptModel
from clhines.neuron.memory.objects import on_ranks
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.patterns import OF_GID
from clhines.simulator.importing import joined_options
from clhines.simulator.ranks import ONE_PROCESS, Joints, Ranks, world


def ranks_of(h: Hoc, call: str = "clhines.neuron.run()") -> Ranks:
    """Return NEURON's MPI ranks if they exchange events or voltages, else this process alone."""
    if not on_ranks(h):
        return ONE_PROCESS
    comm, size = world(), int(h.ParallelContext().nhost())
    if comm.size != size:
        raise InputError(
            f"mpi4py has {comm.size} ranks, NEURON {size}: they have loaded two MPI libraries, or "
            "there are subworlds; expected MPI_LIB_NRN_PATH to name mpi4py's, and all ranks"
        )
    return Ranks(comm, call)


def same_on(ranks: Ranks, count: Callable[[], int], h: Hoc) -> int:
    """Return `count()`; InputError if this number or NEURON's clock differs between ranks."""
    with ranks.agreed():
        steps = count()
    ranks.same(lambda: {"steps": steps, "h.t": float(h.t), "h.dt": float(h.dt)})
    return steps


def kept_by_all(ranks: Ranks, kept: KeptModel | None) -> KeptModel | None:
    """Return the last call's model `kept` if it is unchanged on all ranks, otherwise None."""
    if ranks.all(kept is not None) and kept is not None:
        gaps = kept.model.memory.transfers
        same = not gaps or kept.model.read_gaps() == (kept.model.gaps, [])
        if not gaps or ranks.all(same):
            return kept
    if kept is not None:
        kept.model.forget()
    return None


def together(ranks: Ranks, kept: KeptModel, steps: int) -> int:
    """Return the minimum of `steps` over all ranks: the steps that every rank takes.

    Afterwards either all ranks continue their simulations, or all ranks start new ones.
    """
    if ranks.size == 1:
        return steps
    t, dt = float(kept.model.h.t), float(kept.model.h.dt)
    numbers = ranks.gather_numbers([steps, kept.lag, abs(t) > 0.5 * dt])
    differ = bool(np.ptp(numbers[:, 1]))
    if numbers[:, 2].any() and (differ or kept.lag < 0):
        raise InputError(
            f"several MPI ranks go on at {t:g} ms after steps by NEURON, after changes, or with no "
            "sections on a rank; expected h.finitialize() before"
        )
    if differ:
        kept.drop_run()
    return int(numbers[:, 0].min())


def joined(joints: Joints, once: NeuronNetwork, request: RunOptions) -> dict[str, object]:
    """Connect this rank's network `once` to other ranks'; return arguments of `Simulation`."""
    if joints.ranks.size == 1:
        return {"device": request.device, "engine": request.engine}
    source_number, origins = once.numbers, once.model.wires.origins
    gid = np.array([origin.gid for origin in origins], np.int64)
    receives = np.array([o.sender is not None and o.sender[0] == OF_GID for o in origins], bool)
    sends = np.array([o.is_sent for o in origins], bool) & (gid >= 0) & ~receives
    joints.join(source_number[sends], gid[sends], source_number[receives], gid[receives])
    joints.point(once.model.nodes, once.model.remote)
    joints.in_steps = once.model.h.ParallelContext().spike_compress() > 0
    return joined_options(joints, request.device, request.dtype, request.engine)
