"""NEURON's global generator, against a loop of integers."""

import math

import numpy as np
import pytest

from clhines.simulator.mechanisms.emit import scop

pytestmark = pytest.mark.core


def states(seed, count):
    """Return states of the generator after a seed."""
    results = []
    for _ in range(count):
        seed = (seed * 2147437301 + 453816981) % 2**32
        results.append(seed)
    return results


@pytest.mark.parametrize("seed", [1, 7, 2**32 - 1])
def test_numbers_are_those_of_the_recurrence(seed):
    true = [state / (2**32 - 1) for state in states(seed, 12)]
    at = np.arange(12.0)
    for drawn, keep in ((seed - 1, 1.0), (5, -1.0 - seed)):  # continued, or after set_seed
        np.testing.assert_array_equal(scop.number("scop_uniform", drawn, keep, at), true)
        np.testing.assert_array_equal(scop.number("scop_negexp", drawn, keep, at), -np.log(true))
        counts = [(state - 1) % 2**32 for state in [seed, *states(seed, 11)]]
        assert scop.count(drawn, keep, at).tolist() == counts


def test_normal_numbers_by_the_polar_method():
    for seed in range(1, 30):
        used, pairs = 0, iter(states(seed, 40))
        while True:
            x, y = (2 * next(pairs) / (2**32 - 1) - 1 for _ in range(2))
            used += 2
            if x * x + y * y < 1:
                break
        expected = x * math.sqrt(-2 * math.log(x * x + y * y) / (x * x + y * y))
        assert scop.number("scop_normal", seed - 1, 1.0, 0.0) == pytest.approx(expected, rel=1e-15)
        assert scop.number("scop_used", seed - 1, 1.0, 0.0) == used
