"""Epochs on CPUs: cells of one shape in the lanes of vectors, blocks of cells per work-item.

`vectors` launches, `groups` puts cells of a shape together, `pivots` are eliminated once. With
events at exact times: `blocks`, by `plan`; `tiles` are the cells of a block and their places,
`kinds` what the template takes of a mechanism.
"""
