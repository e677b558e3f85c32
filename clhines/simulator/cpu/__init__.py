"""Epochs on CPUs: cells of one shape in the lanes of vectors, blocks of cells per work-item.

`groups` puts cells of a shape together, instances by place, and eliminates constant pivots once.
Events in whole steps: `vectors`. Events at exact times: `blocks`, by `plan`.
"""
