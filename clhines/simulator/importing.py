"""Functions that an importer needs besides `Simulation` and `Result`.

An importer reads a model from another simulator's memory, describes it as a `network`, and makes a
`Simulation`. The run begins with the other simulator's values and returns its own:

- `state_follows`: make or reset a simulation whose first state will be loaded at once.
- `Model`: the arrays of a network, for annotations.
- `INITIAL_CONCENTRATION`: the bit of an ion's style by which NEURON sets its concentrations.
- `rings_of`, `check_rings`, `SPIKE_LATE`: events that sources have sent and targets not received.
- `begins_of`: times at which steps begin.
- `refusal_flags`, `check_unless`: conditions under which a mechanism is not supported.
- `joined_options`: arguments of `Simulation` for a rank with its own part of a network.
- `load_compiler`: load PoCL's compiler while a model is read.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.arrays import starts
from clhines.core.checks import as_choice
from clhines.simulator.choose import make_joined
from clhines.simulator.device.compiler import load_compiler
from clhines.simulator.engines.arena_run import state_follows
from clhines.simulator.engines.reference import check_unless, refusal_flags
from clhines.simulator.engines.table import CHOICES
from clhines.simulator.events.exact import check_rings
from clhines.simulator.model.model import INITIAL_CONCENTRATION, Model
from clhines.simulator.network.times import SPIKE_LATE, begins_of
from clhines.simulator.ranks.joints import Joints
from clhines.simulator.ranks.mpi import devices_to_share, own_queue
from clhines.simulator.state.sources import ring_sizes

__all__ = [
    "CHOICES",
    "INITIAL_CONCENTRATION",
    "SPIKE_LATE",
    "Model",
    "begins_of",
    "check_rings",
    "check_unless",
    "joined_options",
    "load_compiler",
    "refusal_flags",
    "rings_of",
    "state_follows",
]


def rings_of(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return where each source's ring buffer begins in a state, and its size, (sources,) int64."""
    size = ring_sizes(model)
    return starts(size), size


def joined_options(
    joints: Joints, device: object, dtype: DTypeLike, engine: str
) -> dict[str, object]:
    """Return the `Simulation` arguments for a network with connections from other ranks."""
    is_shared = len(devices_to_share(device, dtype)) == 1
    chosen = as_choice("engine", engine, CHOICES)
    made_by = partial(make_joined, engine=chosen, joints=joints, is_shared=is_shared)
    return {"queue": own_queue(joints.ranks, device, dtype), "engine": made_by}
