"""Connections sorted by source and by target against a sort by hand; refusals."""

import time

import numpy as np

from bench.made import random_connections
from clhines.simulator.model.connections import GridConnections


def test_rows_by_hand():
    c = GridConnections([2, 0, 2, 0, 2], [1, 5, 0, 2, 1], [1.0, 2, 3, 4, 5], [3, 1, 2, 1, 3], 4)
    assert c.row.tolist() == [0, 2, 2, 5, 5]
    assert c.order.tolist() == [3, 1, 2, 0, 4]
    assert (c.num_sources, c.num_targets, c.count) == (4, 6, 5)
    assert (c.min_delay, c.max_delay) == (1, 3)
    first, place = c.backward()
    assert first.tolist() == [0, 1, 3, 4, 4, 4, 5]
    assert place.tolist() == [2, 3, 4, 0, 1]


def test_sorting_keys_that_do_not_fit_one_integer():
    big = 2**31 - 2
    c = GridConnections([big, 0, big, big], [big, 3, 0, big], 1.0, [big, 1, big, 4])
    assert c.order.tolist() == [1, 3, 2, 0]


def test_no_connections():
    c = GridConnections([], [], [], [])
    assert (c.count, c.num_sources, c.num_targets, c.max_delay) == (0, 0, 0, 1)
    assert c.row.tolist() == [0] and c.scale() == 2.0**-40


def test_millions_of_connections_in_seconds():
    begin = time.perf_counter()
    c = random_connections(1000, 100_000, 0.02, 3, delay=(1, 40))
    assert abs(c.count - 2_000_000) < 6 * np.sqrt(2_000_000)
    keys = (
        c.source[c.order].astype(np.int64) * 10_000_000_000
        + c.delay[c.order] * 100_000
        + c.target[c.order]
    )
    assert (np.diff(keys) >= 0).all()
    assert c.row[-1] == c.count
    assert time.perf_counter() - begin < 20  # about 1 s on one idle core


def test_random_connections():
    c = random_connections(40, 50, 0.3, seed=5, weight=(0.5, 2.0), delay=(2, 4))
    again = random_connections(40, 50, 0.3, seed=5, weight=(0.5, 2.0), delay=(2, 4))
    other = random_connections(40, 50, 0.3, seed=6)
    for name in ("source", "target", "weight", "delay"):
        assert np.array_equal(getattr(c, name), getattr(again, name))
    assert c.count != other.count or (c.target != other.target).any()
    pairs = c.source * 50 + c.target
    assert (np.diff(pairs) > 0).all()
    assert abs(c.count - 600) < 6 * np.sqrt(2000 * 0.3 * 0.7)
    assert 0.5 <= c.weight.min() and c.weight.max() <= 2.0
    assert np.unique(c.delay).tolist() == [2, 3, 4]
    assert random_connections(7, 9, 1.0, 0).count == 63
    assert random_connections(7, 9, 0.0, 0).count == 0
    assert random_connections(0, 9, 0.5, 0).count == 0
