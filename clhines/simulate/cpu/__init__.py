"""Epochs on CPUs: one cell per lane of a vector, or blocks of cells per work-item.

`vectors` launches, `groups` puts cells of a shape together, `pivots` are eliminated once. With
events at exact times: `blocks`, by `plan`.
"""
