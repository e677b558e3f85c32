"""One and more ranks: rows, speed-ups and the extrapolation to more cells."""

import json
import sys

import pytest
from mpi_runs import needs_mpi

from bench.measures import scale


def scale_row(kind, count, cells, seconds, **more):
    """A row with two equal ranks, in pieces with 100 steps."""
    case = {"kind": kind, "ranks": count, "cells": cells, "dtype": "float64", "delay": 5.0}
    piece = {"all": 100 * seconds, "exchange": 25 * seconds}
    row = {"pieces": [piece] * scale.PIECES, "received": 50, "exchanges": 4}
    row |= {
        "device_bytes": 1000 * cells // count,
        "host_bytes": 10**8 + (3000 + 2000 // count) * cells,
    }
    row |= {"described_s": 0.1, "made_s": 0.2, "cpu_s": 0.2, "where": "here", "engine": "epochs"}
    result = {"every": [row] * count, "compartments": 10 * cells, "steps": 100, "spikes": 5}
    return scale.row_of({**case, **more}, {**result, "digest": f"of {cells}"})


def test_a_row_of_ranks_by_hand():
    r = scale_row("strong", 2, 10, 1e-3)
    assert r["seconds"] == pytest.approx(1e-3)
    assert r["exchange_share"] == pytest.approx(0.25)
    assert r["bytes_per_cell"] == pytest.approx(100 / 10 / 0.0125)  # s simulated
    assert r["rate_hz"] == pytest.approx(5 / 10 / 0.0125)


def test_speed_up_is_against_the_fewest_ranks():
    rows = [scale_row("strong", 1, 40, 4e-3), scale_row("strong", 2, 40, 2.5e-3)]
    rows += [scale_row("threads", 1, 40, 2e-3)]
    rows += [scale_row("weak", 1, 20, 2e-3), scale_row("weak", 2, 40, 2.5e-3)]
    scale.against_first(rows)
    assert [r["speed_up"] for r in rows] == pytest.approx([1, 1.6, 2, 1, 1.6])
    assert [r["efficiency"] for r in rows] == pytest.approx([1, 0.8, 2, 1, 0.8])
    planned = [scale_row("plan", 2, 10**6, 1.0)]
    result = {"rows": rows, "planned": planned, "missing": [{**rows[0], "reason": "too slow"}]}
    text = scale.text(result)
    assert planned[0]["seconds"] == pytest.approx(0.3)
    (line,) = (line for line in text.splitlines() if "1,000,000 " in line)
    assert line.split() == "float64 1,000,000 2 0.10 0.20 0.2 4.10 4.1".split()
    assert max(map(len, text.splitlines())) <= 100
    assert "missing: strong, 1 ranks, 40 cells: too slow" in text


def test_other_spikes_end_the_run():
    rows = [scale_row("strong", 1, 40, 4e-3), scale_row("strong", 2, 40, 2e-3)]
    rows[1]["digest"] = "other"
    with pytest.raises(
        SystemExit, match="40 cells, float64: other spikes with 2 ranks than with 1"
    ):
        scale.against_first(rows)


def test_the_model_extended_by_hand():
    """3 kB per cell on every host, 2 kB on its own; 10 Hz, 200 steps of 0.025 ms, 4 B a spike."""
    rows = [scale_row("strong", k, n, n * 1e-6) for n in (1000, 2000) for k in (1, 2)]
    text = scale.extended(rows)
    assert "1.0 kB on its device, 2.0 kB on its rank's host\nand 3.0 kB on that of every" in text
    assert max(map(len, text.splitlines())) <= 100
    one, eight = (line for line in text.splitlines() if line.strip().startswith("1,000,000 "))
    assert one.split()[:8] == "1,000,000 1 1 GB 5 GB 200 s".split()
    assert eight.split()[:8] == "1,000,000 8 0.125 GB 3.25 GB 25 s".split()
    assert "0.2 MB" in one
    assert "needs rows" in scale.extended(rows[:3])


@pytest.mark.mpi
@needs_mpi
def test_ranks_are_timed(measured_on, tmp_path):
    case = "--strong 8 --weak --delay 2 --duration 6".split()
    scale.main(["--ranks", "1", "2", *case, "--out", str(tmp_path)])
    (path,) = tmp_path.glob("scale-*.json")
    result = json.loads(path.read_text("utf-8"))
    one, two = (r for r in result["rows"] if r["kind"] == "strong")
    assert result["missing"] == []
    assert (one["exchanges"], one["ranks"], two["ranks"]) == (0, 1, 2)
    assert two["exchanges"] > 0 and two["digest"] == one["digest"]


@pytest.mark.mpi
@needs_mpi
@pytest.mark.skipif(sys.platform == "win32", reason="the launcher is a shell script")
def test_a_launcher_of_another_mpi_is_no_row(measured_on, tmp_path, monkeypatch):
    launcher = tmp_path / "mpiexec"
    launcher.write_text('#!/bin/sh\nshift 2\nexec "$@"\n', "utf-8")
    launcher.chmod(0o755)
    monkeypatch.setenv("MPIEXEC", str(launcher))
    args = scale.parsed(["--ranks", "2", "--strong", "8", "--weak"])
    row = scale.start(scale.cases(args)[0], 60)
    assert row["reason"].endswith("mpi4py counts 1 ranks, mpiexec started 2")
