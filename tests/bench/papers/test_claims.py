"""Claims of the papers beside results, occupancy, and pictures that are computed."""

import numpy as np
import pytest

from bench import MissingError, systems
from bench.papers import claims, patterns, traffic
from clhines.solver import reference


def row(name, cells, seconds, **more):
    base = {"name": name, "cells": cells, "seconds": seconds, "speedup": 1 / seconds}
    return base | {"dtype": "float64", "panel": "p", "num_nodes": 100 * cells} | more


def test_claims_that_do_not_hold_come_first():
    claims_here = [
        *claims.number("near", 4, 3.3),
        *claims.number("far", 4, 1.5),
        *claims.number("not measured", 4, None),
        *claims.order("faster", 1.1),
        *claims.order("slower", 0.9),
    ]
    lines = claims.text(iter(claims_here)).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["far", "slower", "near", "faster"]
    assert [line.endswith("differs") for line in lines[2:]] == [True, True, False, False]
    assert max(map(len, lines)) <= 100
    assert claims.text(iter([])) == ""


def test_from_where_on_thomas_is_ahead():
    """The count from which on it always is, or none."""

    def crossing(thomas, others):
        counts = (256, 2560, 25_600, 256_000)
        rows = [row(claims.THOMAS, n, t, nodes=64) for n, t in zip(counts, thomas)]
        rows += [row("CR-PCR", n, t, nodes=64) for n, t in zip(counts, others)]
        result = {"figure": "batch-9", "rows": rows}
        (said,) = [c for c in claims.claims_9(result) if "ahead" in c.text]
        return said.paper, said.here, said.holds

    assert crossing((2, 1, 1, 1), (1, 2, 2, 2)) == ("2,560", "2,560 (~810)", True)  # half way
    assert crossing((4, 1, 4, 1), (1, 2, 2, 2)) == ("2,560", "256,000 (~81,000)", False)
    assert crossing((1, 1, 1, 3), (2, 2, 2, 2)) == ("2,560", "> 256,000", False)
    assert crossing((1, 1, 1, 1), (2, 2, 2, 2)) == ("2,560", "256", False)


def test_numbers_of_systems_that_differ_are_compared_by_system():
    rows = [
        row("padding skipped", 100, 3.0),
        row("padding computed", 100, 2.0),
        row("all of 512 nodes", 50, 1.0),
    ]
    numbers = {c.text: c.here for c in claims.claims_13({"rows": rows})}
    assert numbers["time of computed over all of 512 nodes, most systems"] == "1"
    assert numbers["most systems: time of padding skipped over computed"] == "1.5"


def test_bandwidth():
    moved = row("Thomas", 10, 1e-6, arrays=8)
    assert traffic.gb_per_s(moved) == pytest.approx(8 * 8 * 1000 / 1e-6 / 1e9)
    assert traffic.gb_per_s(row("peer", 10, 1e-6)) is None
    text = traffic.text([moved, row("peer", 10, 1e-6), {**moved, "cells": 1}])
    assert "64" in text and "peer" not in text and text.count("Thomas") == 1
    assert traffic.text([row("peer", 10, 1e-6)]) == ""


LOG = """
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Used 9 registers, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'solve' for 'sm_90'
ptxas info    : Function properties for solve
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 46 registers, 400 bytes cmem[0]
"""


def test_registers_of_a_kernel():
    assert traffic.registers_in(LOG, "solve") == 46
    assert traffic.registers_in(LOG, "other") == 9
    assert traffic.registers_in(LOG, "none") is None
    assert traffic.registers_in("", "solve") is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((128, 32, 0, 1e9), 1.0),  # 16 groups with 4 warps each
        ((128, 64, 0, 1e9), 0.5),  # 65536 / 64 registers: 32 warps
        ((128, 65, 0, 1e9), 28 / 64),  # 72 registers a work-item: 28 warps, 7 groups
        ((64, 32, 40_000, 1e9), 10 / 64),  # 5 groups by local memory
        ((32, 16, 0, 1e9), 0.5),  # 32 groups at most
        ((64, 32, 0, 3.0), 6 / 64),  # no more groups in the launch
    ],
)
def test_occupancy_by_hand(given, expected):
    assert traffic.occupancy(*given) == pytest.approx(expected)


@pytest.mark.parametrize("n", [2, 4, 8, 64])
@pytest.mark.parametrize("steps", [patterns.cyclic, patterns.parallel])
def test_the_steps_of_figure_8_solve_a_system(n, steps):
    forest = systems.chains(1, n)
    d, u, b = systems.system(forest)
    matrix = patterns.dense(np.arange(-1, n - 1), d, u)
    x = patterns.follow(steps(n), matrix, b)
    assert reference.residual(forest, d, u, b, x) < 1e-14
    levels = n.bit_length() - 1
    assert len(steps(n)) == (2 * levels - 1 if steps is patterns.cyclic else levels)
    if n > 2:
        with pytest.raises(MissingError, match="rows that depend on others"):
            patterns.follow(steps(n)[:-1], matrix, b)


def test_fill_in_by_hand():
    """A star eliminated from its centre first fills all; from its leaves first nothing."""
    star = np.eye(5) * 4
    star[0, :] = star[:, 0] = 1
    assert patterns.fill_in(star) == 0
    assert patterns.fill_in(star[::-1, ::-1]) == 6
