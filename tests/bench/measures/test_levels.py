"""Kernels written for what cells share, beside those for any."""

import json

from bench import systems
from bench.measures import levels
from clhines import Forest


def test_shapes_have_the_levels_that_they_are_asked_for():
    for count in (1, 2, 5, 20):
        made = [*levels.shapes(count, 1), levels.equal_branches(count)]
        for forest in map(Forest, made):
            assert forest.trees.num_levels.tolist() == [count]
    lengths = Forest(levels.equal_branches(5)).trees.branch_length
    assert (lengths == lengths[0]).all() and len(lengths) == 9


def test_levels_times_both_kernels(measured_on, tmp_path):
    arguments = "--cells 3 --levels 1 4 --dtype float32 --out"
    assert levels.main([*arguments.split(), str(tmp_path)]) == 0
    (path,) = tmp_path.glob("levels-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert {(r["method"], r["levels"]) for r in rows} == {
        (m, n) for m in levels.KERNELS for n in (1, 4)
    }
    for row in rows:
        assert row["own_residual"] < systems.TOLERANCE["float32"]
        assert min(row["any_seconds"], row["own_build_cold_seconds"]) > 0
    assert max(map(len, path.with_suffix(".txt").read_text("utf-8").splitlines())) <= 100
    assert levels.main([*arguments.split(), str(tmp_path), "--seconds", "0"]) == 0
    assert f"{len(rows)} rows left out" in path.with_suffix(".txt").read_text("utf-8")
