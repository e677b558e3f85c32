"""Engines by name, and engines that users register."""

import numpy as np
import pytest
from small_networks import DT, with_ions, with_synapse

from clhines import Simulation
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.engines.reference import Reference
from clhines.simulator.engines.steps import Steps
from clhines.simulator.engines.table import CHOICES, ENGINES, NAMES
from clhines.simulator.model import compile
from clhines.solver.device import devices


@pytest.mark.parametrize("build", [with_synapse, with_ions])
def test_a_name_gives_the_same_engine_again(fast_queue, needs, build):
    needs(fast_queue, "float64")
    words, seen = compile(build(), DT).needs, set()
    on = "cpu" if devices.is_cpu(fast_queue.device) else "gpu"
    names = ["auto", "epochs", *(e.name for e in ENGINES if e.supports(words) and e.runs_on(on))]
    for engine in names:
        sim = Simulation(build(), DT, queue=fast_queue, engine=engine)
        again = Simulation(build(), DT, queue=fast_queue, engine=sim.engine)
        assert sim.engine in NAMES and sim.engine == (
            again.engine if engine in CHOICES[:2] else engine
        )
        made, result = (
            {type(getattr(s.runner, part, None)) for part in ("cells", "kernels")}
            for s in (sim, again)
        )
        assert result == made
        seen.add(frozenset(made))
    assert len(seen) == len(names) - 2


def test_engines_of_a_users_own(double_queue):
    """A user's engine is a function that receives the job of any network and returns a `Run`."""

    def steps(job):
        return ArenaRun(job, Steps)

    def host(job):
        return Reference(job.model)

    for build in (with_synapse, with_ions):
        sims = [Simulation(build(), DT, queue=double_queue, engine="steps")]
        sims += [Simulation(build(), DT, queue=double_queue, engine=make) for make in (steps, host)]
        results = []
        for sim in sims:
            number = sim.record("v", [0, 1])
            sim.run(1.0)
            sim.reset()
            results.append(sim.run(2.0)[number])
            assert (sim.engine == "custom") == (sim is not sims[0]) and sim.device_label
        for values in results[1:]:
            np.testing.assert_allclose(values, results[0], 0, 1e-9)
