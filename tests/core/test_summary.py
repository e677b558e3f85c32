"""Summaries of objects, as notebooks show them."""

from xml.etree import ElementTree

import numpy as np
import pytest

from clhines.core import summary

pytestmark = pytest.mark.core


def test_a_table_has_each_row_and_escapes_text():
    found = summary.as_html("a <b> & c", {"x": 1, "<y>": "2 < 3"})
    root = ElementTree.fromstring(f"<p>{found}</p>")
    assert root[0].text == "a <b> & c"
    assert [[cell.text for cell in row] for row in root[1]] == [["x", "1"], ["<y>", "2 < 3"]]


def test_numbers_in_words():
    assert [summary.counted(n, "cell") for n in (0, 1, 2)] == ["0 cells", "1 cell", "2 cells"]
    ranges = [summary.range_text(np.array(a)) for a in ([], [2.5, 2.5], [1, 30], 4)]
    assert ranges == ["none", "2.5", "1 to 30", "4"]
