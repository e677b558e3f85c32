"""Parts of the 2018 report's figures: its cells, its old solver, its blocks."""

import numpy as np
import pytest

import clhines
from bench import made as shapes
from bench import systems
from bench.cells import ring_cell
from bench.measures import peers
from bench.papers import cases, report, report_claims
from bench.peers import old
from clhines.solver import reference

TREES = [shapes.random_binary_tree(n, 7, n) for n in (1, 12, 40, 41)]


def run_on(queue, most_nodes=2000, quick=True):
    return cases.Run(queue, quick, most_nodes, 0.01)


def test_cells_are_those_of_the_ring_network():
    run = run_on(None)
    for branching in report.BRANCHINGS.values():
        for k, tree in enumerate(report.trees(run, branching)):
            cell = ring_cell(report.LEVELS, branching, report.COMPARTMENTS, k, stems=report.STEMS)
            assert np.array_equal(tree, cell.parent)


def test_branches_get_shorter_where_asked():
    """A cell that never splits: both stems have 20, 16, 11, 7 and 2 compartments, and one more."""
    (tree,) = {t.tobytes() for t in report.trees(run_on(None), 0.0, report.FALLING)}
    trees = clhines.Forest(np.frombuffer(tree, np.int32)).trees
    assert trees.branch_length.tolist() == [1, 57, 57]
    usual, falling = (report.trees(run_on(None), 0.9, s) for s in (report.USUAL, report.FALLING))
    assert all(len(a) > len(b) for a, b in zip(usual, falling))


def test_layout_of_the_old_solver_by_hand():
    """Cells with 3, 1 and 2 nodes: 3, 2, 1 side by side in the one block, with 32 elements."""
    forest = clhines.Forest([-1, 0, 1, -1, -1, 4], cell_offsets=np.array([0, 3, 4, 6]))
    place, sizes, length = old.layout(forest)
    assert place.tolist() == [0, 32, 64, 2, 1, 33]
    assert (sizes.tolist(), length) == ([3, 2, 1], 32)
    assert old.idle(forest) == pytest.approx(1 - 6 / (3 * 32))
    many = clhines.Forest.repeat([shapes.chain(5)], 33)
    place, _, length = old.layout(many)
    assert length == 32
    assert sorted(place[::5].tolist()) == [*range(32), 32 * 32]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("packed", [True, False])
def test_the_old_solver_is_right(fast_queue, needs, dtype, packed, monkeypatch):
    needs(fast_queue, np.dtype(dtype))
    case = cases.batch(run_on(fast_queue), TREES, 70, "trees", dtype)
    for on_host in (True, False):
        monkeypatch.setattr(systems, "on_host", lambda _, on_host=on_host: on_host)
        candidate = old.solver(case, "old", packed)
        for k, values in enumerate(case.sets):
            for _ in range(2):  # it destroys d and b
                assert candidate.run(k) > 0
            error = reference.residual(case.forest, *values, candidate.result(k))
            assert error < peers.BOUND * np.finfo(dtype).eps


def test_packing_counted(fast_queue, monkeypatch):
    """From natural order to natural order; on a GPU without the gaps between the kernels."""
    case = cases.batch(run_on(fast_queue), TREES, 20, "trees", "float32")
    for on_host in (True, False):
        monkeypatch.setattr(systems, "on_host", lambda _, on_host=on_host: on_host)
        for method, options in (("flat", {}), ("contraction", {}), ("fine", {"work_group": 4})):
            candidate = report.packing(case, method, method, **options)
            assert candidate.run(0) > 0
            error = reference.residual(case.forest, *case.sets[0], candidate.result(0))
            assert error < peers.BOUND * np.finfo("float32").eps


def idle(levels, warp):
    start = np.cumsum([0, *map(len, levels[:-1])])
    return report.idle(np.concatenate(levels), start, warp)


def test_idle_lanes_by_hand():
    """Lanes with 5, 1 and 2 steps: 8 busy of 10 + 4 steps; alone in a warp none is idle."""
    assert idle([[5, 1], [2]], 2) == pytest.approx(1 - 8 / 14)
    assert idle([[5, 1], [2]], 1) == 0
    assert idle([[5, 5, 1, 1]], 2) == 0
    assert idle([[5, 1, 5, 1]], 2) == pytest.approx(0.4)


def test_a_block_ends_before_the_cell_that_is_too_wide(monkeypatch):
    monkeypatch.setattr(report, "BLOCK", 4)
    widths = [[1, 2], [1, 2], [1, 1], [1, 3], [1, 9], [1, 1]]
    assert report.blocks_in_turn(widths).tolist() == [0, 0, 1, 1, 2, 3]


def test_branches_of_a_block_by_hand(monkeypatch):
    """Two cells in a block, then a third: roots with 1, 2; tips with 4, 1, 3 and 3; and again."""
    first = [-1, 0, 1, 2, 3, 0]  # a root, tips of 4 and 1
    second = [-1, 0, 1, 2, 3, 1, 5, 6]  # a root of two, tips of 3 and 3
    forest = clhines.Forest.from_parents([first, second, first])
    monkeypatch.setattr(report, "BLOCK", 4)
    unsorted, sorted_, start = report.both_orders(forest)
    levels = [e.tolist() for e in np.split(unsorted, start[1:])]
    assert levels == [[1, 2], [4, 1, 3, 3], [1], [4, 1]]
    levels = [e.tolist() for e in np.split(sorted_, start[1:])]
    assert levels == [[2, 1], [4, 3, 3, 1], [1], [4, 1]]
    lengths = report.shown(unsorted, start)
    assert lengths == {"unsorted": [4, 1, 3, 3], "sorted": [4, 3, 3, 1]}


def timed(panel, times):
    """Rows of (solver, cells, seconds)."""
    return [
        {"panel": panel, "name": name, "cells": cells, "seconds": seconds}
        for name, cells, seconds in times
    ]


def test_claims_of_figure_7_1():
    """The old solver is not linear yet, `fine` is; its lead falls from 8 to 2."""
    old, fine = report.OLD + report.PACKED, report.SPLIT + report.PACKED
    times = [(old, 10, 8.0), (old, 100, 16.0), (old, 1000, 40.0)]
    times += [(fine, 10, 1.0), (fine, 100, 2.0), (fine, 1000, 20.0)]
    rows = timed(report.USUAL, times)
    outcomes = [(c.here, c.holds) for c in report_claims.claims_7_1({"rows": rows})]
    assert outcomes == [
        ("8", True),
        ("2", True),
        ("4", True),
        ("0.25", False),
        ("1", True),
        ("100/1,000", True),
    ]
    assert not list(report_claims.claims_7_1({"rows": timed("other cells", times)}))


def test_claims_of_figure_7_2():
    """A difference as between two equal runs is a tie, and supports no claim."""
    speeds = {"low": 3.0, "medium": 2.9, "high": 2.0}
    rows = [
        r | {"over_old": speed}
        for name, speed in speeds.items()
        for setting in (report.USUAL, report.FALLING)
        for r in timed(f"{name} branching, {setting}", [(report.SPLIT, 64, 1.0)])
    ]
    outcomes = {c.text: c.holds for c in report_claims.claims_7_2({"rows": rows})}
    assert len(outcomes) == 10
    for setting in (report.USUAL, report.FALLING):
        assert not outcomes[f"{setting}, 64 cells: speed-up of low over medium"]
        assert outcomes[f"{setting}, 64 cells: speed-up of medium over high"]
        assert outcomes[f"{setting}, high, most cells: time of old over fine, split"]
