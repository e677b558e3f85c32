"""The arrays of a model: steps for delays and events; refusals."""

import numpy as np
import pytest
from networks import CABLES, full_network

from clhines import InputError
from clhines.simulator.model import compile

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("delay", "steps"), [(0.1, 1), (0.149, 1), (0.151, 2), (0.3, 3), (5.0, 50), (0.7, 7)]
)
def test_delays_in_steps(delay, steps):
    net, syn = full_network()
    net.connect(0, syn, 0, 0.1, delay)
    assert compile(net, 0.1).connections.delay.tolist() == [steps]


def test_many_cells_without_a_loop():
    net, _ = full_network(20_000)
    model = compile(net)
    assert model.forest.num_cells == 20_000
    sizes = np.resize([c.num_nodes for c in CABLES], 20_000)
    np.testing.assert_array_equal(model.forest.sizes, sizes)
    a, b = model.forest.cell_offsets[[3, 19_998]]
    n = CABLES[0].num_nodes
    np.testing.assert_array_equal(model.u[a : a + n], model.u[b : b + n])


def refused(text):
    return pytest.raises(InputError, match=text)


def test_refused_by_compile():
    net, syn = full_network()
    with refused("dt is 0 ms; expected above 0"):
        compile(net, 0)
    with refused(r"seed is 18446744073709551616; expected less than 2\*\*64"):
        compile(net, seed=2**64)
    with refused("dt is 'fast'"):
        compile(net, "fast")
    with refused(r"v_init\[0\] is nan"):
        compile(net, v_init=np.nan)
    with refused(r"v_init has shape \(2,\)"):
        compile(net, v_init=[1.0, 2.0])
    net.connect([1, 3], syn, 0, 0.1, [1.0, 0.02])
    with refused("delay of connection 1, from cell 3, is 0.02 ms; expected at least one step"):
        compile(net, 0.025)
    net.threshold = [0.0, 1.0]
    with refused(r"threshold has shape \(2,\); expected a number or \(4,\)"):
        compile(net, 0.01)


def test_events_that_no_run_comes_to():
    """Drop events whose step fits no integer."""
    net, syn = full_network()
    net.add_event(syn, [0, 1, 2], [1e18, 0.5, 1e300], 0.1)
    events = compile(net, 0.025).events
    assert (events.step.tolist(), events.target.tolist()) == ([20], [0])
