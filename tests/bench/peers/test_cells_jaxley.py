"""Channels for Jaxley from our texts, with NumPy in place of JAX."""

import numpy as np
import pytest

from bench import MissingError, neurons
from bench.peers import cells_jaxley as peer


class Base:
    """The necessary part of Jaxley's channel class."""

    def __init__(self, name):
        self.name = name


def test_a_channel_has_the_values_and_the_exponential_step_of_its_text():
    made = peer.channel_class(Base, np, "ih", neurons.CHANNELS["ih"])()
    assert made.channel_params == {"ih_gbar": 0.0, "ih_e": -45.0}
    v, dt = np.array([-90.0, -60.0]), 0.025
    alpha = 0.00643 * (v + 154.9) / (np.exp((v + 154.9) / 11.9) - 1)
    beta = 0.193 * np.exp(v / 33.1)
    params = {"ih_gbar": 2e-4, "ih_e": -45.0}
    rest = made.init_state({}, v, params, dt)["ih_m"]
    np.testing.assert_allclose(rest, alpha / (alpha + beta), rtol=1e-14)
    new = made.update_states({"ih_m": 0.3}, dt, v, params)["ih_m"]
    np.testing.assert_allclose(new, rest + (0.3 - rest) * np.exp(-(alpha + beta) * dt), rtol=1e-13)
    current = made.compute_current({"ih_m": 0.3}, v, params)
    np.testing.assert_allclose(current, 2e-4 * 0.3 * (v + 45), rtol=1e-14)


@pytest.mark.parametrize("name", list(neurons.CHANNELS))
def test_every_channel_is_translated_and_rests_where_it_starts(name):
    made = peer.channel_class(Base, np, name, neurons.CHANNELS[name])()
    v = np.array([-71.3, -42.1, 5.7])
    rest = made.init_state({}, v, made.channel_params, 0.025)
    assert rest and all(((x >= 0) & (x <= 1)).all() for x in rest.values())
    assert set(rest) == set(made.channel_states)
    later = made.update_states(rest, 0.5, v, made.channel_params)
    for state, value in rest.items():
        np.testing.assert_allclose(later[state], value, rtol=1e-12)


def test_what_is_not_known_is_refused():
    with pytest.raises(MissingError, match=r"sqrt\(v\) is not translated"):
        made = peer.channel_class(Base, np, "x", "state m = sqrt(v)\ndm/dt = -m")()
        made.init_state({}, np.array([1.0]), {}, 0.1)
