"""Helpers for tests of several folders. Helpers of one folder lie in that folder.

Cells and trees
    `trees`, `systems`: trees of branches, and well-scaled systems on them. `plans`, `solvers`:
    options and configurations of every method. `tolerances`: bounds for differences of solutions.
    `import3d`, `neuron_cells`: cells in NEURON, from a file or from ours. `real_cells`: paths of
    the real morphologies.

Networks
    `networks`: networks and their results by the reference. `small_networks`: one for each need of
    an engine. `exact_cells`, `exact_ranks`: networks with exact times, also for MPI ranks.
    `deliveries`: plastic connections on a device. `traces`: voltages of all kinds, for features.
    `results`: results made by hand. `mechanism_texts`: texts of mechanisms. `graph_values`: values
    of expressions on a graph. `nmodl_blocks`: the blocks of an NMODL text after some passes.
    `central_differences`: slopes of losses of records, to compare gradients with.
    `random_expressions`: random mechanisms, in a cell each, whose gradients are compared.

NEURON
    `mod_files`: the files of ``tests/mod``, compiled once for all processes. `nocmodl`: NEURON's
    translator. `forked`: programs in processes of their own, forked from one that has imported
    NEURON; `neuron_scripts`: their helpers. `raised`: notes the refusals that a test raises.

Devices and processes
    `mock_queue`, `trust_stub`, `foreign_kernels`: a queue without a device, self-tests with chosen
    outcomes, and no kernels of PyOpenCL. `template_modules`: templates with a spec elsewhere.
    `processes`: Python in processes of its own. `mpi_runs`: programs on MPI ranks. `commands`: the
    command line. `processors`: compiles for every processor of PoCL's compiler.

Programs for developers
    `runtimes`: tests every family of kernels on the installed runtimes.
"""
