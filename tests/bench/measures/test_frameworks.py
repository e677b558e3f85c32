"""Rows for framework scripts, with processes that only print planted results."""

import json
import sys

import numpy as np
import pytest

from bench.measures import frameworks

SCRIPT = "BMTK bio_1cell"
STUB = """
import json, os, sys
import numpy as np
on, nudged = os.environ["CLHINES_NEURON"] == "always", os.environ["NUDGED"]
if os.environ["RANKS"]:
    raise RuntimeError("RuntimeError: there is one rank")
caches = os.environ["XDG_CACHE_HOME"]
first = on and not os.path.isdir(caches)
if on:
    os.makedirs(caches, exist_ok=True)
times = [1.0, 2.0 + LATE * (on or bool(nudged)), 3.0 + LATE * bool(nudged)]
told = {"seconds": 9.0 if first else 4.0, "steps": 40 * on, "cells": 2, "dt": 0.1}
told["ended"] = told["seconds"] - 1
np.savez(sys.argv[2], told=json.dumps(told), spike_time=np.array(times),
         spike_cell=np.array([0, 1, 1]), v=np.full((1, 3), 0.25 * on))
"""


@pytest.fixture
def row_with(tmp_path, monkeypatch):
    """Return a function that makes the row of a script whose spikes come `late` [ms] here."""
    (tmp_path / "bmtk" / "examples").mkdir(parents=True)
    place, script, _ = frameworks.SCRIPTS[SCRIPT]
    monkeypatch.setitem(frameworks.SCRIPTS, SCRIPT, (place, script, ""))

    def made(late, **how):
        monkeypatch.setattr(frameworks, "CHILD", STUB.replace("LATE", repr(late)))
        return frameworks.row_of(SCRIPT, tmp_path, "", sys.executable, **how)

    return made


def test_equal_spikes_need_no_nudged_run(row_with):
    row = row_with(0.0)
    assert row["spikes"] == row["neuron_spikes"] == row["same_step"] == 3
    assert "nudged_same_step" not in row
    assert (row["first_seconds"], row["seconds"], row["dv"]) == (9.0, 4.0, 0.25)
    assert (row["first_ended"], row["ended"], row["neuron_ended"]) == (8.0, 3.0, 3.0)
    assert row["ranks_failed"] and not {"core_ended", "ranks_ended"} & row.keys()


def test_a_short_row_has_the_first_run_and_ranks(row_with):
    row = row_with(0.0, turns=0, ranks=True)
    assert (row["first_seconds"], row["first_ended"], row["neuron_ended"]) == (9.0, 8.0, 3.0)
    assert not {"seconds", "ended"} & row.keys()  # times of the next run
    assert "there is one rank" in row["ranks_failed"] and "core_failed" not in row


def test_a_nudged_run_in_neuron_stands_beside_spikes_that_differ(row_with):
    row = row_with(0.5)
    assert (row["same_step"], row["nudged_same_step"]) == (2, 1)
    result = {"record": {}, "ranks": 2, "rows": [json.loads(json.dumps(row))]}
    shown = " ".join(frameworks.text(result).split())
    assert "off once a ms: 1 of 3 spikes in the same step" in shown
    assert f"{SCRIPT} 3.0 - - 8.0 3.0" in shown  # until the last spike
    assert "BMTK has no option for CoreNEURON" in shown and "on several ranks: " in shown


def test_less_than_a_step_is_the_same_step(row_with):
    assert row_with(0.04)["same_step"] == 3


def test_a_large_script_runs_on_ranks_alone(tmp_path, monkeypatch):
    def run(name, copy, is_on, device, python, word):
        assert word == "RANKS"
        spikes = {"spike_time": np.array([1.0, 2.0]), "spike_cell": np.array([0, 1])}
        result = {"cells": 2, "dt": 0.1, "steps": 40 * is_on, "v": np.full((1, 3), 0.25 * is_on)}
        return {**spikes, **result, "seconds": 9.0 - 4 * is_on, "ended": 8.0 - 4 * is_on}

    monkeypatch.setattr(frameworks, "run", run)
    monkeypatch.setattr(frameworks, "copied", lambda *given: "")
    row = frameworks.on_ranks("netpyne M1 10 %", tmp_path, "", sys.executable)
    assert (row["spikes"], row["same_step"], row["dv"], row["steps"]) == (2, 2, 0.25, 40)
    shown = " ".join(frameworks.text({"ranks": 2, "rows": [row]}).split())
    assert "netpyne M1 10 % - 8.0 - - - 4.0 4.0" in shown  # until the last spike
