"""A model in time: networks, and passive cells with nothing between them.

Words: a *step* advances voltages and states by dt. An *epoch* is as many steps as the smallest
delay: spikes of one epoch act in the next at the earliest, so that cells do not interact within
it. A *chunk* is a whole number of epochs between two accesses of the host. An *executor* advances
the cells of a run: `steps`, `epoch` or `epoch_vector`. A *run* is an executor with its state and
the delivery of spikes. A *rank* is an MPI process.

Who owns what
    `simulation`: `Simulation`, what users call; `recording`: its `record`. `runs`: the run on one
    device, and the choice of its executor. `steps`: a few kernels per step, cells of any size.
    `epoch`, `epoch_plan`, `epoch_spec`: whole cells on the chip of a GPU, with `epoch_table`: their
    lanes and places, `epoch_nodes`: nodes by class where cells have many mechanisms, `epoch_lanes`
    and `epoch_rates`: lanes and rate functions of these. `epoch_vector`: the same on CPUs, one cell
    per lane of a vector, as `epoch_blocks` groups them; `sampling`: what kernels of epochs record.
    `kinds`: everything a template needs to know about one mechanism. `state`: voltages, states and
    events on the device. `records`: recorded quantities; `reduced`: what is kept of their values,
    by `features` for voltages; `streams`: rows of files; `membrane`: currents of membranes from
    voltages; `currents`: those of mechanisms. `decisions`: what no partition of a network may
    change, made once. `delivery`: spikes to targets, by one of several algorithms, with
    `delivery_spec`, `delivery_tables` and `delivery_timing`. Its sums are in `state.incoming`: a
    ring buffer of event sums, row ``step % slots``, which executors clear. `plasticity`: weights.
    `engines`: names of the engines; `making` makes what advances a network. `result`: `Result`.
    `saved`: files. `under_way`: spikes of the longest delay. `known_answers`: problems for `trust`.
    `changing`: values set on the way, on the device by `device_changes`, `spread`;
    `constant_pivots` are eliminated once; `branching` copies a state. `reference`: the same in
    NumPy, the oracle. Processes: `mpi` (collectives, errors of ranks), `partition` (which cells),
    `split_run` (advance and exchange), `received` (spikes that come). `passive`: `PassiveCells`.
    `population`: many sets of parameters: `protocols` checks what it is given, a `population_batch`
    simulates some. Extended networks: `wires`: tables of events to instances, `variables`: all that
    changes, `start` INITIAL blocks, `host_events` events on the host, `bins` those of a step
    together, `axial` currents between neighbours, `extended_reference` the oracle; `extended`
    launches kernels, `extended_spec`, `extended_tables`: what they take; `arena` names parts of one
    array, `recorder` rows of records; `extended_copies` starts copies once, `tiled` repeats them;
    `extended_epochs`: cells on a GPU's chip, `extended_epoch_spec`, `extended_epoch_lists`,
    `epoch_tables`; `extended_blocks`: blocks of cells on a CPU, by `extended_block_plan`;
    `extended_choice` chooses. `extended_saved`: files; `extended_partition`, `extended_ranks`: MPI.

A cell with a current into its soma, on the device and by the oracle:

>>> import numpy as np
>>> import clhines
>>> cable = clhines.discretise(clhines.sample_cells()[0], max_length=20)  # µm
>>> net = clhines.Network([cable])
>>> hh, pas = net.insert("hh", where="soma"), net.insert("pas", where="dendrites")
>>> clamp = net.add("iclamp", at=net.soma, delay=1.0, dur=2.0, amp=3.0)  # ms, ms, nA
>>> sim = clhines.Simulation(net, dt=0.025)
>>> v = sim.record("v", net.soma)
>>> result = sim.run(5.0)  # ms
>>> result[v].shape, len(result.spike_time)
((201, 1), 1)
>>> slow = clhines.Simulation(net, dt=0.025, engine="reference")
>>> v = slow.record("v", net.soma)
>>> same = slow.run(5.0)
>>> close = np.abs(same[v] - result[v]).max() < 1e-6  # mV
>>> bool(close and (same.spike_time == result.spike_time).all())
True

To add an executor: a class with the methods of `runs.Executor`, chosen in `runs`; to try it, give
`Simulation` a function of the `State` as `engine`. To record more: `records`, `state`, `reference`.
"""
