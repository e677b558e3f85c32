"""Models beside NEURON: what is kept, compared and told; the models themselves are not here."""

import numpy as np
import pytest

from bench.measures import models
from bench.measures.model_runs import WAYS, compared, together

DT = 0.025


def taken(shift=0, moved=0.0):
    t = np.arange(400) * DT
    v = [np.sin(t) + moved, np.cos(t) + moved]
    return v, [np.array([1.0, 2.0 + shift * DT]), np.zeros(0)]


def said(way):
    return {"stop_ms": 10.0, "dt": DT, "cells": 2, "compartments": 4, "spikes": 2, f"{way}_s": 1.5,
            "first_step_s": 0.5, "load": 1.0, "cores": 2}  # fmt: skip


def test_what_a_way_records_is_kept_until_another_stop_is_asked_for(tmp_path):
    models.keep(tmp_path, "netpyne", "neuron", said("neuron"), taken())
    kept = models.kept_way(tmp_path, "netpyne", "neuron", 10.0)
    assert kept is not None
    assert kept[0] == said("neuron")
    for a, b in zip(kept[1], taken(), strict=True):
        assert all(map(np.array_equal, a, b))
    assert models.kept_way(tmp_path, "netpyne", "neuron", 20.0) is None
    assert models.kept_way(tmp_path, "netpyne", "clhines", 10.0) is None


def test_a_spike_in_another_step_and_a_voltage_are_found():
    same = compared(taken(), taken(0, 1e-9), DT)
    assert same["equal_spikes"] and same["spikes_differ_at_ms"] is None
    assert same["largest_mv"] == pytest.approx(1e-9, rel=1e-5)
    assert same["equal_until_ms"] == pytest.approx(400 * DT)
    other = compared(taken(), taken(1, 1e-3), DT)
    assert not other["equal_spikes"]
    assert other["spikes_differ_at_ms"] == 2.0
    assert other["equal_until_ms"] == 0


@pytest.mark.parametrize("ways", [WAYS, WAYS[:2]])
def test_the_table_says_what_was_measured(ways):
    shifts = {"neuron": 0, "clhines": 1, "reordered": 0, "nudged": 0}
    row = together({w: (said(w), taken(shifts[w])) for w in ways})
    row |= {"model": "netpyne", "command": "python -m bench models netpyne"}
    text = models.text({"rows": [row]})
    line = next(x for x in text.splitlines() if x.startswith("netpyne  "))
    assert line.split()[:6] == ["netpyne", "2", "4", "10", "2", "no"]
    assert line.count(" - ") + line.endswith("-") == (1 if len(ways) > 2 else 3)
    assert "the first other spike at 2 ms" in text.replace("\n  ", " ")
    assert max(map(len, text.splitlines())) <= 100
