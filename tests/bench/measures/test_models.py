"""Models beside NEURON: records, comparisons and rows; the models themselves are not here."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from bench.measures import model_runs, models
from bench.measures.model_cases import STEPPING, loaded
from bench.measures.model_runs import EQUAL_V, WAYS, compared, together
from clhines.core.errors import InputError
from clhines.simulator.ranks.exchange import ErrorGuard
from clhines.simulator.ranks.joints import JoinedExchange
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks

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


def test_spikes_of_a_whole_model_are_compared_by_gid(tmp_path):
    """Gids in any order; one spike in another step, one missing, and one with an extra gid."""
    truth = np.array([1.0, 2.0, 3.0, 1.0]), np.array([7, 5, 7, 9])
    others = {
        "whole": (truth[0][::-1], truth[1][::-1]),
        "ranks-nudged": (np.array([2.0, 1.0, 3.05, 4.0]), np.array([5, 7, 7, 8])),
    }
    for way, (times, gids) in {"ranks": truth, **others}.items():
        np.savez(tmp_path / f"m-{way}.npz", times=times, gids=gids)
    same = {way: models.agreement(tmp_path, "m", way) for way in others}
    assert same["whole"]["same_step"] == same["whole"]["neuron"] == same["whole"]["spikes"] == 4
    assert same["whole"]["differ_at_ms"] is None
    nudged = same["ranks-nudged"]
    assert [nudged[k] for k in ("same_step", "within_1_ms", "differ_at_ms")] == [2, 3, 1.0]
    seconds = dict.fromkeys(("build_s", "init_s", "first_s", "run_s"), 2.0)
    said = models.beside({"model": "m", **seconds, "ranks": seconds | {"ranks": 3, "cores": 4},
                          "agreement": same})  # fmt: skip
    assert (
        "4 spikes of NEURON with 3 MPI ranks of 4 cores: in the same step 4 of 4 (in NEURON" in said
    )
    assert "2 of 4, others from 1.000 ms on); from the first cell to the last step 8 s" in said


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


def test_steps_have_a_table_of_their_own_and_old_rows_none():
    old = together({w: (said(w), taken()) for w in WAYS[:2]})
    new = old | {"clhines_us": 20.0, "neuron_us": 50.0, "mechanisms": 3}
    new["operations"] = 3 * models.RATE
    alone = new | {"clhines_us": 8.0}
    del alone["neuron_us"], alone["operations"]
    names = ("netpyne", "ring20", "ring20-text")
    rows = [r | {"model": n, "command": ""} for r, n in zip((old, new, alone), names, strict=True)]
    lines = models.text({"rows": rows}).splitlines()
    steps = [x.split() for x in lines[lines.index(models.STEPS) + 2 :]][:3]
    assert steps == [
        ["ring20", "4", "3", "20.0", "50.0", "2.5", "0.50", "s", "3.0"],
        ["ring20-text", "4", "3", "8.0", "-", "-", "0.50", "s", "-"],
        [],
    ]
    assert max(map(len, lines)) <= 100
    assert models.STEPS not in models.text({"rows": rows[:1]})


class Hoc:
    """The part of NEURON's h that `loaded` uses."""

    v_init = -70.0

    def __init__(self, fails):
        self.done, self.fails = [], fails

    def load_file(self, again, name):
        self.done.append(name)

    def __call__(self, statement):
        self.done.append(statement)
        return statement != self.fails

    def cas(self):
        return lambda x: x

    def IClamp(self, at):  # noqa: N802
        return SimpleNamespace(at=at)


def test_a_cell_of_hoc_is_loaded_and_gets_a_current():
    h = Hoc("")
    _, v_init, clamp = loaded("cell.hoc", "init()", current=0.5)(h)
    assert h.done == ["cell.hoc", "init()", *STEPPING]
    assert v_init == -70.0
    assert (clamp.at, clamp.delay, clamp.amp) == (0.5, 5, 0.5)
    with pytest.raises(InputError, match=r"cell\.hoc: error in init\(\)"):
        loaded("cell.hoc", "init()")(Hoc("init()"))


@pytest.mark.parametrize("name", ["ring20", "ring20-text"])
def test_the_ring_spikes_as_in_neuron(name, tmp_path, monkeypatch):
    pytest.importorskip("neuron")
    monkeypatch.delenv("CLHINES_MODELS", raising=False)
    assert models.main([name, "--short", "--stop", "12", "--out", str(tmp_path)]) == 0
    row = json.loads(next(tmp_path.glob("models-*.json")).read_text("utf-8"))["rows"][0]
    assert row["spikes"] == 6  # one after another, from 2.65 ms on every 1.65 ms
    assert row["clhines"]["largest_mv"] < EQUAL_V
    assert row["clhines_us"] > 0
    assert row["neuron_us"] > 0


def test_exchanges_are_timed_without_the_wait_for_the_device(monkeypatch):
    """With a made-up clock: the wait for events takes 5 s, before the ranks' messages."""
    now = [0.0]

    def takes(seconds, then=None):
        def call(this, *_):
            now[0] += seconds
            if then is not None:
                then(this)

        return call

    monkeypatch.setattr(model_runs.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Ranks, "exchange", takes(2.0))
    ranks, run = Ranks.__new__(Ranks), JoinedExchange.__new__(JoinedExchange)
    monkeypatch.setattr(JoinedExchange, "_tell", takes(1.0, lambda _: ranks.exchange(np.zeros(0))))
    monkeypatch.setattr(JoinedExchange, "_take", lambda *_: None)
    waits = lambda _: (takes(5.0)(None), *np.zeros((3, 0)))[1:]  # noqa: E731 - itself
    run.run = SimpleNamespace(new_events=waits)
    run.guard, run._voltages = ErrorGuard(ONE_PROCESS, run.run), SimpleNamespace(here=np.zeros(0))
    owns = JoinedExchange._tell, Ranks.exchange
    with model_runs.exchanging() as spent:
        run.exchange()
        run.exchange()
    assert spent == {"exchanges": 2, "exchange_s": 6.0, "message_s": 4.0}
    assert now == [16.0]
    assert owns == (JoinedExchange._tell, Ranks.exchange)
    row = {"model": "m", "devices": 2, "build_s": 1, "first_s": 1, "run_s": 1, "faster": 1,
           "spikes": 3, "same": 3, "stop_ms": 10, "command": "c", **spent}  # fmt: skip
    lines = models.spread_text({"rows": [row, row | {"exchanges": 0}]}).splitlines()
    assert [line.split()[-2:] for line in lines[2:4]] == [["3000000", "2000000"], ["-", "-"]]
    assert max(map(len, lines)) <= 100
