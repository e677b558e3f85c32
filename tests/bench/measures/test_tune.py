"""The fit of `auto`'s cost model."""

import json

import numpy as np
import pytest

from bench.made import chain, random_binary_tree, star
from bench.measures import tune
from clhines import Forest
from clhines.solver.plan import auto
from clhines.solver.plan.auto import CANDIDATES
from clhines.solver.plan.plan import Limits

CPU = Limits(compute_units=2, is_cpu=True, vector_bytes=32)


def planted_rows(costs):
    """Cases whose times follow exactly from the costs."""
    rows = []
    trees = [chain(50), chain(900), random_binary_tree(300, 40, 1), star(80)]
    for tree in trees:
        for count in (1, 5, 40, 300):
            known = auto.statistics(Forest.repeat([tree], count))
            seconds = {}
            for c in CANDIDATES["cpu"]:
                values = auto.terms(known, CPU, "float64", c.options)
                if str(c) in costs:
                    seconds[str(c)] = sum(k * values[name] for name, k in costs[str(c)].items())
            statistics = json.loads(json.dumps(vars(known)))
            rows.append({"shape": str(len(tree)), "dtype": "float64", "statistics": statistics,
                         "seconds": seconds})  # fmt: skip
    return rows


def test_a_fit_finds_planted_costs(monkeypatch, tmp_path, capsys):
    costs = {
        "flat": {"launch": 3e-5, "nodes": 4e-9},
        "fine": {"launch": 1e-5, "steps": 2e-8},
        "block_interleaved": {"launch": 4e-5, "vectors": 9e-9},
    }
    rows = planted_rows(costs)
    result = {"record": {"device": "d", "driver": "1"}, "limits": {**vars(CPU)}, "rows": rows}
    (tmp_path / "tune.json").write_text(json.dumps(result))
    table = tmp_path / "costs.json"
    kept = {"fitted_to": {"gpu float64": "g"}, "costs": {"gpu float64": {"fine": {"launch": 1.0}}}}
    table.write_text(json.dumps(kept))
    monkeypatch.setattr(tune, "COSTS", table)
    tune.fit([str(tmp_path / "tune.json")])
    assert "worst 1.0" in capsys.readouterr().out.splitlines()[1]
    results = json.loads(table.read_text())
    assert results["costs"]["gpu float64"] == kept["costs"]["gpu float64"]
    assert set(results["costs"]["cpu float64"]) == set(costs)
    monkeypatch.setattr(auto, "costs", lambda: results["costs"])
    for row in rows:
        statistics = tune.statistics_of(row)
        for c in CANDIDATES["cpu"]:
            if str(c) in costs:
                expected = pytest.approx(row["seconds"][str(c)], rel=0.05)
                assert auto.predict(c, statistics, CPU, "float64") == expected


def test_least_squares_are_not_negative():
    rng = np.random.default_rng(4)
    A = rng.random((30, 5))
    for truth in ([1.0, 0, 2, 0, 3], [0, 0, 0, 5.0, 0]):
        assert tune.non_negative(A, A @ truth) == pytest.approx(truth, abs=2e-2)
    solution = tune.non_negative(A, A @ [1.0, -1, 1, 1, 1])
    assert (solution >= 0).all() and solution[1] == 0
