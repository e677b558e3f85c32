"""Self-tests of engines: small networks whose voltages the host computes, too.

`solver.device.trust` runs them on a new device.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from clhines.solver.device import devices, trust

if TYPE_CHECKING:
    from clhines.simulator.mechanisms.mechanism import Mechanism
    from clhines.simulator.network.network import Network

CELLS = 17  # more than fit into any vector
STEPS = 30
ROUNDINGS = 64  # most per step for a voltage: a solve with 12 nodes, two currents, an exponential
_DT = 0.025  # ms
_CHANNEL = """
    density known
    parameter g = 0.001
    state m = 0.1
    dm/dt = (1/(1 + exp(-(v + 40)/5)) - m)/2
    current i = g*m*(v + 70)
"""
_NMODL = """
    NEURON { SUFFIX known  NONSPECIFIC_CURRENT i  RANGE g }
    PARAMETER { g = 0.001 }
    ASSIGNED { v  i }
    STATE { m }
    INITIAL { m = 0.1 }
    BREAKPOINT { SOLVE states METHOD cnexp  i = g*m*(v + 70) }
    DERIVATIVE states { m' = (1/(1 + exp(-(v + 40)/5)) - m)/2 }
"""


def epochs(queue: cl.CommandQueue, dtype: np.dtype) -> str:
    """Test engine ``epochs-gpu``; return the problem, or ''.

    Devices without float64 are tested without the mechanism in NMODL.
    """
    texts = [_CHANNEL, _NMODL] if devices.has_fp64(queue.device) else [_CHANNEL]
    return _network("epochs-gpu", texts, queue, dtype)


def blocks(queue: cl.CommandQueue, dtype: np.dtype) -> str:
    """Test engine ``epochs-cpu`` if its vectors compute right; return the problem, or ''."""
    if not trust.is_right(queue.device, "blocks", dtype):
        return ""
    texts = [_CHANNEL, _NMODL] if devices.has_fp64(queue.device) else [_CHANNEL]
    return _network("epochs-cpu", texts, queue, dtype)


def _network(engine: str, texts: Sequence[str], queue: cl.CommandQueue, dtype: np.dtype) -> str:
    """Compare an engine's voltages with the host's; return the problem, or ''.

    `texts` are mechanisms in cells that excite each other, chosen so that rounding errors decay.
    """
    from clhines.simulator.mechanisms.mechanism import Mechanism
    from clhines.simulator.simulation import Simulation

    method = "flat" if engine == "steps" else "auto"  # compiles fast; other problems test methods
    for text in texts:
        mechanism = Mechanism.from_nmodl(text) if text is _NMODL else Mechanism(text)
        expected = Simulation(_cells(mechanism), _DT, engine="reference")
        expected.run(STEPS * _DT)
        run = Simulation(_cells(mechanism), _DT, dtype, queue=queue, engine=engine, method=method)
        run.run(STEPS * _DT)
        roundings = STEPS * ROUNDINGS
        problem = trust.compared(run.engine, run.voltages(), expected.voltages(), roundings)
        if problem:
            return problem
    return ""


def _cells(mechanism: Mechanism) -> Network:
    from clhines.simulator.cells.cable import discretise
    from clhines.simulator.cells.morphology import Morphology
    from clhines.simulator.network.network import Network

    parent, ends = np.array([-1, 0, 1, 2, 2, 3, 4, 4]), [0, 6, 206, 280, 290, 300, 310, 312]
    aside = [0, 0, 0, 70, -60, 80, -65, -50]  # µm, like the ends: a soma, a stem and its branches
    radius, number = np.array([6.3, 1, 0.75, 0.5, 0.5, 0.25, 0.25, 0.25]), np.arange(8)
    place = np.array([ends, aside, [0] * 8], float).T
    cell = Morphology(parent, place, radius, np.where(number, 3, 1), number + 1, 0 * number)
    net = Network([discretise(cell, max_length=90.0)], CELLS)
    net.insert(mechanism, "soma")
    synapses = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    each = np.arange(CELLS)
    net.add_event(synapses, each, 0.025 * (each % 4), 0.02)
    net.connect(each, synapses, (each + 1) % CELLS, np.full(CELLS, 0.02), np.full(CELLS, 0.25))
    net.threshold = -50.0
    return net


# channels from a text and from NMODL; on CPUs in vectors
PROBLEMS: dict[str, trust.Problem] = {
    "steps": partial(_network, "steps", [_CHANNEL, _NMODL]),
    "epochs": epochs,
    "blocks": blocks,
}


def main() -> None:
    """Test the default device, and store the result for other processes."""
    from clhines.core.errors import ClhinesError
    from clhines.solver.device import devices

    import_module("clhines.simulator.engines.run")  # registers the families
    with suppress(ClhinesError):  # other processes meet it themselves
        device = devices.choose()
        trust.is_right(device, "blocks" if devices.is_cpu(device) else "epochs", np.float64)
