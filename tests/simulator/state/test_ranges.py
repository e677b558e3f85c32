"""The largest number of a floating-point type."""

import numpy as np
import pytest

from clhines.core.errors import InputError
from clhines.simulator.state.ranges import check_range, largest_of

pytestmark = pytest.mark.core


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_number_is_taken_and_the_next_one_refused(dtype):
    dtype = np.dtype(dtype)
    most = largest_of(dtype)
    assert np.isfinite(dtype.type(most))
    for values in (np.array([most]), np.array([0.0, -most]), np.zeros(0)):
        check_range("g", values, dtype)
    if dtype == np.float32:
        for values in (np.array([1e39]), np.array([0.0, -1e39, 1.0])):
            with pytest.raises(InputError, match=r"g is 1e\+39; expected at most 3.4e\+38, the la"):
                check_range("g", values, dtype)
