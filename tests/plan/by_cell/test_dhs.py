"""Plans of `dhs`."""

import numpy as np
import pytest
from plans import CPU, GPU
from systems import dissimilar

from clhines import Forest, InputError, make_plan
from clhines.cells.shapes import chain, star
from clhines.plan.plan import Limits


def test_steps_example_by_hand():
    # cell 0: 0 - 1 -+- 2            cell 1: one node
    #                +- 3 - 4
    forest = Forest(np.array([-1, 0, 1, 1, 3, -1]), np.array([0, 5, 6]))
    part = make_plan(forest, "dhs", k=2, work_group=8).parts[0]
    # steps: 4 and 2, the tips; 3; 1; 0
    tables = {name: table.tolist() for name, table in part.tables.items()}
    assert make_plan(forest, "dhs", k=2).gather.tolist() == [4, 2, 3, 1, 0, 5]
    assert tables["cell_number"] == [0, 1, -1, -1]
    assert tables["cell_start"] == [0, 5, 5, 5]
    assert tables["cell_node"] == [0, 5, 0, 0]
    assert tables["cell_step"] == [0, 5, 0, 0]
    assert tables["cell_steps"] == [4, 1, 0, 0]
    assert tables["group_steps"] == [4]
    assert tables["step_first"] == [0, 2, 3, 4, 5, 0, 1]
    assert tables["node_parent"] == [2, 3, 3, 4, -1, -1]
    assert tables["node_order"] == [forest.trees.rank[v] for v in (4, 2, 3, 1, 0)] + [0]
    assert tables["node_children"] == [0, 0, 0, 1, 3, 4, 4]
    assert tables["node_child"] == [0, 1, 2, 3, 0]
    assert part.statistics["steps"] == 4
    assert part.statistics["dependent_steps"] == part.statistics["barriers"] == 8
    assert part.statistics["idle_lanes"] == pytest.approx(1 - 6 / (4 * 8))
    assert part.statistics["cells_per_block"] == 2


def test_lanes_and_work_groups_of_dhs():
    forest = Forest.from_cells(dissimilar(9))
    for limits, options, expected in [
        (GPU, {}, (16, 64)),
        (CPU, {}, (16, 16)),
        (Limits(max_work_group=9), {}, (8, 8)),
        (GPU, {"k": 32}, (32, 64)),
        (GPU, {"k": 1}, (1, 8)),
        (GPU, {"work_group": 24}, (8, 24)),
        (CPU, {"k": 4}, (4, 4)),
    ]:
        spec = make_plan(forest, "dhs", limits=limits, **options).parts[0].spec
        assert (spec.lanes, spec.work_group) == expected
    with pytest.raises(InputError, match="k=32 is above the device's limit of 16 work-items"):
        make_plan(forest, "dhs", limits=Limits(max_work_group=16), k=32)


def test_dhs_leaves_large_cells_in_global_memory():
    forest = Forest.from_cells([chain(30), star(20), chain(100), star(30), chain(5), chain(101)])
    small = Limits(local_bytes=2 * 100 * 8 + 4 * 64)
    plan = make_plan(forest, "dhs", limits=small, local=True)
    local, rest = plan.parts
    assert sorted(local.tables["cell_number"].tolist()) == [0, 1, 2, 3, 4]
    assert (local.spec.capacity, local.spec.work_group, local.max_rhs) == (100, 16, 1)
    assert local.statistics["local_bytes"] == 1600
    assert (rest.spec.capacity, rest.spec.template) == (0, "by_cell/dhs")
    assert set(rest.tables["cell_number"].tolist()) == {5, -1}
    assert "local bytes     1600" in plan.describe()
    assert "local bytes     0" in plan.describe()
    with pytest.raises(InputError, match="work_group=32 puts 2 cells .* 1856 bytes are enough for"):
        make_plan(forest, "dhs", limits=small, local=True, work_group=32)
    large = make_plan(forest, "dhs", np.float32, limits=GPU, local=True)
    (part,) = large.parts
    assert (part.spec.capacity, part.spec.work_group, part.max_rhs) == (256, 64, 4)
    assert make_plan(forest, "dhs").parts[0].spec.capacity == 0
