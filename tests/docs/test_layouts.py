"""The worked examples of the layouts, written out by hand."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = [pytest.mark.skipif(not DOCS.is_dir(), reason="no docs here"), pytest.mark.core]

# Valero-Lara et al. 2018, figure 2: flat, full-interleaved, block-interleaved with blocks of two;
# chains are one branch each, and cut into segments with two nodes and with one.
FOUR = """
flat: element after element, system after system
    a0 a1 a2 | b0 b1 b2 | c0 c1 c2 | d0 d1 d2
    ^  ^  ^

interleaved: element j of all systems side by side
    a0 b0 c0 d0 a1 b1 c1 d1 a2 b2 c2 d2
    ^           ^           ^

block_interleaved, block_size=2: the same in blocks
    a0 b0 a1 b1 a2 b2 | c0 d0 c1 d1 c2 d2
    ^     ^     ^

fine: level after level, the branches of a level side by side
    level 0    a0 b0 c0 d0 a1 b1 c1 d1 a2 b2 c2 d2

contraction, segment=2: node j of all segments side by side, tips from their ends
    inner 0    a0 b0 c0 d0
    inner 1    a1 b1 c1 d1
    tips  0    a2 b2 c2 d2
"""
# Huber 2018, figure 1.1: branch 0 to 4, its children 5 to 9 and 10 to 14, and the children from 9.
FORK = """
fine: level after level, the branches of a level side by side
    level 0     0  1  2  3  4
    level 1     5 10  6 11  7 12  8 13  9 14
    level 2    15 20 16 21 17 22 18 23 19 24

contraction, segment=5: node j of all segments side by side, tips from their ends
    inner 0     0  5
    inner 1     1  6
    inner 2     2  7
    inner 3     3  8
    inner 4     4  9
    tips  0    14 19 24
    tips  1    13 18 23
    tips  2    12 17 22
    tips  3    11 16 21
    tips  4    10 15 20
"""


@pytest.fixture(scope="module")
def page():
    sys.path.append(str(DOCS))
    import layouts

    return layouts.page() + "\n"


def test_the_examples_are_those_worked_by_hand(page):
    first, second = page.split("\n2. ")
    assert first.endswith(FOUR)
    assert second.endswith(FORK)
    assert "     0  1  2  3  4 -+                 +- 20 21 22 23 24\n" in second


def test_the_page_fits_a_hundred_columns(page):
    assert max(len(line) for line in page.splitlines()) <= 100
    assert all(line == line.rstrip() for line in page.splitlines())
