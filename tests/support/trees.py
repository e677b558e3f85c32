"""Trees of shapes for tests only; see `bench.made` for others."""

import numpy as np


def complete_binary(levels):
    """Give the parents of a complete binary tree of ``2**levels - 1`` nodes, int32."""
    node = np.arange(2**levels - 1, dtype=np.int32)
    return (node + 1) // 2 - 1  # (0 + 1) // 2 - 1 = -1: the root too
