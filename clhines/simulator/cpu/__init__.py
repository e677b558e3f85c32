"""Epochs on CPUs: each work-item advances a block of whole cells.

`plan` divides the cells into blocks. `groups` places cells of one shape side by side, groups
instances by place, and eliminates constant pivots once. `blocks` has the kernels.
"""
