"""Epochs on GPUs: whole cells stay on the chip for as many steps as the smallest delay allows.

`epochs` advances a model. `plan` divides its cells into plans, each with its own kernel, and gives
the cells lanes and places; `lists` orders nodes by their mechanisms if a cell has many. `layout`
has the places of nodes, and regions of the arenas; `tables` puts the tables of plans on the device;
`launch` launches the kernels of cells, `artificial` the kernel of artificial cells. `spec` is the
contract of the templates, `blocks` has their mechanisms, and `functions` chooses these. `words` has
packed numbers and sizes, `series` the coefficients of rate functions.

Each form of the kernel has a template in ``kernels/simulator`` (`EpochSpec.templates`).
``epoch_factors`` computes constant factors and ``epoch_constant`` advances with them. The others
advance mechanisms instance by instance (``epoch_by_instance``) or node by node (``epoch_by_node``).
They include, from ``kernels/simulator/common``: ``epoch_*``, a group's data on the chip;
``segment_*``, the elimination (``sweep`` of segments, ``rounds`` of their tree, the ``root``,
``back``); ``instances_*``, mechanisms by instance; ``arena_*``, mechanisms by node;
``arena_points*``, point processes by instance. `EpochSpec`, `OnChip`, `SiteBlocks` and `ListLoop`
print their variable parts.
"""
