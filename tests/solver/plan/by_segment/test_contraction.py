"""Plans of `contraction`."""

import time
from dataclasses import replace

import numpy as np
import pytest

from bench.made import chain, random_binary_tree, star
from clhines import Forest, make_plan
from clhines.solver.plan.plan import Limits

pytestmark = pytest.mark.core

PIECES = "solve", "reduce", "expand"


def test_contraction_cuts_cells_above_local_memory():
    cells = [chain(400), star(30), chain(400), chain(7), star(600)]
    forest = Forest.from_parents(cells)
    small = Limits(local_bytes=8 << 10)
    plan = make_plan(forest, "contraction", limits=small)
    parts = [(part.spec.template, part.phase, part.source, part.target) for part in plan.parts]
    assert parts == [
        ("solver/by_segment/contraction", "reduce", 0, 1),
        ("solver/by_segment/contraction", "solve", 1, 0),
        ("solver/by_segment/contraction", "expand", 0, 1),
        ("solver/by_branch/fine", "solve", 0, 0),
    ]
    reduce, rest, expand, stars = (set(p.tables["cell_number"].tolist()) for p in plan.parts)
    assert reduce == rest == {0, 2}
    assert expand == {0, 1, 2, 3}  # the small cells share these launches
    assert plan.parts[0].num_groups == plan.parts[2].launches[0][0] < plan.parts[2].num_groups
    assert stars == {4}
    assert np.array_equal(np.sort(plan.gather[plan.gather >= 0]), np.arange(forest.num_nodes))


@pytest.mark.parametrize(
    ("cells", "dtype", "limits"),
    [
        ([chain(1655)] * 4300, "float64", Limits(132, 1024)),
        ([chain(3000), star(1000)], "float32", Limits(132, 1024)),
        ([chain(480)] * 300, "float64", Limits(4, 64, local_bytes=16 << 10)),
        ([chain(960)] * 300 + [star(60)] * 9, "float64", Limits(4, 256, local_bytes=32 << 10)),
        ([chain(5000), star(30)], "float32", Limits(4, 32, local_bytes=8 << 10)),
    ],
)
def test_contraction_stays_within_local_memory(cells, dtype, limits):
    plan = make_plan(Forest.from_parents(cells), "contraction", dtype, limits)
    for part in plan.parts:
        if part.spec.template == "solver/by_segment/contraction":
            values = 3 * part.spec.capacity + 3 * part.spec.work_group  # unsymmetric
            assert values * np.dtype(dtype).itemsize + 8 * part.spec.segment <= limits.local_bytes


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("cells", "direct"),
    [
        ([chain(8192)], True),
        ([chain(8192)] * 600, True),
        ([chain(4096)] * 3 + [chain(50)] * 9, True),
        ([random_binary_tree(5000, 500, 1)] * 200, True),
        ([random_binary_tree(5000, 500, 1)] * 600, False),  # many lanes: values leave registers
        ([chain(8192), chain(60_000)], False),  # three launches are needed anyway
    ],
)
def test_cells_above_local_memory_in_registers(cells, direct, dtype):
    """With NVIDIA's compiler, one launch holds such cells in registers; its local memory fits."""
    limits = Limits(132, 1024, ptx=True)
    forest = Forest.from_parents(cells)
    plan = make_plan(forest, "contraction", dtype, limits)
    parts = [part for part in plan.parts if part.spec.direct]
    assert len(parts) == direct
    for part in parts:
        size = 6 * np.dtype(dtype).itemsize + 4
        assert part.spec.work_group * size + 8 * part.spec.segment <= limits.local_bytes
        assert set(plan.forest.sizes[part.tables["cell_number"]]) == {max(map(len, cells))}
    assert {part.phase for part in plan.parts} == ({"solve"} if direct else {*PIECES})
    others = make_plan(forest, "contraction", dtype, replace(limits, ptx=False))
    assert not any(part.spec.direct for part in others.parts)
    other = make_plan(forest, "contraction", dtype, replace(limits, ptx=False), registers=direct)
    assert any(part.spec.direct for part in other.parts) == direct


def test_contraction_in_groups_too_small_for_pieces():
    plan = make_plan(Forest(chain(5000)), "contraction", limits=Limits(), work_group=1)
    assert [part.spec.template for part in plan.parts] == ["solver/by_branch/fine"]


def test_many_branching_children_are_planned_at_once():
    m = 6000  # children of the root with two leaves each; one child per round would take minutes
    parent = np.concatenate(([-1], np.zeros(m, int), np.repeat(np.arange(1, m + 1), 2)))
    begin = time.process_time()
    make_plan(Forest(parent), "contraction", limits=Limits(132, 1024))
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("cell", "count", "dtype", "direct"),
    [
        (chain(512), 2560, "float64", True),
        (chain(1024), 1280, "float64", True),
        (chain(256), 5000, "float64", True),
        (chain(512), 25_600, "float64", False),  # memory limits, not latency
        (chain(512), 64, "float64", False),  # too few: shorter segments
        (chain(512), 2560, "float32", False),  # twice as many fit into local memory
        (random_binary_tree(512, 50, 1), 2560, "float64", False),  # idle lanes
    ],
)
def test_chains_of_which_few_are_in_flight_are_in_registers(cell, count, dtype, direct):
    limits = Limits(compute_units=132, local_bytes=48 << 10, is_cpu=False, ptx=True)
    plan = make_plan(Forest.repeat([cell], count), "contraction", dtype, limits)
    (part,) = plan.parts
    assert (part.spec.direct, part.spec.keeps_factors) == (direct, not direct)
    if direct:
        assert part.spec.segment == 16
    other = make_plan(plan.forest, "contraction", dtype, replace(limits, ptx=False))
    assert not other.parts[0].spec.direct
