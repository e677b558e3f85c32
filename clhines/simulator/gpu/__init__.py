"""Epochs on GPUs: whole cells on the chip for as many steps as the smallest delay.

`epochs` launches the cells, `artificial` the artificial ones. `plan` and `lists` place lanes and
values, instances and their slots, and nodes by class if cells have many mechanisms. `spec` is the
contract of the templates, `blocks` are the mechanisms in it, and `functions` chooses these; `words`
are packed numbers and sizes that they share, `series` the numbers of rate functions.

Each kernel has a template in ``kernels/simulator`` (`EpochSpec.templates`): ``epoch_factors`` works
out constant factors and ``epoch_constant`` takes steps with them; otherwise mechanisms are taken
instance by instance (``epoch_by_instance``) or node by node (``epoch_by_node``). They include, from
``kernels/simulator/common``: ``epoch_*``, what a group has on the chip; ``segment_*``, the
elimination (``sweep`` of segments, ``rounds`` of their tree, the ``root``, ``back``);
``instances_*``, mechanisms by instance; ``arena_*``, mechanisms by node; ``arena_points*``, point
processes by instance. What they print beyond numbers is in `EpochSpec`, `OnChip`, `SiteBlocks` and
`ListLoop`.
"""
