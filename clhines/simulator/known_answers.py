"""Small problems with known answers, one for each family of kernels; see `solver.device.trust`.

``main`` runs in a process of its own, which `trust` starts and limits in time: it prints
``started`` once the device is open, and then one line that says how the problem ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from clhines.solver import reference
from clhines.solver.device import devices, trust
from clhines.solver.forest import Forest

if TYPE_CHECKING:
    from clhines.simulator.mechanisms.mechanism import Mechanism
    from clhines.simulator.network.network import Network

CELLS = 17  # more than fit into any vector
STEPS = 30
ROUNDINGS = 64  # of a voltage in a step, at most: a solve of 12 nodes, two currents, an exponential
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


def solve(queue: cl.CommandQueue, dtype: np.dtype) -> str:
    """Solve cells of 40 nodes in vectors of cells, and in vectors of branches.

    Rows are dominant by 2 at least of 4, so that the condition is at most 3, and the elimination
    makes fewer than 20 roundings of any entry.
    """
    from clhines.solver.solver import Solver

    forest = Forest.from_parents([np.array([-1, *(k // 2 for k in range(39))])] * CELLS)
    n = forest.num_nodes
    children = np.bincount(forest.parent[forest.parent >= 0], minlength=n)
    d, u, b = 3.0 + children, np.full(n, -1.0), np.cos(np.arange(n))
    expected = reference.solve_serial(forest, d, u, b)
    for method in ("block_interleaved", "fine"):
        found = Solver(forest, method, dtype, queue=queue).solve(d.astype(dtype), u.astype(dtype),
                                                                 b.astype(dtype))  # fmt: skip
        problem = _compared(method, found, expected, 64)
        if problem:
            return problem
    return ""


def blocks(queue: cl.CommandQueue, dtype: np.dtype) -> str:
    """Advance cells with a channel from NMODL by blocks, on CPUs; not in scalars."""
    if not trust.is_right(queue.device, "blocks", dtype):
        return ""
    return _network("epochs-cpu", [_NMODL], queue, dtype)


def _compared(what: str, found: np.ndarray, expected: np.ndarray, roundings: float) -> str:
    """Say how far numbers are from their reference, where that is too far; else nothing."""
    largest = float(np.abs(expected).max())
    difference = float(np.abs(found - expected).max()) / largest
    limit = roundings * float(np.finfo(found.dtype).eps)
    if difference <= limit:  # False for NaN
        return ""
    return f"{what} differs by {difference:.1e} from the reference; expected at most {limit:.1e}"


def _network(engine: str, texts: Sequence[str], queue: cl.CommandQueue, dtype: np.dtype) -> str:
    """Compare voltages of cells that excite each other with the host's; errors are damped."""
    from clhines.simulator.mechanisms.mechanism import Mechanism
    from clhines.simulator.simulation import Simulation

    method = "flat" if engine == "steps" else "auto"  # soon compiled; `solve` is about others
    for text in texts:
        made = Mechanism.from_nmodl(text) if text is _NMODL else Mechanism(text)
        known = Simulation(_cells(made), _DT, engine="reference")
        known.run(STEPS * _DT)
        run = Simulation(_cells(made), _DT, dtype, queue=queue, engine=engine, method=method)
        run.run(STEPS * _DT)
        roundings = STEPS * ROUNDINGS
        problem = _compared(run.engine, run.voltages(), known.voltages(), roundings)
        if problem:
            return problem
    return ""


def _cells(made: Mechanism) -> Network:
    """Return a ring of cells with a channel and a synapse each, all of which get an event."""
    from clhines.simulator.cells.cable import discretise
    from clhines.simulator.cells.synthetic import ring_cell
    from clhines.simulator.network.network import Network

    net = Network([discretise(ring_cell(3, 0.6, 3, seed=1), max_length=90.0)], CELLS)
    net.insert(made, "soma")
    synapses = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    each = np.arange(CELLS)
    net.add_event(synapses, each, 0.025 * (each % 4), 0.02)
    net.connect(each, synapses, (each + 1) % CELLS, np.full(CELLS, 0.02), np.full(CELLS, 0.25))
    net.threshold = -50.0
    return net


# advance cells with a channel from a text, or from NMODL; on CPUs in vectors
PROBLEMS: dict[str, Callable[[cl.CommandQueue, np.dtype], str]] = {
    "solve": solve,
    "steps": partial(_network, "steps", [_CHANNEL, _NMODL]),
    "epochs": partial(_network, "epochs", [_CHANNEL]),
    "blocks": blocks,
    "lists": partial(_network, "epochs-gpu", [_NMODL]),
}


def main(arguments: Sequence[str]) -> None:
    """Work on one problem: index of the device, family, dtype, bytes of vectors, seconds."""
    index, family, dtype, width, seconds = arguments
    queue = devices.make_queue(dict(devices.all_devices())[index])
    trust.limit_process(int(seconds), devices.is_cpu(queue.device))
    trust.say("started")
    trust.force(int(width))
    try:
        answers = (PROBLEMS[name](queue, np.dtype(dtype)) for name in family.split("+"))
        said = next((answer for answer in answers if answer), "")
    except (MemoryError, cl.MemoryError):
        trust.say("unsure")
        return
    except Exception as error:  # whatever a wrong compiler leads to
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    trust.say(f"wrong: {said}" if said else "right")


if __name__ == "__main__":
    main(sys.argv[1:])
