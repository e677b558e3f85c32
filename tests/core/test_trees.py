"""Parents of nodes from branches, against a loop."""

import numpy as np
import pytest

from clhines.core.errors import InputError
from clhines.core.trees import generator, number_nodes

pytestmark = pytest.mark.core


@pytest.mark.parametrize("soma", [0, 1, 3])
def test_nodes_are_numbered_branch_by_branch(soma):
    rng = np.random.default_rng(soma)
    lengths = rng.integers(1, 6, 12)
    above = np.array([-1, *(rng.integers(0, k) for k in range(1, 12))])
    parent, last = list(range(-1, soma - 1)), []
    for length, branch in zip(lengths, above):
        hangs = soma - 1 if branch < 0 else last[branch]
        for _ in range(length):
            parent.append(hangs)
            hangs = len(parent) - 1
        last.append(hangs)
    assert number_nodes(above, lengths, soma).tolist() == parent


def test_sizes_and_seeds():
    with pytest.raises(InputError, match="a tree of 4294967296 nodes, expected at most 2147483647"):
        number_nodes(np.array([-1]), np.array([2**32]), 0)
    given = np.random.default_rng(3)
    assert generator(given) is given
    assert generator(3).random() == np.random.default_rng(3).random()
    for seed in (-1, 1.5, "1", None):
        with pytest.raises(InputError, match="expected a whole number from 0 or a numpy Generator"):
            generator(seed)
