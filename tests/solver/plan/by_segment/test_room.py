"""Cells that fit into local memory or registers, by hand."""

from dataclasses import replace

import pytest

from bench.made import chain, star
from clhines import Forest, InputError
from clhines.solver.plan.by_segment import room
from clhines.solver.plan.by_segment.cut import cut_trees
from clhines.solver.plan.plan import Limits

pytestmark = pytest.mark.core
OPTIONS = {"work_group": None, "segment": None, "registers": None}
LIMITS = Limits(compute_units=4, max_work_group=256, local_bytes=32 << 10)


@pytest.mark.parametrize(("real", "size"), [("double", 8), ("float", 4)])
def test_local_memory_by_hand(real, size):
    for lanes in (32, 256):
        nodes = room.local_capacity(real, LIMITS, lanes)
        bytes_of = lambda n, lanes=lanes: (3 * n + 3 * lanes) * size + 8 * 31  # noqa: E731
        assert bytes_of(nodes) <= LIMITS.local_bytes < bytes_of(nodes + 32) and nodes % 32 == 0
    assert room.local_capacity(real, replace(LIMITS, local_bytes=100), 32) == 0
    most = room.most_lanes(real, LIMITS, OPTIONS)
    assert most % room.WARP == 0
    assert most == min(256, (LIMITS.local_bytes - 8 * 31) // (6 * size + 4) // 32 * 32)


def test_cells_that_fit():
    forest = Forest.from_parents([chain(500), chain(5000), star(3000)])
    cut = cut_trees(forest.trees, 16)
    assert room.fits_local(cut, "double", LIMITS, OPTIONS).tolist() == [True, False, False]
    with pytest.raises(InputError, match="work_group=512 is above contraction's 256 lanes"):
        room.fits_local(cut, "double", LIMITS, {**OPTIONS, "work_group": 512})


def test_segments_are_as_short_as_pays():
    few, many = Forest.from_parents([chain(500)]), Forest.from_parents([chain(500)] * 400)
    assert room.is_small(few, LIMITS) and not room.is_small(many, LIMITS)
    assert room.usual_segment(few, "double", LIMITS, OPTIONS) == 4
    assert room.usual_segment(many, "double", LIMITS, OPTIONS) == 16
    assert room.registers_segment(many, "double", LIMITS, {**OPTIONS, "segment": 9}) == 9


def test_values_are_in_registers_where_asked_or_where_nvidias_compiler_is():
    forest = Forest.from_parents([chain(3000)] * 3)
    above = room.fits_local(cut_trees(forest.trees, 16), "double", LIMITS, OPTIONS)[
        forest.shape_of_cell
    ]
    for option, ptx, expected in (
        (None, False, False), (None, True, True), (True, False, True), (False, True, False),
    ):  # fmt: skip
        limits, options = replace(LIMITS, ptx=ptx), {**OPTIONS, "registers": option}
        fits = room.fits_registers(forest, ~above, "double", limits, options)
        assert fits.tolist() == [expected] * 3
