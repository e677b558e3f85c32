"""The ring network beside other simulators: rows, spikes and skipped sizes."""

import importlib.util
import json
from pathlib import Path

import pytest
from processes import output_of

from bench import child
from bench.measures import ring
from bench.peers import ring as peer

BENCH = Path(child.__file__).parent

TINY = peer.Case(3, 2, levels=2, compartments=2, duration=12.0, seconds=5.0, engine="reference")

SIMULATORS = {"NEURON": "neuron", "CoreNEURON": "neuron", "Arbor": "arbor", "Jaxley": "jaxley"}


@pytest.fixture(scope="module")
def ring_ran(tmp_path_factory):
    """A small run of the command; its files and its output."""
    out = tmp_path_factory.mktemp("ring")
    command = [BENCH, "ring", "--out", out, "--engines", "reference"]
    command += "--cells 3 --hh soma --shapes 2 --levels 2 --compartments 2 --duration 12".split()
    command += "--seconds 5 --dtype float64 --threads 2 --most 60".split()
    printed = output_of(*command, timeout=200)
    (path,) = out.glob("ring-*.json")
    return path, json.loads(path.read_text("utf-8")), printed


def test_every_simulator_has_a_row_or_a_line(ring_ran):
    """All have the same compartments and the same spikes, each timed more than once."""
    path, result, printed = ring_ran
    rows = {r["name"].split()[0]: r for r in result["ring"]}
    assert "clhines" in rows
    for name, module in SIMULATORS.items():
        line = f"missing: {name}: not installed"
        assert (name in rows) != (line in printed)
        assert (name in rows) == (importlib.util.find_spec(module) is not None), printed
    assert len({r["compartments"] for r in rows.values()}) == 1
    for r in rows.values():
        assert r["pieces"] >= peer.LEAST and r["nodes"] >= r["compartments"]
        assert 0 < r["best_seconds"] <= r["seconds"]
        ns = r["seconds"] / r["compartments"] * 1e9
        assert r["ns_per_compartment"] == pytest.approx(ns)
    spikes = [r for r in rows.values() if r["spikes"] is not None]
    assert all(r["spikes_compared"] >= 1 for r in spikes)
    for name in {"NEURON", "CoreNEURON"} & set(rows):  # bit for bit the same steps
        assert rows[name]["spikes_apart_ms"] < 1e-6
    assert rows["clhines"]["spikes_apart_ms"] < 1e-6
    assert path.with_suffix(".txt").read_text("utf-8").strip() in printed
    assert max(map(len, printed.splitlines())) <= 100
    if importlib.util.find_spec("matplotlib"):
        assert 10_000 < path.with_suffix(".svg").stat().st_size < 200_000


def test_a_peer_that_takes_too_long_or_dies(monkeypatch, tmp_path):
    script = tmp_path / "__main__.py"
    monkeypatch.setattr(child, "BENCH", tmp_path)
    script.write_text("import time; time.sleep(60)")
    assert ring.start("NEURON", TINY, 0.5)["reason"] == "took more than 0 s"
    script.write_text("import sys; sys.exit('no licence')")
    results = ring.start("NEURON", TINY, 60)
    assert results["reason"] == "ended with code 1 and said: no licence"
    assert (results["name"], results["cells"]) == ("NEURON", 3)


def asked(*arguments):
    return ring.parsed(arguments)


def test_sizes_beyond_the_time_are_not_tried(monkeypatch):
    """No larger network is tried after a failure, or if it would take too long."""
    tried = []

    def start(name, case, most):
        tried.append((name, case.cells))
        if name == "Arbor":
            return {"name": name, "cells": case.cells, "reason": "broken"}
        return {
            "name": name,
            "cells": case.cells,
            "simulated_ms": 1.0,
            "compartments": 10,
            "taken": [1.0, 5.0],
        }

    clock = iter([0, 30, 30, 60, 60, 120])  # runs take 30 s, and 60 s with more cells
    monkeypatch.setattr(ring, "start", start)
    monkeypatch.setattr(ring.time, "perf_counter", lambda: next(clock))
    text = "--cells 16 32 256 --peers NEURON Arbor --engines --hh soma --shapes 2"
    text += " --seconds 10 --most 100"
    result = list(ring.measured(asked(*text.split())))
    assert tried == [("NEURON", 16), ("Arbor", 16), ("NEURON", 32)]
    reasons = [(f["name"], f["cells"], f["reason"]) for f in result if "reason" in f]
    more = "more cells would take more than 100 s"
    assert reasons == [
        ("Arbor", 16, "broken"),
        ("Arbor", 32, "broken"),
        ("NEURON", 256, more),
        ("Arbor", 256, "broken"),
    ]


