"""Self-test of the switch's hooks, in a process of its own, which `versions` starts.

It touches those parts of NEURON's private memory that the switch needs before it knows who takes a
call: each hooked function has to reach the switch, and NEURON has to give the same values as
before while NEURON takes all calls, and after the switch is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.versions import report
from clhines.neuron.switch.enabled import enable, skipping

STOP = 1.0  # ms


def main() -> None:
    """Print what is wrong, or nothing."""
    report(wrong_calls)


def wrong_calls() -> str:
    """Return which call of NEURON is not as it should be; empty if all are."""
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
    """Yield each hooked call, by Python and by hoc."""
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
