"""Methods of the literature that are here to be compared with: Forest -> Plan; no device.

A method that is measured beside those of papers needs these on the same device, in the same batch
and with the same checks. Nobody needs them to solve faster: `auto` takes none of them, and nothing
of the product depends on this package. They are tested, documented and measured like all others.

=============================  ====================================================================
method                         source
=============================  ====================================================================
``dhs``                        Zhang et al. 2023, dendritic hierarchical scheduling (DeepDendrite)
``cr``, ``pcr``, ``cr_pcr``    cyclic reduction of chains: Hockney 1965; Hockney and Jesshope 1981;
                               Zhang, Cohen and Owens 2010
weights by target, graph cut   Brette and Goodman 2012, section 2.3.3: orders of synapses in memory
=============================  ====================================================================

`METHODS` has their rows; a `PlannerName` planner imports its module here when it plans for the
first time. The papers' methods and options that users do need, such as ``fine`` with ``split``, are
in `solver.plan`.

Who owns what
    `dhs`: plans with k lanes per cell, cells one after another, or side by side with slots in local
    memory for what nodes exchange; and which nodes share a step. `reduction`: the three ways of
    cyclic reduction. `synapses`: where weights of connections lie, for `Delivery(place=...)`.
    Templates are in ``kernels/solver/literature``.

Two lanes eliminate the tips 2 and 4 in one step, and then the nodes 3, 1 and 0:

>>> import numpy as np
>>> from clhines import Forest, make_plan
>>> plan = make_plan(Forest(np.array([-1, 0, 1, 1, 3])), "dhs", k=2, exchange=False)
>>> plan.gather.tolist(), plan.parts[0].statistics["steps"]
([4, 2, 3, 1, 0], 4)

Cyclic reduction halves a chain in every round, which gives fewer steps in sequence than one lane:

>>> chain = Forest(np.arange(-1, 255))
>>> make_plan(chain, "cr").parts[0].statistics["dependent_steps"] < 2 * 256
True

To add one: a module here whose function returns a `Plan`, a template of the same name in
``kernels/solver/literature``, and a row in `plan.methods.METHODS` with
``PlannerName("module:function")``.
"""