def test_time_of_more_cells_is_foreseen():
    """A start of 2 s and 1 s for every 240 cells; one size alone allows no prediction."""
    assert ring.foreseen({}, 16) == ring.foreseen({16: 2.0}, 256) == 0
    assert ring.foreseen({16: 2.0, 256: 3.0}, 1216) == pytest.approx(7.0)
    assert ring.foreseen({16: 3.0, 256: 2.0}, 1216) == 2.0  # noise


def test_cases_of_a_run(monkeypatch, capsys):
    """Each cell kind with each number of different trees; `all` means as many as cells."""
    tried = []

    def start(name, case, most):
        tried.append((case.hh, case.cells, case.shapes))
        return {"name": name, "cells": case.cells, "reason": "not here"}

    monkeypatch.setattr(ring, "start", start)
    text = "--cells 128 --peers NEURON --engines --shapes 64 all"
    result = list(ring.measured(asked(*text.split())))
    assert tried == [(hh, 128, n) for hh in ("soma", "all") for n in (64, 128)]
    assert [f["case"] for f in result][:2] == [
        "HH in the soma, passive dendrites; 64 different trees",
        "HH in the soma, passive dendrites; all different trees",
    ]
    with pytest.raises(SystemExit):
        asked("--shapes", "0")
    assert "--shapes 0: expected a whole number" in capsys.readouterr().err


def test_simulators_take_turns(monkeypatch):
    tried = []

    def start(name, case, most):
        tried.append(name)
        seconds = [3e-6, 1e-6, 2e-6] if len(tried) < 3 else [8e-6, 9e-6]
        return {"name": name, "simulated_ms": len(seconds), "compartments": 10, "taken": seconds}

    monkeypatch.setattr(ring, "start", start)
    text = "--cells 16 --peers NEURON Arbor --engines --hh soma --shapes 2 --rounds 2"
    neuron, arbor = ring.measured(asked(*text.split()))
    assert tried == ["NEURON", "Arbor"] * 2
    for r in (neuron, arbor):
        assert (r["pieces"], r["seconds"], r["best_seconds"]) == (5, 3e-6, 1e-6)
        assert r["simulated_ms"] == 3 and r["ns_per_compartment"] == pytest.approx(300)


@pytest.mark.parametrize(
    ("time", "cell", "said"),
    [
        ([2.0, 9.0, 16.0], [0, 1, 2], ""),
        ([2.05, 9.15, 16.2], [0, 1, 2], ""),
        ([2.0, 9.0], [0, 1], "2 spikes up to 19.2 ms, A has 3"),
        ([2.0, 4.0, 9.0, 16.0], [0, 3, 1, 2], "4 spikes up to 19.2 ms, A has 3"),
        ([2.0, 9.0, 16.0], [0, 2, 1], "other cells spike than in A"),
        ([2.0, 9.25, 16.0], [0, 1, 2], "spike 1 is 0.250 ms from that of A"),
        ([2.0, 9.0, 16.0, 19.7], [0, 1, 2, 3], ""),  # at the very end
    ],
)
def test_spikes_that_differ(time, cell, said):
    truth = {
        "name": "A",
        "simulated_ms": 20.0,
        "spikes": {"time": [2.0, 9.0, 16.0], "cell": [0, 1, 2]},
    }
    other = {"name": "B", "simulated_ms": 30.0, "spikes": {"time": time, "cell": cell}}
    assert ring.difference(other, truth) == said


def test_wrong_spikes_are_not_a_row(monkeypatch, tmp_path, capsys):
    """A peer's wrong spikes make a line; clhines' wrong spikes end the run."""
    good = {**peer.run("clhines", TINY), "case": "a ring"}
    late = {**good, "name": "Arbor 1", "spikes": {"time": [11.0], "cell": [0]}}
    arguments = ["--hh", "soma", "--out", str(tmp_path)]
    for rows, code in (([good, late], None), ([{**late, "name": "NEURON 9"}, good], 1)):
        copies = [dict(r) for r in rows]
        monkeypatch.setattr(ring, "measured", lambda _, copies=copies: iter(copies))
        if code is None:
            ring.main(arguments)
            assert "missing: Arbor 1: 1 spikes up to" in capsys.readouterr().out
        else:
            with pytest.raises(SystemExit, match=r"clhines \(reference\), float64, 3 cells"):
                ring.main(arguments)


def test_the_choice_of_auto_is_held_against_the_fastest_engine():
    def row(name, asked, seconds):
        kept = {"case": "one", "cells": 3, "dtype": "float64"}
        return {**kept, "name": f"clhines ({name}), float64", "asked": asked, "seconds": seconds}

    rows = [row("steps", "auto", 3.1), row("epochs", "epochs", 2.0), row("steps", "steps", 3.0)]
    (said,) = ring.about_choices(rows)
    assert "in 0 of 1 cases, at worst 1.50 times it" in said
    assert ring.about_choices(rows[1:]) == []
