"""Epochs on GPUs: whole cells stay on the chip for as many steps as the smallest delay allows.

`epochs` advances a model. `plan` groups its cells by size, with a kernel for each group, and gives
each cell its lanes; `lists` orders nodes by their mechanisms if a cell has many. `layout` maps
nodes to device indices and adds regions to the arenas; `columns` cuts cells with extracellular
layers, and eliminates before the first step what never changes; `tables` copies the plans' tables
to the device; `launch` launches the kernels for cells, `artificial` the kernel for artificial
cells. `spec` has all that the templates print, `blocks` the mechanisms' calls, and `functions`
chooses their functions. `words` has packed numbers and sizes.

Words:

- A *plan* has cells of similar size, which one kernel advances. A *unit* is a cell, numbered in
  device order. A *lane* is a cell's work-item: it eliminates a *segment*, which is a chain of a few
  nodes, and advances mechanisms.
- A node's *device index* is its position in the arrays on the device; its *place in the cell* is
  counted from its cell's first node. A *column* is a node inside the cell together with the nodes
  in the extracellular layers around it.
- A *kind* is a mechanism with all its instances in the network.
- A *list* has at most 32 nodes of a cell with the same mechanisms: a warp advances them together,
  one per lane. A list's numbers are in *lines* of 32 numbers, one per lane.
- An *arena* is one of three device arrays, ``mem`` (reals), ``clock`` (times) and ``ints``, that
  hold all mechanism and event values in named *regions*.
- A *site* describes one instance to a lane: its place in the cell, its cell, and its slot, packed
  into an integer. A *slot* is local memory for one instance's current and conductance, until
  its node adds them up.

Each kernel form has a template in ``kernels/simulator`` (`EpochSpec.templates`). ``epoch_factors``
computes constant factors and ``epoch_constant`` advances with them. The others advance mechanisms
instance by instance (``epoch_by_instance``) or node by node (``epoch_by_node``). They include, from
``kernels/simulator/common``: ``epoch_*``, a work-group's data on the chip; ``segment_*``, the
elimination (``sweep`` along segments, ``rounds`` over their tree, the ``root``, ``back``), and
``columns``, with extracellular layers; ``instances_*``, mechanisms by instance; ``arena_*``,
mechanisms by node; ``arena_points*``, point processes by instance. `EpochSpec`, `OnChip`,
`SiteBlocks` and `ListLoop` print their variable parts.
"""
