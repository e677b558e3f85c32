"""Plans of `dhs`."""

import numpy as np
import pytest
from plans import CPU, GPU
from systems import dissimilar

from bench.made import chain, star
from clhines import Forest, InputError, make_plan
from clhines.solver.literature.dhs import NODE, exchange_slots, k_lane_steps
from clhines.solver.plan.plan import Limits


def test_steps_example_by_hand():
    # cell 0: 0 - 1 -+- 2            cell 1: one node
    #                +- 3 - 4
    forest = Forest(np.array([-1, 0, 1, 1, 3, -1]), np.array([0, 5, 6]))
    part = make_plan(forest, "dhs", k=2, work_group=8, exchange=False).parts[0]
    # steps: 4 and 2, the tips; 3; 1; 0
    tables = {name: table.tolist() for name, table in part.tables.items()}
    assert make_plan(forest, "dhs", k=2, exchange=False).gather.tolist() == [4, 2, 3, 1, 0, 5]
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
    forest = Forest.from_parents(dissimilar(9))
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
    forest = Forest.from_parents([chain(30), star(20), chain(100), star(30), chain(5), chain(101)])
    small = Limits(local_bytes=2 * 100 * 8 + 4 * 64)
    plan = make_plan(forest, "dhs", limits=small, local=True)
    local, rest = plan.parts
    assert sorted(local.tables["cell_number"].tolist()) == [0, 1, 2, 3, 4]
    assert (local.spec.capacity, local.spec.work_group, local.max_rhs) == (100, 16, 1)
    assert local.statistics["local_bytes"] == 1600
    assert (rest.spec.capacity, rest.spec.template) == (0, "solver/literature/dhs")
    assert set(rest.tables["cell_number"].tolist()) == {5, -1}
    assert "local bytes     1600" in plan.describe()
    assert "local bytes     0" in plan.describe()
    with pytest.raises(InputError, match="work_group=32 puts 2 cells .* 1856 bytes are enough for"):
        make_plan(forest, "dhs", limits=small, local=True, work_group=32)
    large = make_plan(forest, "dhs", np.float32, limits=GPU, local=True)
    (part,) = large.parts
    assert (part.spec.capacity, part.spec.work_group, part.max_rhs) == (256, 64, 4)
    assert make_plan(forest, "dhs", exchange=False).parts[0].spec.capacity == 0


def test_exchange_slots_by_hand():
    # cell 0: 0 - 1 -+- 2            cell 1: one node
    #                +- 3 - 4
    forest = Forest(np.array([-1, 0, 1, 1, 3, -1]), np.array([0, 5, 6]))
    plan = make_plan(forest, "dhs", k=2, work_group=4, exchange=True)
    (part,) = plan.parts
    tables = {name: table.tolist() for name, table in part.tables.items()}
    # steps: 4 and 2, the tips; 3, which inherits from 4; 1, from 2, the first child that went; 0
    assert plan.gather.tolist() == [4, 5, 2, -1, 3, -1, 1, -1, 0, -1]
    assert NODE.unpack("slot", part.tables["node_code"]).tolist() == [0, 1, 0, 1, 1, 0]
    assert (part.tables["node_code"] & 3).tolist() == [0, 0, 1, 3, 1, 0]
    assert tables["node_joins"] == [0, 0, 0, 0, 1, 1, 1]
    assert tables["join_slot"] == [0, 0]
    assert tables["group_start"] == [0]
    assert tables["step_first"][tables["group_step"][0] :] == [0, 2, 3, 4, 5]
    assert (part.spec.slots >= 2, part.spec.cells) == (True, 2)


@pytest.mark.parametrize("k", [1, 2, 4, 32])
def test_no_lane_takes_a_slot_that_another_lane_uses_in_the_same_step(k):
    rng = np.random.default_rng(3)
    parent = np.array([-1, *(rng.integers(max(0, i - 6), i) for i in range(1, 300))])
    trees = Forest.from_parents([parent, star(40), chain(9)]).trees
    steps = k_lane_steps(trees, k)
    slots = exchange_slots(trees, steps)
    slot = NODE.unpack("slot", slots.code)
    node = 0
    for tree in range(trees.num_trees):
        holder: dict[int, int] = {}  # slot -> the node whose sum lies there
        for width in steps.width[steps.offsets[tree] : steps.offsets[tree + 1]]:
            read = {}
            for i in range(node, node + width):
                children = np.flatnonzero(trees.parent == steps.order[i])
                found = slots.join_slot[slots.joins[i] : slots.joins[i + 1]].tolist()
                found += [slot[i]] * bool(len(children))
                assert {holder.pop(s) for s in found} == set(children)  # nobody wrote there since
                read |= dict.fromkeys(found, i)
            for i in range(node, node + width):
                assert slot[i] not in holder and read.get(slot[i], i) == i
                assert slot[i] < slots.most[tree]
                holder[slot[i]] = steps.order[i]
            node += width
        assert list(holder.values()) == [
            trees.offsets[tree]
            + np.argmin(trees.parent[trees.offsets[tree] : trees.offsets[tree + 1]])
        ]


def test_many_cells_get_fewer_lanes_on_a_gpu():
    forest = Forest.repeat([chain(2)], 40)
    for units, lanes in [(40, 16), (1, 16), (0.5, 8), (0.1, 4)]:
        limits = Limits(compute_units=units)  # fractions stand for a larger batch
        assert make_plan(forest, "dhs", limits=limits).parts[0].spec.lanes == lanes
    assert (
        make_plan(forest, "dhs", limits=Limits(compute_units=0.1, is_cpu=True)).parts[0].spec.lanes
        == 16
    )


def test_exchange_needs_factors_in_global_memory_and_room_for_slots():
    forest = Forest.from_parents([chain(30), star(200)])
    with pytest.raises(InputError, match="exchange=True keeps factors in global memory"):
        make_plan(forest, "dhs", exchange=True, local=True)
    small = Limits(local_bytes=4 * 64 + 2 * 8 * 50)  # for 50 slots; the star needs 199
    slots, places = make_plan(forest, "dhs", limits=small).parts
    assert slots.spec.template == "solver/literature/dhs_exchange"
    assert slots.tables["cell_number"].max() == 0
    assert (
        places.spec.template == "solver/literature/dhs" and places.tables["cell_number"].max() == 1
    )
