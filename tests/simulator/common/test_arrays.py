"""Operations on arrays of networks and models, against loops."""

import numpy as np

from clhines.simulator.common import arrays


def test_ties_reach_the_least_of_each_group():
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 60, (2, 40))
    groups = [{k} for k in range(60)]
    for x, y in zip(a, b):
        both = groups[x] | groups[y]
        for k in both:
            groups[k] = both
    assert arrays.least_tied(60, a, b).tolist() == [min(group) for group in groups]


def test_values_that_are_one_stay_one():
    one = np.broadcast_to(np.array([2.0]), 1000)
    assert arrays.once(one).shape == (1,) and arrays.once(np.ones(3)).shape == (3,)
    joined = arrays.joined([one, one[:5]], np.float64)
    assert joined.shape == (1005,) and not joined.strides[0] and joined[-1] == 2.0
    assert arrays.joined([one[:2], np.array([3.0])], np.float32).tolist() == [2.0, 2.0, 3.0]
