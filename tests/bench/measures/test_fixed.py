"""Variable steps beside fixed ones: what is compared, the table, and the ring with NEURON."""

import json

import numpy as np
import pytest

from bench.measures import fixed
from bench.measures.model_runs import DT

STOP = 20.0


def taken(shift=0.0, moved=0.0):
    """One cell with spikes at 5 and 15 ms, whose voltage is 0 but for `moved` at 6 and 10 ms."""
    v = np.zeros(round(STOP / DT) + 1)
    v[[round(6 / DT), round(10 / DT)]] = moved, moved / 2
    return [v], [np.array([5.0, 15.0 + shift])]


def test_spikes_are_compared_in_order_and_voltages_away_from_them():
    found = fixed.apart(taken(), taken(1.5, 4.0), STOP)
    assert found["spikes"] == 2 and found["within_1_ms"] == 1
    assert found["shift_ms"] == pytest.approx(1.5)
    assert found["median_mv"] == 0
    assert found["quiet_mv"] == 2.0  # at 10 ms; at 6 ms a spike is near
    one = taken()
    one[1][0] = one[1][0][:1]
    assert fixed.apart(taken(), one, STOP)["shift_ms"] == 0
    none = [np.zeros(3)], [np.zeros(0)]
    assert fixed.apart(none, none, 2 * DT)["quiet_mv"] == 0
    near = [np.zeros(3)], [np.array([DT])]
    assert fixed.apart(near, near, 2 * DT)["quiet_mv"] is None


def test_the_table_has_a_line_for_each_way():
    said = {"stop_ms": STOP, "atol": 1e-3, "cells": 1, "compartments": 3}
    ways = {"variable": taken(), "tight": taken(0.1), "neuron-0.025": taken(1.5, 4.0)}
    ways["clhines-0.025"] = taken(1.5, 4.0 + 1e-9)
    row = fixed.together({w: (said, x) for w, x in ways.items()}, [0.025])
    assert row["spikes"] == 2 and row["tight"]["shift_ms"] == pytest.approx(0.1)
    assert row["steps"][0]["clhines"]["same_step"] == row["steps"][0]["clhines"]["spikes"] == 2
    rows = [{"model": "ring20", **row}, {"model": "118098", "failed": "no such section"}]
    lines = fixed.text({"rows": rows}).splitlines()
    assert [x.split()[:3] for x in lines[2:5]] == [
        ["ring20", "3", "20"], ["atol/100", "2", "0.100"], ["0.025", "ms", "2"],
    ]  # fmt: skip
    assert "118098: no such section" in lines
    assert max(map(len, lines)) <= 100


def test_the_ring_spikes_as_by_fixed_steps_of_neuron(tmp_path, monkeypatch):
    pytest.importorskip("neuron")
    monkeypatch.delenv("CLHINES_MODELS", raising=False)
    out = ["--out", str(tmp_path)]
    assert fixed.main(["ring20", "--steps", "0.025", "--stop", "12", *out]) == 0
    row = json.loads(next(tmp_path.glob("fixed-*.json")).read_text("utf-8"))["rows"][0]
    assert row["spikes"] == row["tight"]["spikes"] == row["steps"][0]["spikes"] == 6
    assert 0 < row["tight"]["shift_ms"] < row["steps"][0]["shift_ms"] < 6 * 0.05
    assert row["steps"][0]["clhines"]["largest_mv"] < 1e-6
    assert fixed.main(["118098", *out]) == 2
