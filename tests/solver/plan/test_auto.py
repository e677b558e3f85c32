"""The choice of `auto`: candidates and the cost model."""

import re
import time

import numpy as np
import pytest
from systems import dissimilar, families

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import METHODS, Forest, make_plan
from clhines.core.errors import InputError
from clhines.solver.plan import auto
from clhines.solver.plan.auto import CANDIDATES, Candidate
from clhines.solver.plan.methods import candidate_plans
from clhines.solver.plan.plan import Limits

pytestmark = pytest.mark.core

CPU = Limits(compute_units=2, is_cpu=True, vector_bytes=32)
GPU = Limits(compute_units=132, max_work_group=1024)
FOREST = Forest.from_parents([chain(5), star(4), chain(5)])


def forests():
    cells = [random_binary_tree(300, 30, k) for k in range(4)]
    return [
        Forest.from_parents([chain(1)]),
        FOREST,
        Forest.repeat(cells, 400),
        Forest.repeat([chain(2000)], 3),
        Forest.repeat([star(3000), caterpillar(50)], 20),
        Forest.from_parents(dissimilar(60)),
    ]


def test_candidates_are_rows_with_their_own_options():
    for row in (c for rows in CANDIDATES.values() for c in rows):
        assert set(row.options) <= set(METHODS[row.method].options)
    for rows in CANDIDATES.values():
        assert len({str(c) for c in rows}) == len(rows)


def test_no_gpu_shaped_row_on_a_cpu():
    assert not {c.method for c in CANDIDATES["cpu"]} & {"contraction", "interleaved"}
    for forest in forests():
        for dtype in ("float64", "float32"):
            methods = [c.method for c, _ in auto.ranked(forest, dtype, CPU)]
            assert not set(methods) & {"contraction", "interleaved"}
            assert make_plan(forest, dtype=dtype, limits=CPU).method == methods[0]
    assert make_plan(FOREST, limits=Limits(is_cpu=False)).method == "contraction"


def test_contraction_is_the_choice_of_a_gpu_without_fitted_costs(monkeypatch):
    monkeypatch.setattr(auto, "costs", dict)
    assert [c for c, _ in auto.ranked(FOREST, "float64", GPU)] == list(CANDIDATES["gpu"])
    assert make_plan(FOREST, limits=GPU).method == "contraction"


@pytest.mark.parametrize("limits", [CPU, GPU], ids=["cpu", "gpu"])
def test_every_candidate_is_planned_or_passed_over(limits):
    for forest in forests():
        plans = list(candidate_plans(forest, "float64", limits))
        assert plans
        for candidate, plan in plans:
            assert candidate.method == plan.method
            nodes = plan.gather[plan.gather >= 0]
            assert np.array_equal(np.sort(nodes), np.arange(forest.num_nodes))


def test_refused_candidates_are_passed_over(monkeypatch):
    rows = (Candidate("fine", {"work_group": 10**6}), Candidate("flat"))
    monkeypatch.setitem(CANDIDATES, "cpu", rows)
    assert [c for c, _ in candidate_plans(FOREST, "float64", CPU)] == [rows[1]]
    monkeypatch.setitem(CANDIDATES, "cpu", rows[:1])
    with pytest.raises(InputError, match="work_group=1000000 is above the device's limit"):
        make_plan(FOREST, limits=CPU)


def test_asked_for_options_override_those_of_candidates():
    plan = make_plan(FOREST, limits=CPU, vector_width=2)
    assert plan.method in ("fine", "block_interleaved")
    assert plan.parts[0].spec.vector_width == 2
    plans = list(candidate_plans(FOREST, "float64", CPU, vector_width=2))
    assert {str(c) for c, _ in plans} == {"fine vector_width=2", "block_interleaved vector_width=2"}
    with pytest.raises(InputError, match="option 'colour' is not one of what auto .* max_cells"):
        make_plan(FOREST, colour=3)


def branch_steps(parent):
    """Return the sum of each level's longest branch, by the definition of a branch."""
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    level, length, longest = {}, {}, {}
    for i, p in enumerate(parent):  # parents come first
        same = p >= 0 and children[p] == 1
        level[i] = 0 if p < 0 else level[p] + (not same)
        length[i] = length[p] + 1 if same else 1
        longest[level[i]] = max(longest.get(level[i], 0), length[i])
    return sum(longest.values())


def test_statistics_against_counting():
    cells = [random_binary_tree(n, k, n) for n, k in ((1, 1), (40, 7), (97, 20), (64, 1))]
    cells += [chain(9), star(12), caterpillar(11), cells[1], cells[1]]
    expected = auto.statistics(Forest.from_parents(cells))
    steps = [branch_steps(c) for c in cells]
    assert (expected.cells, expected.nodes, expected.shapes) == (9, sum(map(len, cells)), 7)
    assert expected.shape_nodes == sum(map(len, cells[:7]))
    assert (expected.largest, expected.deepest, expected.steps) == (97, max(steps), sum(steps))
    once = expected.shape_nodes - 40
    assert expected.padded == tuple(w * once + -(-3 // w) * w * 40 for w in (1, 2, 4, 8, 16))


def test_statistics_of_all_families():
    for cells in families().values():
        cells = [c for c in cells if (np.arange(len(c)) > c).all()]
        if cells:
            assert auto.statistics(Forest.from_parents(cells)).deepest == max(
                branch_steps(c) for c in cells
            )


def test_ranking_is_by_the_sum_of_costs(monkeypatch):
    costs = {"flat": {"launch": 1.0, "bytes": 1e-3}, "fine": {"launch": 2.0}}
    monkeypatch.setattr(auto, "costs", lambda: {"cpu float64": costs})
    small, large = Forest.from_parents([chain(100)]), Forest.from_parents([chain(200)])
    assert auto.ranked(small, "float64", CPU)[:2] == [
        (Candidate("flat"), pytest.approx(1.8)),
        (Candidate("fine"), 2.0),
    ]
    assert auto.ranked(large, "float64", CPU)[0] == (Candidate("fine"), 2.0)
    assert all(np.isinf(s) for _, s in auto.ranked(large, "float32", CPU))


def test_fitted_costs_name_terms_and_are_not_negative():
    expected = auto.terms(auto.statistics(FOREST), CPU, "float64", {})
    for key, table in auto.costs().items():
        assert re.fullmatch("(cpu|gpu) float(32|64)", key)
        for terms in table.values():
            assert set(terms) <= set(expected)
            assert terms and all(c > 0 for c in terms.values())


def test_ranking_takes_far_less_than_a_millisecond():
    forest = Forest.repeat([random_binary_tree(200, 20, k) for k in range(8)], 2000)
    auto.ranked(forest, "float64", CPU)  # computes statistics once
    seconds = []
    for _ in range(20):
        begin = time.perf_counter()
        auto.ranked(forest, "float64", CPU)
        seconds.append(time.perf_counter() - begin)
    assert min(seconds) < 1e-3
