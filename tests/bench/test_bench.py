"""The benchmark beside other solvers: its rows, its baselines, and what it says of absent peers."""

import ctypes
import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import clhines
from clhines.cells import shapes as cells_shapes
from clhines.device import devices

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import bench_accuracy
import bench_devices
import bench_methods
import bench_plan
import bench_reach
import bench_ring
import bench_scale
import bench_solve
import bench_spikes
import common
import cuda_peers
import host_peers
import peers
import plot
import ring_peers

BENCH = Path(peers.__file__).parent
needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
TREES = {
    "single": [np.array([-1])],
    "pair": [np.array([-1, 0])],
    "chain": [cells_shapes.chain(40)],
    "star": [cells_shapes.star(40)],
    "caterpillar": [cells_shapes.caterpillar(40)],
    "binary": [cells_shapes.complete_binary(6)],
    "mixed": [
        cells_shapes.chain(63),
        cells_shapes.star(63),
        cells_shapes.caterpillar(63),
        cells_shapes.complete_binary(6),
        *(cells_shapes.random_binary_tree(63, 9, seed) for seed in range(4)),
    ],
}


def case(trees, cells, dtype="float64", kind="trees"):
    forest = clhines.Forest.repeated(trees, cells)
    return common.Case(None, forest, kind, np.dtype(dtype), peers.values(forest, dtype))


# -- the whole run -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ran(fast_queue, tmp_path_factory):
    """One small run of the command, on each device; what it wrote and printed."""
    index = next(i for i, d in devices.all_devices() if d == fast_queue.device)
    out = tmp_path_factory.mktemp("peers")
    command = [sys.executable, BENCH / "peers.py", "--device", index, "--out", out]
    command += "--cells 1 8 --nodes 32 --branches 7 --shapes 1 all --budget 0.05".split()
    command += "--dtype float32 --methods auto flat".split()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("peers-*.json")
    return path, json.loads(path.read_text("utf-8")), done.stdout


def test_every_case_has_its_rows(ran):
    _, result, _ = ran
    found = {}
    for r in result["rows"]:
        found.setdefault((r["cells"], r["kind"], r["dtype"]), []).append(r)
    kinds = [(1, "1 shape"), (1, "chains"), (8, "1 shape"), (8, "all different"), (8, "chains")]
    assert list(found) == [(*k, "float32") for k in kinds]
    for rows in found.values():
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
    """A peer that is installed is timed; one that is not has a line with the reason."""
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


def test_reach(fast_queue, monkeypatch, tmp_path, capsys):
    small = [replace(c, forest=bench_reach.trees(3, 40, 5)) for c in bench_reach.CASES[-5:-3]]
    small[0] = replace(small[0], variants=True)
    monkeypatch.setattr(bench_reach, "CASES", tuple(small))
    monkeypatch.setattr(bench_reach.devices, "make_queue", lambda _: fast_queue)
    names = [case.name for case in small]
    arguments = ["--cases", *names, "--dtype", "float32", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["bench_reach.py", *arguments])
    bench_reach.main()
    (path,) = tmp_path.glob("reach-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [(r["case"], r["way"]) for r in rows] == [
        (names[0], ""),
        (names[0], "factors kept"),
        (names[0], "natural order"),
        (names[1], ""),
    ]
    assert all(r["seconds"] > 0 and r["nodes"] == 120 for r in rows)
    assert all(len(line) <= 100 for line in capsys.readouterr().out.splitlines())


