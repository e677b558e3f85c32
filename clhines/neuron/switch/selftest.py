"""Self-test of the switch's hooks, in a process that `versions` starts.

It touches the parts of NEURON's private memory that the switch needs before it decides a call. Each
hooked function must reach the switch, and NEURON's results must stay the same while NEURON takes
all calls, and after the switch is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.versions import report
from clhines.neuron.switch.enabled import enable, skipping

STOP = 1.0  # ms


def main() -> None:
    """Test the hooks, and print the first fault, if any."""
    report(wrong_calls)


def wrong_calls() -> str:
    """Describe the first hooked call that misbehaves; empty if there is none."""
    from neuron import h

    h.load_file("stdrun.hoc")
    section = h.Section(name="a")
    section.insert("hh")
    record = h.Vector().record(section(0.5)._ref_v)
    for name, call in _calls(h):

        def values(call: Callable[[], object] = call) -> np.ndarray:
            h.finitialize(-50)
            call()
            return np.append(np.array(record), h.t)

        expected = values()
        with enable(when="never"):
            ours = values()
        after = values()
        with skipping() as switch:
            skipped = values()
        if not switch.skipped or len(skipped) >= len(expected):
            return f"{name} does not reach the switch"
        if not np.array_equal(expected, ours) or not np.array_equal(expected, after):
            return f"{name} has other values"
    return ""


def _calls(h: Hoc) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name of each call that the switch replaces, and a function that makes the call."""
    context, cvode = h.ParallelContext(), h.CVode()
    context.set_maxstep(10)

    def solve() -> None:
        cvode.active(1)
        h.finitialize(-50)
        cvode.solve(STOP)
        cvode.active(0)

    yield "continuerun", lambda: h.continuerun(STOP)
    yield "continuerun in hoc", lambda: h(f"continuerun({STOP})")
    yield "psolve", lambda: context.psolve(STOP)
    yield "batch_run", lambda: h.batch_run(STOP, STOP)
    yield "CVode.solve", solve
    yield "fadvance", lambda: [h.fadvance() for _ in range(int(STOP / h.dt))]
