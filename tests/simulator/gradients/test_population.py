"""Gradients of populations, against differences between their evaluations."""

import numpy as np
import pytest

import clhines
from clhines import InputError, Network, Population

PROTOCOLS = {
    "weak": {"stop": 1.5, "stimuli": [{"amp": 0.05, "delay": 0.2, "dur": 1.0}]},
    "strong": {"stop": 2.0, "stimuli": [{"amp": 0.2, "delay": 0.2, "dur": 1.0}]},
}
PARAMETERS = {"na": ("hh", "gnabar"), "g": ("pas", "g", [1, 2]), "e": ("pas", "e")}
SETS = np.array([[0.12, 1e-4, -65.0], [0.1, 2e-4, -60.0], [0.15, 3e-4, -70.0]])


def population(**options):
    net = Network.from_arrays([-1, 0, 1], [0, 3], [500.0] * 3, [0.0, 0.1, 0.1], [0.005] * 3)
    net.insert("hh", [0])
    net.insert("pas", [0, 1, 2], g=1e-4, e=-65.0)
    return Population(net, PARAMETERS, PROTOCOLS, **options)


def loss(v):
    late = np.isnan(v)
    rest = np.where(late, 0.0, v + 60)
    return (rest**2).mean((1, 2)), 2 * rest / rest[0].size


@pytest.mark.parametrize("batch", [None, 2])
def test_derivatives_of_each_set(fast_queue, batch):
    cells = population(queue=fast_queue, batch=batch)
    values, slopes = cells.gradient(SETS, loss)
    np.testing.assert_allclose(values, loss(cells.evaluate(SETS).v)[0], rtol=1e-10)
    for k in range(len(PARAMETERS)):
        h = 1e-4 * np.abs(SETS[:, k]).max()
        steps = ((-2, 1), (-1, -8), (1, 8), (2, -1))
        total = 0.0
        for step, share in steps:
            sets = SETS.copy()
            sets[:, k] += step * h
            total = total + share * loss(cells.evaluate(sets).v)[0]
        np.testing.assert_allclose(slopes[:, k], total / (12 * h), rtol=1e-6)


def test_what_is_refused(fast_queue):
    cells = population(queue=fast_queue)
    with pytest.raises(InputError, match="loss returned values of shape"):
        cells.gradient(SETS, lambda v: (v.mean(), v))
    for returned, message in (
        (lambda v: 1.0, "loss returned 1.0; expected its value and its derivatives"),
        (lambda v: (1, v, v), "loss returned .*; expected its value and its derivatives"),
        (lambda v: (np.full(3, np.nan), v), r"loss\[0\] is nan; expected a finite number"),
        (lambda v: (np.ones(3), v + 1j), "derivatives of a loss has dtype complex128"),
        (lambda v: (np.ones(3), [1, [2, 3]]), "what loss returned is not an array"),
        (3, "loss is 3; expected a function"),
    ):
        with pytest.raises(InputError, match=message):
            cells.gradient(SETS, returned)
    with pytest.raises(InputError, match="for voltages on one device"):
        population(queue=fast_queue, features=["spike_count"]).gradient(SETS, loss)
    assert clhines.Population is Population
