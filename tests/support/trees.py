"""Trees of shapes for tests only; see `bench.made` for others."""

import numpy as np


def complete_binary(levels):
    """Give the parents of a complete binary tree of ``2**levels - 1`` nodes, int32."""
    node = np.arange(2**levels - 1, dtype=np.int32)
    return (node + 1) // 2 - 1  # (0 + 1) // 2 - 1 = -1: the root too


def assert_is_ordered_tree(parent):
    assert parent.ndim == 1
    assert parent[0] == -1
    assert (parent[1:] >= 0).all()
    assert (parent[1:] < np.arange(1, parent.size)).all()


def num_children(parent):
    return np.bincount(parent[1:], minlength=parent.size)


def branch_lengths(parent):
    """Return the sizes of maximal chains, which begin at the root and below forks."""
    children = num_children(parent)
    begins = np.ones(parent.size, dtype=bool)
    begins[1:] = children[parent[1:]] > 1
    branch = np.cumsum(begins) - 1
    for k in np.flatnonzero(~begins):
        branch[k] = branch[parent[k]]
    return np.bincount(branch)


def depths(parent):
    depth = np.zeros(parent.size, dtype=int)
    for k in range(1, parent.size):
        depth[k] = depth[parent[k]] + 1
    return depth
