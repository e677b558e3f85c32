"""Every method on small batches."""

import json

from bench import systems
from bench.measures import solve


def test_solve_times_every_method(measured_on, monkeypatch, tmp_path):
    """Also a method with several kernels."""
    methods = ["flat", "levels"]
    monkeypatch.setattr(systems, "TREE_METHODS", methods)
    arguments = "--cells 1 6 --nodes 40 --branches 4 --dtype float32 --out"
    arguments = [*arguments.split(), str(tmp_path)]
    solve.main(arguments)
    (path,) = tmp_path.glob("solve-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [(r["cells"], r["method"]) for r in rows] == [(c, m) for c in (1, 6) for m in methods]
    for row in rows:
        assert row["residual"] < systems.TOLERANCE["float32"]
        names = "seconds", "numpy_seconds", "build_cold_seconds", "build_cached_seconds"
        assert min(row[name] for name in names) > 0
    assert max(map(len, path.with_suffix(".txt").read_text("utf-8").splitlines())) <= 100
