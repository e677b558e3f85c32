"""Connections sorted by source and by target against a sort by hand; refusals."""

import time

import numpy as np
import pytest

from bench.made import random_connections
from clhines.core.errors import InputError
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[0]], [0]), r"source has shape \(1, 1\)"),
        (([0, 1], [0]), r"target has shape \(1,\); expected \(2,\)"),
        (([0, -1], [0, 0]), "source of connection 1 is -1; expected at least 0"),
        (([0, 4], [0, 0], 1.0, 1, 4), "source of connection 1 is 4; expected 0 to 3"),
        (([0], [9], 1.0, 1, 1, 9), "target of connection 0 is 9; expected 0 to 8"),
        (([0.5], [0]), "source has dtype float64; expected integers"),
        (([0], [0], 1.0, 0), "delay of connection 0 is 0; expected at least 1"),
        (([0, 0], [0, 1], [1.0, np.nan]), r"weight\[1\] is nan; expected a finite number"),
        (([0, 0], [0, 1], [1.0, 2.0, 3.0]), r"weight has shape \(3,\)"),
        (([0], [2**31]), "target of connection 0 is 2147483648"),
    ],
)
def test_bad_connections_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        GridConnections(*arguments)


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
