"""Attributes that are computed on demand, and values that copies repeat."""

import numpy as np
import pytest

from clhines.core.arrays import offsets
from clhines.simulator.common import deferred as arrays


def test_deferred_attributes_are_made_once():
    made = []
    deferred = arrays.deferred(arrays.Deferred, {"x": lambda: made.append(1) or 7}, y=2)
    assert (deferred.y, made, deferred.x, deferred.x, made) == (2, [1], 7, 7, [1])
    with pytest.raises(AttributeError, match="Deferred has no attribute z"):
        _ = deferred.z


def test_repeated_columns_are_those_of_each_copy_in_turn():
    column = arrays.Repeated(np.array([3, 5]), 3, 10)()
    assert column.tolist() == [3, 5, 13, 15, 23, 25] and not column.flags.writeable
    by_name = arrays.Repeated({"gbar": np.array([0.5]), "e": -70.0}, 2)()
    assert by_name["gbar"].tolist() == [0.5, 0.5] and by_name["e"] == -70.0


@pytest.mark.parametrize("counts", [[3, 1, 4], [1], [2, 2, 2, 5]], ids=str)
def test_copies_lie_block_by_block(counts):
    bounds = offsets(counts)
    blocks = [b + c * n + j for b, n in zip(3 * bounds[:-1], counts) for c in range(3)
              for j in range(n)]  # fmt: skip
    result = arrays.in_blocks(counts, 3)
    assert sorted(result.reshape(-1)) == list(range(3 * bounds[-1])) == sorted(blocks)
    assert np.concatenate([r[a:b] for a, b in zip(bounds[:-1], bounds[1:]) for r in result]).tolist(
    ) == blocks  # fmt: skip
