"""Solvers beside others: rows, tables and pictures, and absent or wrong peers."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from bench_cases import small_case, wrong_peer
from processes import output_of

import clhines
from bench import made as cells_shapes
from bench import record, systems
from bench.measures import peers
from bench.peers import host
from clhines.solver.device import devices

BENCH = Path(record.__file__).parent


@pytest.fixture(scope="module")
def ran(fast_queue, tmp_path_factory):
    """A small run of the command on each device; its files and its output."""
    index = next(i for i, d in devices.all_devices() if d == fast_queue.device)
    out = tmp_path_factory.mktemp("peers")
    command = [BENCH, "peers", "--device", index, "--out", out]
    command += "--cells 1 8 --nodes 32 --branches 7 --shapes 1 all --budget 0.05".split()
    command += "--dtype float32 --methods auto flat".split()
    printed = output_of(*command)
    (path,) = out.glob("peers-*.json")
    return path, json.loads(path.read_text("utf-8")), printed


def test_every_case_has_its_rows(ran):
    _, result, _ = ran
    results = {}
    for r in result["rows"]:
        results.setdefault((r["cells"], r["kind"], r["dtype"]), []).append(r)
    kinds = [(1, "1 shape"), (1, "chains"), (8, "1 shape"), (8, "all different"), (8, "chains")]
    assert list(results) == [(*k, "float32") for k in kinds]
    for rows in results.values():
        names = [r["name"] for r in rows]
        assert len(set(names)) == len(names)
        assert {peers.FLOOR, "clhines flat"} <= set(names)
        assert sum(name.startswith("clhines auto (") for name in names) == 1
        assert [r["seconds"] for r in rows] == sorted(r["seconds"] for r in rows)
        floor = next(r for r in rows if r["name"] == peers.FLOOR)
        for r in rows:
            assert r["rounds"] >= 7 or (r is floor and r["clock"] == "device")
            assert 0 < r["best_seconds"] <= r["seconds"] < np.inf
            assert r["x_floor"] == pytest.approx(r["seconds"] / floor["seconds"])
            assert (r["error"] is None) == (r is floor)
            assert r is floor or 0 < r["error"] < peers.BOUND * np.finfo("float32").eps


def test_every_peer_has_rows_or_a_line(ran):
    """An installed peer is timed; an absent one has a line with the reason."""
    _, result, printed = ran
    rows = {r["name"] for r in result["rows"]}
    lines = {m["name"] for m in result["missing"]}
    there = {
        "C, one thread": bool(shutil.which("cc")),
        "C/OpenMP, any trees in lanes": bool(shutil.which("cc")),
        "Numba, prange": importlib.util.find_spec("numba") is not None,
        "SciPy splu": importlib.util.find_spec("scipy") is not None,
        "cuSPARSE gtsv2StridedBatch": importlib.util.find_spec("cupy") is not None,
        "Jaxley": importlib.util.find_spec("jaxley") is not None,
    }
    for name, expected in there.items():
        if not expected:
            assert name in lines and f"missing: {name}: " in printed
        assert any(r.startswith(name) for r in rows) or name in lines
    for name in ("C, one thread", "Numba, prange", "SciPy splu"):
        assert (name in rows) == there[name], result["missing"]


def test_files_of_a_run(ran):
    path, result, printed = ran
    assert {"device", "driver", "seed", "commit", "peers"} <= set(result["record"])
    text = path.with_suffix(".txt").read_text("utf-8")
    assert text.strip() in printed
    assert max(map(len, text.splitlines()[1:])) <= 100  # the first names the device
    assert text.count("\n     8 ") + text.count("\n     1 ") == len(result["rows"])
    if importlib.util.find_spec("matplotlib"):
        size = path.with_suffix(".svg").stat().st_size
        assert 10_000 < size < 200_000


def test_a_table_of_slow_solvers_is_not_wider():
    row = {"kind": "all different", "shapes": 1, "cells": 1, "nodes": 32, "dtype": "float32"}
    row |= {"name": "cuSPARSE gtsvInterleavedBatch, Thomas", "clock": "device"}
    rows = [{**row, "seconds": s, "x_floor": s / 3e-6} for s in (3e-6, 3.7e-6, 0.123, 12.3, 1234.5)]
    text = peers.text({"rows": rows, "missing": []})
    assert max(map(len, text.splitlines())) == 100
    assert [line.split()[-3:] for line in text.splitlines()[2:7]] == [
        ["3.0", "1.00", "93.750"],
        ["3.7", "1.23", "115.625"],
        ["123000.0", "41000.0", "3843750"],
        ["12300000", "4100000", "3.8e+08"],
        ["1.2e+09", "4.1e+08", "3.9e+10"],
    ]


def test_bad_shapes_are_refused(capsys):
    with pytest.raises(SystemExit):
        peers.main(["--shapes", "0"])
    assert "--shapes 0: expected a whole number" in capsys.readouterr().err


def broken(case):
    raise RuntimeError("a broken library\nwith a long story")
    yield


def nan(case):
    yield host.out_of_place("not a number", [lambda: case.sets[0][2] * np.nan] * 2)


def test_a_failing_or_wrong_peer_is_a_line(fast_queue, monkeypatch):
    """Neither ends the run, and neither is timed."""
    makers = {"broken": broken, "wrong": wrong_peer, "nan": nan, "C": host.c_serial}
    monkeypatch.setattr(peers, "PEERS", makers)
    forest = clhines.Forest.repeat([cells_shapes.chain(9)], 3)
    values = systems.values(forest, "float32")
    small = systems.Case(fast_queue, forest, "chains", np.dtype("float32"), values)
    missing = []
    rows = peers.time_case(small, ["flat"], 0.01, missing)
    reasons = {m["name"]: m["reason"] for m in missing}
    assert reasons["broken"] == "RuntimeError: a broken library"
    assert reasons["off by a little"].startswith("wrong, so not timed: error 1, ")
    assert reasons["not a number"].startswith("wrong, so not timed: error nan")
    named = {r["name"] for r in rows}
    assert named - {"C, one thread"} == {peers.FLOOR, "clhines flat"}


def test_a_wrong_method_of_clhines_ends_the_run():
    small = small_case([cells_shapes.chain(9)], 3)
    candidate = next(wrong_peer(small))
    candidate.name = "clhines flat"
    with pytest.raises(SystemExit, match="clhines flat.*wrong, so not timed"):
        list(peers.checked(small, [candidate], []))


def test_large_batches_are_held_against_the_first_solution(monkeypatch):
    monkeypatch.setattr(peers, "CHECKED", 10)
    small, missing = small_case([cells_shapes.chain(9)], 3), []
    good = [next(host.scipy_sparse(small)) for _ in range(2)]
    passed = list(peers.checked(small, [*good, next(wrong_peer(small))], missing))
    assert passed == good
    assert good[1].error == 0.0  # the same solver twice: no difference
    assert [m["name"] for m in missing] == ["off by a little"]


def test_points_of_a_panel():
    """A batch with as many shapes as cells is a point of every panel that could contain it."""

    def kinds_of(kind, shapes, cells):
        row = {"kind": kind, "shapes": shapes, "cells": cells}
        return [
            k for k in ("1 shape", "64 shapes", "all different", "chains") if peers.belongs(row, k)
        ]

    assert kinds_of("1 shape", 1, 1) == ["1 shape", "64 shapes", "all different"]
    assert kinds_of("all different", 16, 16) == ["64 shapes", "all different"]
    assert kinds_of("64 shapes", 64, 256) == ["64 shapes"]
    assert kinds_of("1 shape", 1, 256) == ["1 shape"]
    assert kinds_of("chains", 1, 1) == ["chains"]


def test_panels():
    def rows(*cases):
        return [{"kind": k, "shapes": shapes, "cells": cells} for k, shapes, cells in cases]

    one, chain = ("1 shape", 1, 1), ("chains", 1, 1)
    assert peers.kinds(rows(one, chain)) == ["1 shape", "chains"]
    assert peers.kinds(rows(one, ("64 shapes", 64, 256), chain)) == ["64 shapes", "chains"]
    both = [("all different", 8, 8), ("1 shape", 1, 8)]
    assert peers.kinds(rows(one, *both, chain)) == ["1 shape", "all different", "chains"]
