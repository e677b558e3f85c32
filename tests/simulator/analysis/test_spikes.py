"""Lists of values for each trace."""

import numpy as np
import pytest

from clhines import InputError
from clhines.simulator.analysis import RaggedArray


def test_lists():
    lists = RaggedArray(np.array([0, 2, 2, 3]), np.array([1.0, 2.0, 5.0]))
    assert [one.tolist() for one in lists] == [[1.0, 2.0], [], [5.0]]
    assert lists[-1].tolist() == [5.0] and len(lists) == 3
    np.testing.assert_array_equal(lists.at(1), [2.0, np.nan, np.nan])
    np.testing.assert_array_equal(lists.at(-1), [2.0, np.nan, 5.0])
    np.testing.assert_array_equal(lists.reduced(np.add), [3.0, np.nan, 5.0])
    with pytest.raises(IndexError):
        lists[3]
    for some in (slice(None, 2), slice(3), slice(1, None), slice(None, None, -2), slice(5, 9)):
        part = lists[some]
        assert isinstance(part, RaggedArray)
        assert [one.tolist() for one in part] == [[1.0, 2.0], [], [5.0]][some]
    for wrong in ("a", 1.0, True, [0, 1]):
        with pytest.raises(InputError, match="expected the number of a trace, or a slice"):
            lists[wrong]
