"""A draw from NEURON's global generator is supported if parameters switch it off."""

import mod_files
import numpy as np
import pytest

from clhines import InputError, Mechanism, Network, Simulation
from clhines.simulator.engines.table import NAMES

ALWAYS = """
NEURON { POINT_PROCESS always  NONSPECIFIC_CURRENT i }
PARAMETER { tau = 2 }
ASSIGNED { v i x }
BREAKPOINT {
    SOLVE often
    i = -0.01*x
}
PROCEDURE often() {
    if (tau == 0) { x = normrand(0, 1) } else { x = draw() }
}
FUNCTION draw() { if (tau != 0) { draw = exprand(1) } }
"""


def network(noise):
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
    net.insert("hh", [0])
    source = net.add_artificial(
        mod_files.ours("nmodl/nmnoise"), 2, interval=[1.3, 1.7], noise=noise
    )
    synapses = net.add("expsyn", at=[1, 1])
    net.connect(source, synapses, index=[0, 1], source_index=[0, 1], weight=0.01, delay=1.0)
    return net, source


@pytest.mark.parametrize("engine", NAMES)
def test_no_draws_run(engine):
    net, source = network(0.0)
    sim = Simulation(net, dt=0.05, engine=engine)
    result = sim.run(6)
    first = int(result.spike_cell.max()) - 1
    for k, interval in enumerate((1.3, 1.7)):
        times = result.spike_time[result.spike_cell == first + k]
        expected = np.arange(0.5, 6, interval)
        assert len(times) == len(expected) and np.abs(times - expected).max() < 0.05  # a step
    with pytest.raises(InputError, match="noise is what decides whether it can be simulated"):
        sim.set(source, noise=0.5)


def test_draws_are_refused_by_name():
    net, _ = network([0.0, 0.4])
    with pytest.raises(InputError, match=r"exprand.*noise = 0.4, as of instance 1"):
        Simulation(net, dt=0.05, engine="reference").run(1)
    net, source = network(0.0)
    source.parameters["told"] = 1.0
    with pytest.raises(InputError, match=r"VERBATIM \(line 26\).*told = 1"):
        Simulation(net, dt=0.05, engine="reference").run(1)


@pytest.mark.parametrize("engine", NAMES)
def test_draws_that_no_parameter_rules_out_are_of_one_instance(engine):
    mechanism = Mechanism.from_nmodl(ALWAYS)
    nets = [Network.from_arrays([-1], [0, 1], [300.0], [0.0], [0.005]) for _ in range(2)]
    for count, net in enumerate(nets, 1):
        net.add(mechanism, at=[0] * count)
    state, expected = 1, [-65.0]
    for _ in range(60):
        state = (state * 2147437301 + 453816981) % 2**32
        expected.append(expected[-1] - 0.05 / 0.005 * 0.01 * np.log(state / (2**32 - 1)))
    sim = Simulation(nets[0], dt=0.05, engine=engine)
    k = sim.record("v", [0])
    result = sim.run(3)[k][:, 0]
    np.testing.assert_allclose(result[1:], expected[:-1], rtol=1e-9)
    with pytest.raises(InputError, match="2 of always: instances that take numbers of NEURON's"):
        Simulation(nets[1], dt=0.05, engine="reference")


def test_not_even_a_value_of_a_draw():
    """Functions that a caller uses by hand return no number for a draw."""
    m = mod_files.ours("nmodl/nmnoise")
    result = m.twin("unless")(np.array([0.0, 0.5]), np.zeros(2))
    assert [x.tolist() for x in result] == [[0, 1], [0, 0]]
