"""Words of summaries."""

import numpy as np
import pytest

from clhines.core import summary

pytestmark = pytest.mark.core


def test_numbers_in_words():
    assert [summary.counted(n, "cell") for n in (0, 1, 2)] == ["0 cells", "1 cell", "2 cells"]
    ranges = [summary.range_text(np.array(a)) for a in ([], [2.5, 2.5], [1, 30], 4)]
    assert ranges == ["none", "2.5", "1 to 30", "4"]
