"""The papers' experiments: every figure in one small run, and their parts."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from bench_cases import needs_cc
from processes import output_of

import clhines
from bench import MissingError, __main__, record, systems
from bench import made as shapes
from bench.measures import peers
from bench.papers import batch, cases, command, patterns, report
from bench.peers import host
from clhines.core.errors import DeviceMemoryError
from clhines.solver import reference
from clhines.solver.device import devices

BENCH = Path(record.__file__).parent
TREES = [shapes.random_binary_tree(n, 7, n) for n in (1, 12, 40, 41)]

# -- the whole run -----------------------------------------------------------------------------

LINES = {
    "report-7.1": {"old", "fine", "fine, split", "fine, packing counted", "auto"},
    "report-7.2": {"old", "fine, split", "flat", "block-interleaved", "auto"},
    "report-ends": {"old", "fine, split", "auto"},
    "report-options": {"none", "all"},
    "batch-3": {"flat", "full-interleaved", "C/OpenMP, cell by cell", "auto"},
    "batch-4": {"block-interleaved 32", "block-interleaved 512", "block-shared", "flat"},
    "batch-5": {"full-interleaved", "C/OpenMP, cell by cell", "contraction"},
    "batch-6": {"flat", "full-interleaved", "block-interleaved", "block-shared"},
    "batch-9": {"Thomas, interleaved", "CR-PCR"},
    "batch-10": {"Thomas, interleaved", "CR-PCR", "C/OpenMP, cell by cell"},
    "batch-11": {"Thomas, interleaved", "CR-PCR", "C/OpenMP, cell by cell"},
    "batch-13": {"padding skipped", "padding computed", "all of 32 nodes", "all of 64 nodes"},
    "batch-14": {"levels", "full-interleaved", "C/OpenMP, cell by cell"},
    "batch-padding": {"padding skipped", "padding computed"},
}  # figures whose rows are times; some must have several panels
PANELS = {
    "report-7.1": 2,
    "report-7.2": 6,
    "report-ends": 3,
    "report-options": 4,
    "batch-5": 2,
    "batch-6": 4,
}
PANELS |= {"batch-14": 2, "batch-padding": 6}
WITHOUT_C = {"report-7.1", "report-7.2", "report-ends", "report-options"}
WITHOUT_C |= {"batch-9", "batch-13", "batch-padding"}


@needs_cc
def test_every_figure(fast_queue, tmp_path):
    """One quick run of the command: in one test, so that no two workers run it."""
    index = next(i for i, d in devices.all_devices() if d == fast_queue.device)
    words = [BENCH, "papers", "--quick", "--device", index, "--out", tmp_path]
    printed = output_of(*words, timeout=300)
    (folder,) = tmp_path.glob("papers-*")
    results = {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}
    assert set(results) == set(command.FIGURES)
    for name, result in results.items():
        check_files(folder / f"{name}.json", result, printed)
    for name in LINES:
        check_times(name, results[name])
    rows = results["report-4.1"]["rows"]
    assert {r["panel"].split()[0] for r in rows} == set(report.BRANCHINGS)
    assert all(0 <= r["idle_sorted"] <= r["idle_unsorted"] < 1 for r in rows)
    assert any(r["idle_sorted"] < r["idle_unsorted"] - 0.05 for r in rows)
    accuracy, memory = results["batch-12"]["rows"], results["batch-12"]["memory"]
    assert all(0 < r["median"] <= r["largest"] < 1e-13 for r in accuracy)
    assert all(m["bytes"] >= 4 * 8 * m["nodes"] * batch.SYSTEMS for m in memory)
    assert all(r["good"] for r in results["review-4"]["rows"])


def check_times(name, result):
    """The paper's lines and the floor, each checked, and speed-ups over one thread of C."""
    rows = result["rows"]
    assert LINES[name] <= {r["name"] for r in rows}, name
    assert len({r["panel"] for r in rows}) >= PANELS.get(name, 1), name
    sequential = {
        (r["panel"], r["cells"]): r["seconds"] for r in rows if r["name"] == cases.SEQUENTIAL
    }
    assert bool(sequential) == (name not in WITHOUT_C), name
    for r in rows:
        assert 0 < r["seconds"] < np.inf and r["num_nodes"] <= cases.QUICK_NODES * 2, r
        if r["name"] == peers.FLOOR:
            continue
        assert 0 < r["error"] < peers.BOUND * np.finfo(r["dtype"]).eps, r
        if sequential:
            expected = sequential[r["panel"], r["cells"]] / r["seconds"]
            assert r["speedup"] == pytest.approx(expected), r
    assert result["scaled"], "all of them are smaller than the paper's"


