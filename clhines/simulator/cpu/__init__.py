"""Epochs on CPUs: each work-item advances a block of whole cells.

`plan` divides the cells into blocks. `groups` puts cells with one shape into the lanes of a vector,
groups instances likewise, and eliminates constant pivots once. `blocks` has the kernels.

Words: a *tile* is a set of cells in a block whose nodes are interleaved, so that a vector holds one
node of several cells. A *slot* is such a vector, a *lane* one of its elements, a node's *place* its
index among all entries in all tiles. A *group* is a vector of instances of one mechanism. A *class*
is a set of mechanisms that nodes have. A *kind* is a mechanism with all its instances. A pivot is
*constant* if no conductance below its node changes between steps.
"""
