"""Orders of weights in memory: Brette and Goodman 2012, section 2.3.3, figure 2.

A spike reaches a synapse from its source (forward) and from its target (backward). Synapses that
are read together are a group. Memory is read in chunks. An order costs the number of chunks that
each group touches, summed over both directions.

The graph cut fills chunks one after another. The merged graph has the groups as vertices and the
synapses as edges. A chunk grows by the vertex with the most edges to the vertices that it has.
"""

from __future__ import annotations

import numpy as np

from clhines.core.arrays import inverse

CHUNK = 16  # 8-byte weights per GPU memory transaction (128 bytes)


def group_numbers(*keys: np.ndarray) -> np.ndarray:
    """Return each synapse's group: synapses that agree in all keys, (k,) each."""
    return np.unique(np.stack(keys), axis=1, return_inverse=True)[1].reshape(-1)


def cost(place: np.ndarray, group: np.ndarray, chunk: int = CHUNK) -> int:
    """Return how many memory chunks each group touches, summed over the groups.

    `place` and `group` have each synapse's memory index and group, (k,).
    """
    return np.unique(np.stack([place // chunk, group]), axis=1).shape[1]


def sorted_places(*keys: np.ndarray) -> np.ndarray:
    """Return each synapse's index after sorting by the keys, the first key first."""
    return inverse(np.lexsort(keys[::-1]))


def graph_cut(forward: np.ndarray, backward: np.ndarray, chunk: int = CHUNK) -> np.ndarray:
    """Return the memory index of each synapse's weight by the graph cut, (k,) int64.

    `forward` and `backward` have the number of each synapse's group. A spike of the source
    (forward) or of the target (backward) reads the synapses of a group together. Chunks have
    `chunk` weights.
    """
    ends = np.stack([forward, backward + int(forward.max(initial=-1)) + 1]).astype(np.int64)
    count, vertices = len(forward), int(ends.max(initial=-1)) + 1
    synapse = np.argsort(ends.reshape(-1), kind="stable") % max(1, count)
    first = np.searchsorted(np.sort(ends.reshape(-1)), np.arange(vertices + 1))
    free, inside = np.ones(count, bool), np.zeros(vertices, bool)
    links = np.zeros(vertices, np.int64)  # free synapses from a vertex to the chunk's vertices
    order, start = list[np.ndarray](), 0
    while start < vertices:
        room, touched = chunk, np.zeros(0, np.int64)
        while room and start < vertices:
            best = int(touched[np.argmax(links[touched])]) if len(touched) else -1
            if best < 0 or not links[best]:
                best = start
            left = synapse[first[best] : first[best + 1]]
            left = left[free[left]]
            if not len(left):
                start += best == start
                links[best] = 0
                continue
            inside[best] = True
            others = ends[:, left].sum(axis=0) - best
            chosen = left[inside[others]][:room]
            free[chosen] = False
            order.append(chosen)
            room -= len(chosen)
            np.add.at(links, others, 1)
            touched = np.concatenate([touched, others[~inside[others]], [best]])
            links[inside] = 0
        links[touched], inside[touched] = 0, False
    return inverse(np.concatenate([*order, np.zeros(0, np.int64)]).astype(np.int64))
