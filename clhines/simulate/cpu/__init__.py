"""Epochs on CPUs: cells of one shape in the lanes of vectors, blocks of cells per work-item.

`groups` puts cells of a shape together, and instances by place; `pivots` are eliminated once.
Events in whole steps: `vectors`. Events at exact times: `blocks`, by `plan`; `tiles` are the cells
of a block and their places, `kinds` what its template takes of a mechanism.
"""
