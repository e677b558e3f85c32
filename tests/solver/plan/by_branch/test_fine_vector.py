"""Plans of `fine` with vectors."""

import numpy as np
import pytest
from plans import CPU, GPU
from systems import dissimilar

from bench.made import chain, random_binary_tree, star
from clhines import Forest, make_plan
from clhines.solver.plan.plan import Limits

pytestmark = pytest.mark.core


def test_vector_rows_example_by_hand():
    # branches 0 1 | 2 | 3 4 5 and, in the second cell, 6 7 8: two leaves and a chain of three
    forest = Forest.from_parents([np.array([-1, 0, 1, 1, 3, 4]), chain(3)])
    plan = make_plan(forest, "fine", vector_width=2, max_cells=2)
    expected = [5, 8, 4, 7, 3, 6, 2, -1, 1, -1, 0, -1]  # from the tips; then the root's branch
    assert plan.gather[:12].tolist() == expected
    assert (plan.gather[12:] == -1).all()
    tables = plan.parts[0].tables
    assert tables["template_vectors"].tolist() == [0, 3]
    assert tables["vector_place"].tolist() == [0, 6, 8]
    assert tables["vector_rows"].tolist() == [3, 1, 2]
    assert tables["vector_rounds"].tolist() == [0, 0, 0, 2]
    assert tables["round_child"].tolist()[:4] == [4, 0, 2, 0]  # the leaf, then the branch 3 4 5
    assert tables["lane_parent"].tolist() == [6, 0, 6, 0, 0, 0]


def test_equal_cells_meet_lane_for_lane():
    forest = Forest.from_parents([random_binary_tree(60, 9, 1)] * 8)
    tables = make_plan(forest, "fine", vector_width=4, max_cells=8).parts[0].tables
    assert (tables["vector_parent"][:-2] > 0).all()
    assert (tables["vector_parent"][-2:] == -1).all()  # the roots
    assert (tables["round_vector"][:-1] >= 0).all()
    assert (tables["vector_rows"] == tables["vector_even"]).all()


def test_fine_takes_vectors_on_cpus_unless_lanes_are_asked_for():
    forest = Forest.from_parents(dissimilar(9))
    for limits, options, template in [
        (CPU, {}, "solver/by_branch/fine_vector"),
        (CPU, {"work_group": 1}, "solver/by_branch/fine_vector"),
        (CPU, {"work_group": 2}, "solver/by_branch/fine"),
        (GPU, {}, "solver/by_branch/fine"),
        (GPU, {"work_group": 1}, "solver/by_branch/fine"),
        (GPU, {"vector_width": 2}, "solver/by_branch/fine_vector"),
    ]:
        assert (
            make_plan(forest, "fine", limits=limits, **options).parts[0].spec.template == template
        )


def test_vectors_leave_large_cells_in_global_memory_and_stars_to_lanes():
    cells = [chain(3000), star(2000), chain(9), random_binary_tree(40, 9, 1)]
    forest = Forest.from_parents(cells)
    limits = Limits(is_cpu=True, vector_bytes=32, local_bytes=32 << 10)
    plan = make_plan(forest, "fine", limits=limits)
    numbers = [part.tables["cell_number"].tolist() for part in plan.parts]
    assert [sorted(n) for n in numbers] == [[2, 3], [0], [1]]
    small, large, lanes = (part.spec for part in plan.parts)
    assert small.capacity > 0
    assert (large.template, large.capacity) == ("solver/by_branch/fine_vector", 0)
    assert large.vector_width == 1  # a single chain fills one lane only
    assert lanes.template == "solver/by_branch/fine"
    for part in plan.parts[:2]:
        spec = part.spec
        assert 2 * (spec.capacity + spec.slots) * 8 <= limits.local_bytes
        assert (1 + part.max_rhs) * spec.slots * 8 <= limits.local_bytes
