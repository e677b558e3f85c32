"""Parents of nodes from the parents of branches, and seeds of random trees."""

from __future__ import annotations

import operator

import numpy as np

from clhines.core.errors import InputError, shown

Seed = int | np.random.Generator


MAX_NODES = 2**31 - 1  # parent arrays are int32


def number_nodes(branch_parent: np.ndarray, lengths: np.ndarray, soma_nodes: int) -> np.ndarray:
    """Return the parents of a tree's nodes, (n,) int32; the soma first, then branch by branch.

    Branch k has ``lengths[k]`` nodes and starts at the end of branch ``branch_parent[k]``, or of
    the soma if this is -1.
    """
    end = soma_nodes + np.cumsum(lengths)
    if end[-1] > MAX_NODES:
        raise InputError(f"a tree of {end[-1]} nodes, expected at most {MAX_NODES}")
    parent = np.arange(-1, end[-1] - 1, dtype=np.int32)
    parent[end - lengths] = np.where(branch_parent < 0, soma_nodes, end[branch_parent]) - 1
    return parent


def generator(seed: Seed) -> np.random.Generator:
    try:
        return np.random.default_rng(
            seed if isinstance(seed, np.random.Generator) else operator.index(seed)
        )
    except (TypeError, ValueError) as error:
        message = f"seed is {shown(seed)}, expected a whole number from 0 or a numpy Generator"
        raise InputError(message) from error