def check_files(path, result, printed):
    assert {"device", "driver", "seed", "commit"} <= set(result["record"])
    assert result["rows"] and result["setup"] and result["figure"] == path.stem
    text = path.with_suffix(".txt").read_text("utf-8")
    assert text.strip() in printed
    assert max(map(len, text.splitlines()[2:])) <= 100  # the second names the device
    if importlib.util.find_spec("matplotlib"):
        assert 10_000 < path.with_suffix(".svg").stat().st_size < 200_000


# -- failures -----------------------------------------------------------------------------------


def test_an_unknown_figure(capsys):
    with pytest.raises(SystemExit):
        command.main(["batch-3", "batch-99"])
    error = capsys.readouterr().err.splitlines()[-1]
    assert "no figure 'batch-99'; there are report-2.1, report-4.1" in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nodes", "0"], "--nodes 0.0: expected a positive number"),
        (["--seconds", "nan"], "--seconds nan: expected a positive number"),
        (["--device", "no such device"], "papers: device='no such device' matches no device"),
    ],
)
def test_arguments_that_make_no_sense(arguments, said, capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main(["papers", *arguments])
    assert said in str(caught.value.code) + capsys.readouterr().err


def test_a_figure_that_fails_does_not_end_the_others(measured_on, monkeypatch, tmp_path, capsys):
    def fails(run):
        raise ValueError("a broken figure")

    broken = command.Figure("broken", fails, None)
    whole = command.FIGURES["report-4.1"]
    monkeypatch.setattr(command, "FIGURES", {"broken": broken, "report-4.1": whole})
    assert command.main(["--quick", "--out", str(tmp_path)]) == 1
    (folder,) = tmp_path.iterdir()
    assert sorted(p.suffix for p in folder.iterdir() if p.suffix != ".svg") == [".json", ".txt"]
    assert capsys.readouterr().err.splitlines()[-1] == "failed: broken: ValueError: a broken figure"
    drawn = json.loads((folder / "report-4.1.json").read_text("utf-8"))
    assert drawn["figure"] == "report-4.1"


def run_on(queue, most_nodes=2000, quick=True):
    return cases.Run(queue, quick, most_nodes, 0.01)


@needs_cc
def test_a_wrong_method_ends_its_figure_and_a_wrong_peer_does_not(fast_queue):
    def wrong(case):
        yield host.out_of_place("off", [lambda: case.sets[0][2] * 0.9] * 2)

    run, missing = run_on(fast_queue), []
    case = cases.batch(run, TREES, 5, "trees", "float32")
    peer = cases.Entry("off", wrong, new=True)
    rows = cases.timed(run, case, [cases.SEQUENTIAL_ENTRY, peer], missing, panel="p")
    assert [r["name"] for r in rows] == [peers.FLOOR, cases.SEQUENTIAL]
    assert rows[1]["speedup"] == 1 and rows[1]["num_nodes"] == case.forest.num_nodes
    assert missing[0]["name"] == "off" and missing[0]["reason"].startswith("wrong")
    own = cases.Entry("off", wrong, own=True)
    with pytest.raises(MissingError, match="off, .*wrong, so not timed"):
        cases.timed(run, case, [own], missing, panel="p")


def test_no_compiler_no_speed_up(fast_queue, monkeypatch):
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", "")
    host.library.cache_clear()
    run = run_on(fast_queue)
    case = cases.batch(run, TREES, 2, "trees", "float32")
    with pytest.raises(MissingError, match="speed-ups are over C, one thread: no C compil"):
        cases.timed(run, case, [cases.SEQUENTIAL_ENTRY], [], panel="p")


# -- the pieces --------------------------------------------------------------------------------


def test_counts_are_scaled_and_said_so():
    scaled = []
    run = run_on(None, 13_000, quick=False)
    assert run.counts((2, 20, 200), 64, scaled) == [2, 20, 200] and not scaled
    assert run.counts((2, 20, 200, 2000), 512, scaled) == [2, 20]
    assert run.counts((2, 2000, 20_000), 10, scaled) == [2, 1300]
    assert run.counts((2,), 1e6, scaled) == [1]
    assert scaled == [
        "200, 2,000 cells of 512 nodes scaled to the 20 before them",
        "2,000, 20,000 cells of 10 nodes scaled to 1,300",
        "2 cells of 1000000 nodes scaled to 1",
    ]
    assert run_on(None, 13_000).counts((1, 2, 3), 10, scaled) == [1, 3]


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_cells_of_figure_14(levels):
    """512 nodes, half of them or a few more in the first branch, then 2, 4, 8 equal branches."""
    forest = clhines.Forest.from_parents([batch.level_tree(levels)])
    trees = forest.trees
    assert forest.num_nodes == 512 and trees.num_levels[0] == levels
    assert np.bincount(trees.branch_level).tolist() == [2**k for k in range(levels)]
    lengths = [trees.branch_length[trees.branch_level == k] for k in range(levels)]
    assert all(np.ptp(each) == 0 for each in lengths)
    assert [int(each[0]) for each in lengths] == {
        2: [256, 128],
        3: [256, 64, 32],
        4: [264, 42, 21, 10],
    }[levels]


def test_memory_of_strided_batch():
    """The formula of section 4.1.2 beside the four arrays: twice and a bit for large systems."""
    plain = 4 * 8 * 8192 * 20_000
    assert batch.strided_bytes(8192) == plain + 20_000 * (4 * 8192 + 2048) * 8


def test_values_of_a_batch_repeat(fast_queue, monkeypatch):
    monkeypatch.setattr(cases, "PERIOD", 4)
    case = cases.batch(run_on(fast_queue), TREES, 10, "trees", "float32")
    forest, one = case.forest, sum(map(len, TREES))
    assert forest.sizes.tolist() == [len(TREES[k % 4]) for k in range(10)]
    for values in case.sets:
        assert all(len(a) == forest.num_nodes and a.dtype == np.float32 for a in values)
        assert all(np.array_equal(a[: 2 * one], np.tile(a[:one], 2)) for a in values)
        d, u, b = values
        assert not u[forest.parent < 0].any() and np.all(d > 0) and np.ptp(b[:one]) > 0
        assert reference.residual(forest, *values, reference.solve_serial(forest, *values)) < 1e-6


@needs_cc
@pytest.mark.parametrize("make", [host.c_serial, host.c_multicore])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_c_takes_cells_of_any_sizes(make, dtype):
    case = cases.batch(run_on(None), TREES, 30, "trees", dtype)
    (candidate,) = make(case)
    for k, values in enumerate(case.sets):
        candidate.run(k)
        error = reference.residual(case.forest, *values, candidate.result(k))
        assert error < peers.BOUND * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_solutions_that_repeat_are_looked_at_everywhere(fast_queue, monkeypatch, dtype):
    """A wrong or missing value in any cell is detected, on the device and on the host."""
    monkeypatch.setattr(cases, "PERIOD", 4)
    case = cases.batch(run_on(fast_queue), TREES, 30, "trees", dtype)
    assert case.part.num_cells == 4 and len(case.values[0][0]) == case.part.num_nodes
    candidate = peers.own(case, "flat")
    peers.check(case, candidate, {})
    assert 0 <= candidate.error < peers.BOUND * np.finfo(dtype).eps
    right = np.resize(candidate.result(0).once, case.forest.num_nodes)
    assert reference.residual(case.forest, *case.sets[0], right) < 1e-6
    for place, value in ((-1, np.nan), (200, np.nan), (-1, 7), (300, -7)):
        wrong = right.copy()
        wrong[place] = value
        for x in (wrong, cla.to_device(fast_queue, wrong)):
            candidate.result = lambda k, x=x: case.solution(x)
            with pytest.raises(MissingError, match="wrong, so not timed"):
                peers.check(case, candidate, {})


def test_what_does_not_fit_is_said(fast_queue):
    """The line has the reason and the cells, and the others are timed."""

    def full(case):
        raise DeviceMemoryError("needs 200 GiB of 139 GiB")

    def driver(case):
        raise cl.MemoryError("create_buffer", -4, "out of memory")

    run, missing = run_on(fast_queue), []
    case = cases.batch(run, TREES, 5, "trees", "float32")
    entries = [cases.Entry("large", full, own=True), cases.Entry("larger", driver, own=True)]
    rows = cases.timed(run, case, [*entries, batch.FLAT], missing, panel="p")
    assert [r["name"] for r in rows] == [peers.FLOOR, "flat"]
    result = {"rows": rows, "setup": {}, "scaled": [], "missing": missing}
    said = cases.notes({**result, "record": {"load_before": 0}})
    assert "missing: large: DeviceMemoryError: needs 200 GiB of 139 GiB; 5 cells of p" in said
    assert "missing: larger: MemoryError: create_buffer" in said


@needs_cc
def test_the_host_of_another_device_gets_a_part(fast_queue, monkeypatch):
    """It gets whole repeats of the batch; the time is in proportion, and the row says so."""
    monkeypatch.setattr(cases, "PERIOD", 4)
    run, one = run_on(fast_queue), sum(map(len, TREES))
    run.host_nodes = 2.5 * one
    case = cases.batch(run, TREES, 30, "trees", "float64")
    whole = dataclasses.replace(cases.SEQUENTIAL_ENTRY, name="all", on_host=False)
    rows = cases.timed(run, case, [cases.SEQUENTIAL_ENTRY, whole], [], panel="p")
    row_of = {r["name"]: r for r in rows}
    part = row_of[cases.SEQUENTIAL]
    assert part["timed_cells"] == 8 and part["cells"] == 30
    result = {"rows": rows, "setup": {}, "scaled": [], "missing": [], "record": {"load_before": 0}}
    assert "*: time of the host in proportion to that of fewer cells: 8 cells" in cases.notes(
        result
    )
    given = case.first(8)
    assert given.forest.num_nodes == 2 * one and given.part.num_nodes == one
    (candidate,) = host.c_serial(given)
    peers.check(given, candidate, {})


@pytest.mark.parametrize("row", ["flat", "interleaved", "auto"])
def test_cells_shared_out_to_queues(fast_queue, monkeypatch, row):
    """The second share begins within a repeat of the values."""
    monkeypatch.setattr(cases, "PERIOD", 4)
    case = cases.batch(run_on(fast_queue), [batch.cell("small-high")], 30, "1 shape", "float64")
    queues = [fast_queue, devices.make_queue(fast_queue.device)]
    candidate = batch.on_queues(row, row, case, queues)
    peers.check(case, candidate, {})
    assert candidate.run(0) > 0


def test_cells_of_table_1():
    for name, (nodes, branches, _) in batch.CELLS.items():
        forest = clhines.Forest.from_parents([batch.cell(name)])
        assert (forest.num_nodes, forest.num_branches) == (nodes, branches)
        assert name in batch.six(name) and f"({nodes}, {branches})" in batch.six(name)


def test_reconstructions_of_table_1_come_from_a_folder(fast_queue, tmp_path):
    """Files have their names at NeuroMorpho.Org; random trees replace missing ones."""
    run = run_on(fast_queue)
    assert batch.origin(run).endswith("not its reconstructions")
    points = "1 1 0 0 0 5 -1\n2 3 9 0 0 1 1\n3 3 19 0 0 1 2\n4 3 9 9 0 1 2\n"
    (tmp_path / "202-2-19nj.CNG.swc").write_text(points)
    run.cells = tmp_path
    assert batch.origin(run).startswith("202-2-19nj.CNG.swc, a node for each point; the others")
    assert batch.cell("small-high", tmp_path).tolist() == [-1, 0, 1, 1]
    assert "(4, 3)" in batch.six("small-high", tmp_path)
    assert len(batch.cell("small-low", tmp_path)) == 76


def test_layouts_of_figure_2(fast_queue):
    rows = {r["panel"]: r["places"] for r in patterns.measure_2(run_on(fast_queue))["rows"]}
    assert rows["Flat"] == [(s, e) for s in range(4) for e in range(3)]
    assert rows["Full-Interleaved"] == [(s, e) for e in range(3) for s in range(4)]
    blocks = [(b + s, e) for b in (0, 2) for e in range(3) for s in range(2)]
    assert rows["Block-Interleaved"] == blocks


def test_launches_of_figure_7(fast_queue):
    mono, multi = patterns.measure_7(run_on(fast_queue))["rows"]
    assert mono["launches"] == 1 and multi["launches"] == 2 * patterns.BRANCH_LEVELS - 1


def test_branches_end_at_random():
    """Below the last level, (1 - p)^2 of the branches have no child, 2 p (1 - p) have one."""
    counts = np.zeros(3)
    for seed in range(300):
        parent, level = report.grow_with_ends(np.random.default_rng(seed), 0.5)
        children = np.bincount(parent[parent >= 0], minlength=len(parent))
        counts += np.bincount(children[level < report.LEVELS - 1], minlength=3)
        assert (level[parent[parent >= 0]] + 1 == level[parent >= 0]).all()
    np.testing.assert_allclose(counts / counts.sum(), [0.25, 0.5, 0.25], atol=0.02)


def test_times_between_events_span_all_kernels(fast_queue, monkeypatch):
    """The time of a method with several launches is not only the last one's."""
    monkeypatch.setattr(systems, "on_host", lambda _: False)
    case = cases.batch(run_on(fast_queue), [batch.level_tree(4)], 50, "x", "float32")
    kept = []
    solver = clhines.Solver
    monkeypatch.setattr(clhines, "Solver", lambda *a, **k: kept.append(solver(*a, **k)) or kept[0])
    candidate = peers.own(case, "levels")
    seconds = candidate.run(0)
    times = [(e.profile.end - e.profile.start) * 1e-9 for e in kept[0].kernel_events]
    assert len(times) >= 7 and seconds >= sum(times) * 0.999