def test_every_method_on_one_mix(fast_queue, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_methods.devices, "make_queue", lambda _: fast_queue)
    arguments = ["--nodes", "3000", "--dtype", "float32", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["bench_methods.py", *arguments])
    assert bench_methods.main() == 0
    (path,) = tmp_path.glob("methods-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [r["method"] for r in rows] == ["auto", *clhines.METHODS]
    assert all(r["good"] and r["seconds"] > 0 and r["nodes"] > 1000 for r in rows)
    assert all(0 < r["error"] < 1e-5 for r in rows)
    assert all(len(line) <= 100 for line in capsys.readouterr().out.splitlines())
    monkeypatch.setattr(bench_methods.reference, "residual", lambda *_: 1.0)
    assert bench_methods.main() == 1


def test_options_on_one_mix(fast_queue, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_methods.devices, "make_queue", lambda _: fast_queue)
    some = ({}, {"reroot": True}, {"split": "mean"}, bench_methods.SHAPING[-1])
    monkeypatch.setattr(bench_methods, "SHAPING", some)
    monkeypatch.setattr(bench_methods, "LANES", ({"k": 4},))
    arguments = ["--options", "--nodes", "3000", "--dtype", "float32", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["bench_methods.py", *arguments])
    assert bench_methods.main() == 0
    (path,) = tmp_path.glob("options-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    rows = [r for r in rows if "vectors" not in r["kind"]]
    names = ["none", "reroot", "split=mean", "four of these", "local", "k=4"]
    assert [bench_methods.label(r["options"]) for r in rows] == names
    none, rerooted, split, _, _, dhs = rows
    assert rerooted["steps"] <= none["steps"] > split["steps"]
    assert split["padding"] < none["padding"] and split["levels"] > none["levels"]
    assert split["idle_lanes"] < none["idle_lanes"]
    assert dhs["padding"] == 0 and dhs["barriers"] > none["barriers"]
    assert all(r["good"] and r["seconds"] > 0 and 0 <= r["idle_lanes"] < 1 for r in rows)
    assert all(len(line) <= 100 for line in capsys.readouterr().out.splitlines())


def test_a_table_of_slow_solvers_is_not_wider():
    row = {"kind": "all different", "shapes": 1, "cells": 1, "nodes": 32, "dtype": "float32"}
    row |= {"name": "cuSPARSE gtsvInterleavedBatch, Thomas", "clock": "device"}
    rows = [{**row, "seconds": s, "x_floor": s / 3e-6} for s in (3e-6, 3.7e-6, 0.123, 12.3, 1234.5)]
    text = peers.table(rows, [])
    assert max(map(len, text.splitlines())) == 100
    assert [line.split()[-3:] for line in text.splitlines()[2:7]] == [
        ["3.0", "1.00", "93.750"],
        ["3.7", "1.23", "115.625"],
        ["123000.0", "41000.0", "3843750"],
        ["12300000", "4100000", "3.8e+08"],
        ["1.2e+09", "4.1e+08", "3.9e+10"],
    ]


def test_plan_time_of_every_method_and_option(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_plan, "ENOUGH", 1e-9)
    arguments = ["--options", "--nodes", "1024", "2048", "--out", str(tmp_path / "new")]
    monkeypatch.setattr(sys, "argv", ["bench_plan.py", *arguments])
    bench_plan.main()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    rows = json.loads((tmp_path / "new" / "plan-options.json").read_text("utf-8"))["rows"]
    assert {r["method"] for r in rows} == {"forest", "branches", *common.METHODS}
    asked = {name for r in rows if r["method"] == "fine" for name in r["options"]}
    assert asked == {"reroot", "split", "packing", "level_shift", "local"}
    assert 2 * sum(any(case in line for case in bench_plan.SHAPED) for line in lines) == len(rows)


def test_accuracy(fast_queue, monkeypatch, tmp_path, capsys):
    """Every row on every length; the picture can be drawn again, the same, without a device."""
    monkeypatch.setattr(bench_accuracy.devices, "make_queue", lambda _: fast_queue)
    monkeypatch.setattr(bench_accuracy, "MEMORY_CELLS", 20)
    arguments = ["--sizes", "3", "20", "--dtype", "float32", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["bench_accuracy.py", *arguments])
    bench_accuracy.main()
    (path,) = tmp_path.glob("accuracy-*.json")
    result = json.loads(path.read_text("utf-8"))
    found = [(r["nodes"], r["row"]) for r in result["accuracy"]]
    assert found == [(n, row) for n in (3, 20) for row in bench_accuracy.ROWS]
    assert all(0 < r["median"] <= r["largest"] < 1e-6 for r in result["accuracy"])
    assert [r["method"] for r in result["memory"]] == list(clhines.METHODS)
    assert all(len(line) <= 100 for line in capsys.readouterr().out.splitlines())
    if importlib.util.find_spec("matplotlib"):
        picture = path.with_suffix(".svg")
        drawn = picture.read_bytes()
        picture.unlink()
        monkeypatch.setattr(bench_accuracy.devices, "choose", None)
        monkeypatch.setattr(sys, "argv", ["bench_accuracy.py", "--draw", str(path)])
        bench_accuracy.main()
        assert picture.read_bytes() == drawn


def test_spikes(fast_queue, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_spikes.devices, "make_queue", lambda _: fast_queue)
    arguments = "--targets 500 --probability 0.1 0.5 --spikes 2 10 --max-delay 2 --out".split()
    monkeypatch.setattr(sys, "argv", ["bench_spikes.py", *arguments, str(tmp_path)])
    assert bench_spikes.main() == 0
    (path,) = tmp_path.glob("spikes-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [(r["probability"], r["spikes"]) for r in rows] == [
        (0.1, 2),
        (0.1, 10),
        (0.5, 2),
        (0.5, 10),
    ]
    for r in rows:
        assert r["good"] and r["found"] > 0 and r["chosen"] in r["seconds"]
        assert min(r["seconds"], key=r["seconds"].get) == r["best"]
        assert all(0 < t < np.inf for t in r["seconds"].values())
        assert r["chosen_x_best"] >= 1
    printed = capsys.readouterr().out
    assert all(len(line) <= 100 for line in printed.splitlines())
    assert printed.count(" is best in ") >= 1 and printed.count(" yes") == len(rows)
    if importlib.util.find_spec("matplotlib"):
        assert path.with_suffix(".svg").stat().st_size > 10_000
    monkeypatch.setattr(bench_spikes, "same_bits", lambda *_: False)
    assert bench_spikes.main() == 1


def test_solve_times_every_method(fast_queue, monkeypatch, tmp_path):
    """Also one with several kernels."""
    methods = ["flat", "levels"]
    monkeypatch.setattr(common, "TREE_METHODS", methods)
    monkeypatch.setattr(bench_solve.devices, "choose", lambda *_: fast_queue.device)
    arguments = "--cells 1 6 --nodes 40 --branches 4 --dtype float32 --out"
    monkeypatch.setattr(sys, "argv", ["bench_solve.py", *arguments.split(), str(tmp_path)])
    bench_solve.main()
    (path,) = tmp_path.glob("solve-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [(r["cells"], r["method"]) for r in rows] == [(c, m) for c in (1, 6) for m in methods]
    for row in rows:
        assert row["residual"] < common.TOLERANCE["float32"]
        names = "seconds", "numpy_seconds", "build_cold_seconds", "build_cached_seconds"
        assert min(row[name] for name in names) > 0
    assert max(map(len, path.with_suffix(".txt").read_text("utf-8").splitlines())) <= 100


def test_devices_and_slices(fast_queue, monkeypatch, tmp_path, capsys):
    """Two devices of one kind; here they are the same."""
    queues = [fast_queue, devices.make_queue(fast_queue.device)]
    monkeypatch.setattr(bench_devices, "find_queues", lambda _: queues)
    arguments = (
        "--cells 64 128 --nodes 32 --branches 4 --dtype float32 --times 0.4 --copy-bytes 4e6 --out"
    )
    monkeypatch.setattr(sys, "argv", ["bench_devices.py", *arguments.split(), str(tmp_path)])
    bench_devices.main()
    (path,) = tmp_path.glob("devices-*.json")
    result = json.loads(path.read_text("utf-8"))
    rows = [(r["cells"], r["devices"], r["shares"]) for r in result["rows"]]
    assert rows == [(c, k, [1 / k] * k) for c in (64, 128) for k in (1, 2)]
    for row in result["rows"]:
        assert max(row["packed_error"], row["numpy_error"]) < 1e-5
        assert len(row["device_seconds"]) == row["devices"]
        assert min(row["single_seconds"], row["stream_seconds"], row["numpy_seconds"]) > 0
    assert {row["pinned"] for row in result["slices"]} == {False, True}
    for row in result["slices"]:
        assert row["slices"] > 3
        assert row["error"] < 1e-5
        larger = max(row["copy_seconds"], row["compute_seconds"])
        assert row["ratio"] == pytest.approx(row["seconds"] / larger)
    assert min(result["gb_per_s"].values()) > 0
    text = path.with_suffix(".txt").read_text("utf-8")
    assert "64 cells, 2 devices:\n  on the devices 50.0%, 50.0% in " in text
    assert max(map(len, text.splitlines())) <= 100


def test_bad_shapes_are_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["peers.py", "--shapes", "0"])
    with pytest.raises(SystemExit):
        peers.arguments()
    assert "--shapes 0: expected a whole number" in capsys.readouterr().err


# -- what can go wrong with a peer -------------------------------------------------------------


def broken(case):
    raise RuntimeError("a broken library\nwith a long story")
    yield


def wrong(case):
    yield host_peers.out_of_place("off by a little", [lambda: case.sets[0][2] * 0.9] * 2)


def nan(case):
    yield host_peers.out_of_place("not a number", [lambda: case.sets[0][2] * np.nan] * 2)


def test_a_failing_or_wrong_peer_is_a_line(fast_queue, monkeypatch):
    """Neither ends the run, and neither is timed."""
    makers = {"broken": broken, "wrong": wrong, "nan": nan, "C": host_peers.c_serial}
    monkeypatch.setattr(peers, "PEERS", makers)
    forest = clhines.Forest.repeated([cells_shapes.chain(9)], 3)
    values = peers.values(forest, "float32")
    small = common.Case(fast_queue, forest, "chains", np.dtype("float32"), values)
    missing = []
    rows = peers.time_case(small, ["flat"], 0.01, missing)
    reasons = {m["name"]: m["reason"] for m in missing}
    assert reasons["broken"] == "RuntimeError: a broken library"
    assert reasons["off by a little"].startswith("wrong, so not timed: error 1, ")
    assert reasons["not a number"].startswith("wrong, so not timed: error nan")
    named = {r["name"] for r in rows}
    assert named - {"C, one thread"} == {peers.FLOOR, "clhines flat"}


def test_a_wrong_method_of_clhines_ends_the_run():
    small = case([cells_shapes.chain(9)], 3)
    candidate = next(wrong(small))
    candidate.name = "clhines flat"
    with pytest.raises(SystemExit, match="clhines flat.*wrong, so not timed"):
        list(peers.checked(small, [candidate], []))


def test_large_batches_are_held_against_the_first_solution(monkeypatch):
    monkeypatch.setattr(peers, "CHECKED", 10)
    small, missing = case([cells_shapes.chain(9)], 3), []
    good = [next(host_peers.scipy_sparse(small)) for _ in range(2)]
    passed = list(peers.checked(small, [*good, next(wrong(small))], missing))
    assert passed == good
    assert good[1].error == 0.0  # the same solver twice: no difference
    assert [m["name"] for m in missing] == ["off by a little"]


def test_no_compiler(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    host_peers.library.cache_clear()
    with pytest.raises(common.MissingError, match="no C compiler: set CC"):
        list(host_peers.c_serial(case([cells_shapes.chain(9)], 3)))


def test_a_compiler_that_fails(monkeypatch, tmp_path):
    script = tmp_path / "badcc"
    script.write_text("#!/bin/sh\necho 'x.c:1: error: no OpenMP here' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    host_peers.library.cache_clear()
    with pytest.raises(common.MissingError, match="badcc: x.c:1: error: no OpenMP here"):
        list(host_peers.c_serial(case([cells_shapes.chain(9)], 3)))


# -- the baselines -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TREES)
def test_depth_first(name):
    """A renumbering of the same tree; only starts of branches have a parent further away."""
    parents = np.stack(TREES[name])
    order, up = host_peers.depth_first(parents)
    for tree, o, p in zip(parents, order, up):
        assert sorted(o) == list(range(len(tree)))
        assert p[0] == -1 and (p[1:] < np.arange(1, len(tree))).all()
        np.testing.assert_array_equal(tree[o[1:]], o[p[1:]])
        further = int((p[1:] < np.arange(len(tree) - 1)).sum())
        children = np.bincount(tree[tree >= 0], minlength=len(tree))
        assert further == np.maximum(children - 1, 0).sum()


@needs_cc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cells", [1, 7, 16, 33, 100])
@pytest.mark.parametrize("name", TREES)
def test_c_baselines(name, cells, dtype):
    """All three are right, for lanes that are full or not, and any number of children."""
    small = case(TREES[name], cells, dtype)
    found = [*host_peers.c_serial(small), *host_peers.c_different(small)]
    try:
        found += host_peers.c_equal(small)
    except common.MissingError:
        assert cells < 8 * len(TREES[name]) * (1 if dtype == "float64" else 2)
    for candidate in found:
        peers.check(small, candidate, {})  # raises where the error is too large
        assert candidate.error is not None


def test_all_different_means_all():
    assert common.batch(50, 64, 9, 50).trees.num_trees == 50
    assert common.batch(50, 64, 9, 1).trees.num_trees == 1


# -- cuSPARSE, as its manual describes it ------------------------------------------------------


class FakeArray(np.ndarray):
    """An array that says where it lies as CuPy's do."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


class FakeEvent:
    now = 0

    def record(self):
        FakeEvent.now += 1
        self.at = FakeEvent.now

    def synchronize(self):
        pass


def thomas(real, interleaved, m, count, pointers):
    """Solve chains at four addresses; destroy what gtsvInterleavedBatch destroys."""
    shape = (m, count) if interleaved else (count, m)
    kind = ctypes.POINTER({"D": ctypes.c_double, "S": ctypes.c_float}[real])
    arrays = [np.ctypeslib.as_array(ctypes.cast(p, kind), shape) for p in pointers]
    dl, d, du, x = ((a.T if interleaved else a).copy() for a in arrays)
    assert not dl[:, 0].any() and not du[:, -1].any()  # the manual asks for these zeros
    for c in range(count):
        matrix = np.diag(d[c]) + np.diag(dl[c, 1:], -1) + np.diag(du[c, :-1], 1)
        x[c] = np.linalg.solve(matrix, x[c])
    arrays[3][...] = x.T if interleaved else x
    if interleaved:
        for a in arrays[:3]:
            a[...] = np.nan


class FakeLibrary:
    """Both routines in both precisions, with the order of arguments of cuSPARSE 12 and 13."""

    def __getattr__(self, name):
        real, routine = name.removeprefix("cusparse")[0], name.removeprefix("cusparse")[1:]
        size = routine.endswith("_bufferSizeExt")
        interleaved = routine.startswith("gtsvInterleavedBatch")
        assert interleaved or routine.startswith("gtsv2StridedBatch")

        def call(handle, *arguments):
            assert handle.value == 7
            if interleaved:
                algorithm, m, *arrays, count, last = arguments
                assert algorithm.value == 0
            else:
                m, *arrays, count, stride, last = arguments
                assert stride.value == m.value
            assert len(arrays) == 4 and all(isinstance(a, ctypes.c_void_p) for a in arrays)
            if size:
                last._obj.value = 64
            else:
                thomas(real, interleaved, m.value, count.value, arrays)
            return 0

        return call


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cells", [1, 5])
@pytest.mark.parametrize("make", [cuda_peers.strided, cuda_peers.interleaved])
def test_cusparse_is_called_as_its_manual_says(monkeypatch, make, cells, dtype):
    fake = SimpleNamespace(
        asarray=lambda a: a.copy().view(FakeArray),
        asnumpy=np.asarray,
        empty=lambda n, dtype: np.empty(n, dtype).view(FakeArray),
        cuda=SimpleNamespace(
            Event=FakeEvent, get_elapsed_time=lambda begin, end: 1000.0 * (end.at - begin.at)
        ),
    )
    monkeypatch.setattr(cuda_peers, "cupy", lambda: fake)
    monkeypatch.setattr(cuda_peers, "library", lambda: (FakeLibrary(), ctypes.c_void_p(7)))
    monkeypatch.setattr(cuda_peers, "delay", lambda: lambda *launch: None)
    small = case([cells_shapes.chain(9)], cells, dtype, "chains")
    (candidate,) = make(small)
    for _ in range(2):  # what the first run destroyed is back for the second
        peers.check(small, candidate, {})
    assert candidate.clock == "device" and candidate.run(0) == 1.0
    assert not list(make(case([cells_shapes.chain(9)], cells, dtype, "1 shape")))


def test_cusparse_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda_peers.cupy.cache_clear()
    with pytest.raises(common.MissingError, match="cupy"):
        list(cuda_peers.strided(case([cells_shapes.chain(9)], 3, kind="chains")))


# -- the picture -------------------------------------------------------------------------------


def test_points_of_a_panel():
    """A batch with as many shapes as cells is a point of every panel that would have made it."""

    def kinds_of(kind, shapes, cells):
        row = {"kind": kind, "shapes": shapes, "cells": cells}
        return [
            k for k in ("1 shape", "64 shapes", "all different", "chains") if plot.belongs(row, k)
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
    assert plot.kinds(rows(one, chain)) == ["1 shape", "chains"]
    assert plot.kinds(rows(one, ("64 shapes", 64, 256), chain)) == ["64 shapes", "chains"]
    both = [("all different", 8, 8), ("1 shape", 1, 8)]
    assert plot.kinds(rows(one, *both, chain)) == ["1 shape", "all different", "chains"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(1e-7, "100 ns"), (1e-6, "1 µs"), (1e-4, "100 µs"), (10.0, "10 s")]
)
def test_duration(seconds, text):
    assert plot.duration(seconds) == text


# -- the ring network beside other simulators --------------------------------------------------

TINY = ring_peers.Case(
    3, 2, levels=2, compartments=2, duration=12.0, seconds=5.0, engine="reference"
)
SIMULATORS = {"NEURON": "neuron", "CoreNEURON": "neuron", "Arbor": "arbor", "Jaxley": "jaxley"}


@pytest.fixture(scope="module")
def ring_ran(tmp_path_factory):
    """One small run of the command; what it wrote and printed."""
    out = tmp_path_factory.mktemp("ring")
    command = [sys.executable, BENCH / "bench_ring.py", "--out", out, "--engines", "reference"]
    command += "--cells 3 --hh soma --shapes 2 --levels 2 --compartments 2 --duration 12".split()
    command += "--seconds 5 --dtype float64 --threads 2 --most 60".split()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("ring-*.json")
    return path, json.loads(path.read_text("utf-8")), done.stdout


def test_every_simulator_has_a_row_or_a_line(ring_ran):
    """The same compartments and the same spikes, each more than once timed."""
    path, result, printed = ring_ran
    rows = {r["name"].split()[0]: r for r in result["ring"]}
    assert "clhines" in rows
    for name, module in SIMULATORS.items():
        line = f"missing: {name}: not installed"
        assert (name in rows) != (line in printed)
        assert (name in rows) == (importlib.util.find_spec(module) is not None), printed
    assert len({r["compartments"] for r in rows.values()}) == 1
    for r in rows.values():
        assert r["pieces"] >= ring_peers.LEAST and r["nodes"] >= r["compartments"]
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


@pytest.mark.neuron
def test_neuron_has_the_same_cells():
    """Areas and resistances of the peer are those of our cable; so its nodes are ours."""
    neuron = pytest.importorskip("neuron")
    for cable in TINY.cables():
        sections = ring_peers.neuron_cell(neuron.h, cable, False)
        segments = [segment for section in sections for segment in section]
        membrane = np.flatnonzero(cable.area)
        np.testing.assert_allclose([s.area() for s in segments], cable.area[membrane], rtol=1e-12)
        ours = 1 / cable.g_axial[membrane[1:]]
        np.testing.assert_allclose([s.ri() for s in segments[1:]], ours, rtol=1e-12)


def test_arbor_has_as_many_compartments():
    arbor = pytest.importorskip("arbor")
    for cable in TINY.cables():
        volumes = arbor.cv_data(ring_peers.arbor_cell(arbor, cable, False)).num_cv
        forks = np.bincount(cable.sections.parent[1:]) > 1
        assert volumes == cable.nseg.sum() + forks.sum()


def test_peers_that_fail_have_a_reason(monkeypatch):
    def fails(case):
        raise RuntimeError("a broken library\nwith a long story")

    monkeypatch.setitem(ring_peers.PEERS, "NEURON", fails)
    found = ring_peers.run("NEURON", TINY)
    assert found["reason"] == "RuntimeError: a broken library"
    assert (found["name"], found["cells"]) == ("NEURON", 3)


def test_a_peer_that_takes_too_long_or_dies(monkeypatch, tmp_path):
    script = tmp_path / "peer.py"
    monkeypatch.setattr(bench_ring.ring_peers, "__file__", str(script))
    script.write_text("import time; time.sleep(60)")
    assert bench_ring.start("NEURON", TINY, 0.5)["reason"] == "took more than 0 s"
    script.write_text("import sys; sys.exit('no licence')")
    assert (
        bench_ring.start("NEURON", TINY, 60)["reason"] == "ended with code 1 and said: no licence"
    )


def ring_arguments(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bench_ring.py", *arguments])
    return bench_ring.arguments()


def test_sizes_beyond_the_time_are_not_tried(monkeypatch):
    """Of a simulator that fails, or would take too long, no larger network is tried."""
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

    clock = iter([0, 30, 30, 60, 60, 120])  # runs take 30 s, and 60 s of more cells
    monkeypatch.setattr(bench_ring, "start", start)
    monkeypatch.setattr(bench_ring.time, "perf_counter", lambda: next(clock))
    text = "--cells 16 32 256 --peers NEURON Arbor --engines --hh soma --shapes 2"
    text += " --seconds 10 --most 100"
    found = list(bench_ring.measured(ring_arguments(monkeypatch, *text.split())))
    assert tried == [("NEURON", 16), ("Arbor", 16), ("NEURON", 32)]
    reasons = [(f["name"], f["cells"], f["reason"]) for f in found if "reason" in f]
    more = "more cells would take more than 100 s"
    assert reasons == [
        ("Arbor", 16, "broken"),
        ("Arbor", 32, "broken"),
        ("NEURON", 256, more),
        ("Arbor", 256, "broken"),
    ]


def test_time_of_more_cells_is_foreseen():
    """A start of 2 s and 1 s for every 240 cells; of one size alone nothing is known."""
    assert bench_ring.foreseen({}, 16) == bench_ring.foreseen({16: 2.0}, 256) == 0
    assert bench_ring.foreseen({16: 2.0, 256: 3.0}, 1216) == pytest.approx(7.0)
    assert bench_ring.foreseen({16: 3.0, 256: 2.0}, 1216) == 2.0  # noise


def test_cases_of_a_run(monkeypatch, capsys):
    """Each kind of cells with each number of different trees; all means as many as cells."""
    tried = []

    def start(name, case, most):
        tried.append((case.hh, case.cells, case.shapes))
        return {"name": name, "cells": case.cells, "reason": "not here"}

    monkeypatch.setattr(bench_ring, "start", start)
    text = "--cells 128 --peers NEURON --engines --shapes 64 all"
    found = list(bench_ring.measured(ring_arguments(monkeypatch, *text.split())))
    assert tried == [(hh, 128, n) for hh in ("soma", "all") for n in (64, 128)]
    assert [f["case"] for f in found][:2] == [
        "HH in the soma, passive dendrites; 64 different trees",
        "HH in the soma, passive dendrites; all different trees",
    ]
    with pytest.raises(SystemExit):
        ring_arguments(monkeypatch, "--shapes", "0")
    assert "--shapes 0: expected a whole number" in capsys.readouterr().err


def test_simulators_take_turns(monkeypatch):
    tried = []

    def start(name, case, most):
        tried.append(name)
        taken = [3e-6, 1e-6, 2e-6] if len(tried) < 3 else [8e-6, 9e-6]
        return {"name": name, "simulated_ms": len(taken), "compartments": 10, "taken": taken}

    monkeypatch.setattr(bench_ring, "start", start)
    text = "--cells 16 --peers NEURON Arbor --engines --hh soma --shapes 2 --rounds 2"
    neuron, arbor = bench_ring.measured(ring_arguments(monkeypatch, *text.split()))
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
    assert bench_ring.difference(other, truth) == said


def test_wrong_spikes_are_not_a_row(monkeypatch, tmp_path, capsys):
    """Of a peer they make a line; of clhines they end the run."""
    good = {**ring_peers.run("clhines", TINY), "case": "a ring"}
    late = {**good, "name": "Arbor 1", "spikes": {"time": [11.0], "cell": [0]}}
    arguments = ["--hh", "soma", "--out", str(tmp_path)]
    for rows, code in (([good, late], None), ([{**late, "name": "NEURON 9"}, good], 1)):
        copies = [dict(r) for r in rows]
        monkeypatch.setattr(bench_ring, "measured", lambda _, copies=copies: iter(copies))
        ring_arguments(monkeypatch, *arguments)
        if code is None:
            bench_ring.main()
            assert "missing: Arbor 1: 1 spikes up to" in capsys.readouterr().out
        else:
            with pytest.raises(SystemExit, match=r"clhines \(reference\), float64, 3 cells"):
                bench_ring.main()


# -- ranks -------------------------------------------------------------------------------------


def scale_row(kind, count, cells, seconds, **more):
    """A row as two equal ranks would measure it, in pieces of 100 steps."""
    case = {"kind": kind, "ranks": count, "cells": cells, "dtype": "float64", "delay": 5.0}
    piece = {"all": 100 * seconds, "exchange": 25 * seconds}
    own = {"pieces": [piece] * bench_scale.PIECES, "received": 50, "exchanges": 4}
    own |= {
        "device_bytes": 1000 * cells // count,
        "host_bytes": 10**8 + (3000 + 2000 // count) * cells,
    }
    own |= {"described_s": 0.1, "made_s": 0.2, "where": "here", "engine": "epochs"}
    found = {"every": [own] * count, "compartments": 10 * cells, "steps": 100, "spikes": 5}
    return bench_scale.row_of({**case, **more}, {**found, "digest": f"of {cells}"})


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
    bench_scale.against_first(rows)
    assert [r["speed_up"] for r in rows] == pytest.approx([1, 1.6, 2, 1, 1.6])
    assert [r["efficiency"] for r in rows] == pytest.approx([1, 0.8, 2, 1, 0.8])
    text = bench_scale.table(rows, [{**rows[0], "reason": "too slow"}])
    assert max(map(len, text.splitlines())) <= 100
    assert "missing: strong, 1 ranks, 40 cells: too slow" in text


def test_other_spikes_end_the_run():
    rows = [scale_row("strong", 1, 40, 4e-3), scale_row("strong", 2, 40, 2e-3)]
    rows[1]["digest"] = "other"
    with pytest.raises(
        SystemExit, match="40 cells, float64: other spikes with 2 ranks than with 1"
    ):
        bench_scale.against_first(rows)


def test_the_model_extended_by_hand():
    """3 kB of a cell on every host, 2 kB on its own; 10 Hz, 200 steps of 0.025 ms, 4 B a spike."""
    rows = [scale_row("strong", k, n, n * 1e-6) for n in (1000, 2000) for k in (1, 2)]
    text = bench_scale.extended(rows)
    assert "1.0 kB on its device, 2.0 kB on its rank's host\nand 3.0 kB on that of every" in text
    assert max(map(len, text.splitlines())) <= 100
    one, eight = (line for line in text.splitlines() if line.strip().startswith("1,000,000 "))
    assert one.split()[:8] == "1,000,000 1 1 GB 5 GB 200 s".split()
    assert eight.split()[:8] == "1,000,000 8 0.125 GB 3.25 GB 25 s".split()
    assert "0.2 MB" in one
    assert "needs rows" in bench_scale.extended(rows[:3])
