"""Epochs on CPUs: each work-item advances a block of whole cells.

`plan` shares out the cells. `groups` puts cells of one shape side by side, groups instances by
place, and eliminates constant pivots once. `blocks` has the kernels.
"""
