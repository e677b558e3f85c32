"""Plans with one launch per branch level."""

import numpy as np
import pytest

from bench.made import chain
from clhines import Forest, make_plan
from clhines.solver.plan.plan import Limits

pytestmark = pytest.mark.core


def launches(plan):
    return sum(len(part.launches) for part in plan.parts)


def test_layout_and_launches_by_hand():
    # cell 0: 0 1 | 2 | 3 4 5; cell 1: 6 7 8; cell 2: 9 | 10 | 11 12
    forest = Forest(
        [-1, 0, 1, 1, 3, 4, -1, 6, 7, -1, 9, 9, 11], cell_offsets=np.array([0, 6, 9, 13])
    )
    plan = make_plan(forest, "levels", work_group=2, padding="skip")
    roots = [6, 0, 9, 7, 1, -1, 8, -1, -1]  # longest first, element j of all branches side by side
    others = [3, 11, 2, 10, 4, 12, -1, -1, 5, -1, -1, -1]
    assert plan.gather[:21].tolist() == roots + others
    assert (plan.gather[21:] == -1).all()
    assert plan.packed_size == 32
    backward, forward = plan.parts
    assert (backward.phase, backward.launches) == ("backward", ((1, 2), (0, 2)))
    assert (forward.phase, forward.launches) == ("forward", ((1, 2),))
    assert backward.tables["cell_number"].tolist() == [1, 0, 2]
    assert backward.tables["child_first"].tolist() == [9, 11, 10, 12]
    assert forward.tables["branch_parent"].tolist() == [-1, -1, -1, 4, 2, 4, 2]
    assert backward.statistics == {
        "levels": 2,
        "launches": 2,
        "dependent_steps": 3 + 2 * 3,
        "idle_lanes": pytest.approx(1 - 13 / (2 * (3 + 1 + 3 + 1))),
    }
    padded = make_plan(forest, "levels", work_group=2, padding="compute").parts[1].statistics
    assert padded == {
        "levels": 2,
        "launches": 1,
        "dependent_steps": 3,
        "idle_lanes": pytest.approx(1 - 7 / (2 * (3 + 3))),
    }
    text = plan.describe()
    assert text.count("  launches        ") == 2


def test_a_long_chain_among_many_short_ones_takes_little_memory():
    forest = Forest.from_parents([chain(3)] * 3000 + [chain(100_000)])
    plan = make_plan(forest, "levels")
    assert plan.packed_size <= forest.num_nodes + 32
    assert launches(plan) == 2


@pytest.mark.parametrize(
    ("limits", "computed"),
    [
        (Limits(), {"float64": (False, False), "float32": (False, False)}),
        (Limits(is_cpu=True), {"float64": (False, False), "float32": (False, False)}),
        (Limits(is_cpu=True, vectorises=True), {"float64": (True, True), "float32": (True, True)}),
    ],
    ids=["GPU", "CPU", "CPU that vectorises"],
)
def test_padding_is_computed_where_that_is_faster(limits, computed):
    """Compare branches of different lengths and chains of one length; `padding=` overrides."""
    forests = Forest.from_parents([chain(3), chain(5)]), Forest.from_parents([chain(4)] * 2)
    for dtype, expected in computed.items():
        for forest, computes in zip(forests, expected):
            plan = make_plan(forest, "levels", dtype, limits)
            assert plan.parts[0].spec.computes_padding == computes
            for padding in ("compute", "skip"):
                plan = make_plan(forest, "levels", dtype, limits, padding=padding)
                assert plan.parts[0].spec.computes_padding == (padding == "compute")
