"""Epochs on CPUs: each work-item advances a block of whole cells.

`plan` divides the cells into blocks. `groups` puts cells of one shape into the lanes of a vector,
groups instances likewise, and eliminates constant pivots once. `blocks` has the kernels.

Words: a *tile* is a set of cells of a block whose nodes are interleaved, so that a vector holds one
node of several cells. A *slot* is such a vector, the *place* of a node its index among all entries
of all tiles. A *kind* is a mechanism with all its instances.
"""
