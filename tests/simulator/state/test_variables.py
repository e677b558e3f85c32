"""Values that INITIAL sets in instances with different parameters."""

import numpy as np
import pytest

from clhines import Mechanism, Network, Simulation

PROBE = """
NEURON { SUFFIX probe RANGE gain, scaled, shifted NONSPECIFIC_CURRENT i }
PARAMETER { gain = 1 }
ASSIGNED { v (mV) i (mA/cm2) scaled shifted }
STATE { m }
INITIAL { scaled = gain*2 shift(gain) m = 0.5 }
BREAKPOINT { SOLVE s METHOD cnexp i = 1e-5*m*(v+65) }
DERIVATIVE s { m' = -m*0.1 }
PROCEDURE shift(x) { shifted = x + 1 }
"""


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs-cpu", "epochs-gpu"])
def test_recorded_outputs_of_initial_are_those_of_each_instance(fast_queue, engine):
    """States are equal in all instances; `scaled` and `shifted` read a parameter that differs."""
    net = Network.from_arrays([-1] * 4, range(5), [100.0] * 4, [0.0] * 4, [1e-3] * 4)
    group = net.insert(Mechanism.from_nmodl(PROBE), gain=np.arange(1.0, 5.0))
    sim = Simulation(net, queue=fast_queue, engine=engine)
    numbers = [sim.record(name, group) for name in ("scaled", "shifted", "m")]
    for gain in np.arange(1.0, 5.0), np.array([3.0, 8.0, 8.0, -1.0]):
        sim.set(group, gain=gain)
        sim.reset()
        result = sim.run(0.05)
        scaled, shifted, m = (result[number] for number in numbers)
        assert (scaled == 2 * gain).all() and (shifted == gain + 1).all()
        assert (m[-1] == m[-1, 0]).all()
