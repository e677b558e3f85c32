"""Describe cells and networks, and advance them in time.

`cells` reads morphologies and makes cables, `mechanisms` compiles equations, `network` is the
user's description, `model` its arrays (NumPy, without OpenCL). `common` holds shared tools.
`fields` has extracellular potentials, and axon models from the literature. `analysis` computes
features of results; `refusals` is the catalogue of messages for models that are not supported. The
other modules advance a model, or passive cells without connections.

Words: a *step* advances voltages and states by dt. An *epoch* is as many steps as the smallest
delay: spikes of one epoch act in the next at the earliest, so cells do not interact within it. A
*chunk* is a whole number of epochs between two accesses of the host. An *engine* is a way to
advance a network; a *run* is an engine's state and kernels for one network, and its delivery of
events, *in whole steps* or *at exact times*. A *kind* is a mechanism with all its instances. An
*arena* is a device array with named regions: ``mem`` (reals), ``clock`` (times), ``ints``. A *rank*
is an MPI process.

Modules
    `simulation`: `Simulation`, the class of users; `result`: `Result`. A simulation owns a `runner`
    (the run in use, and the network as a model), `updates` (`set`, `reset`) and `recordings`;
    `course` is one call of `run`. `choose` chooses an engine. `engines`: the table of engines,
    runs, and the reference in NumPy, which is the oracle; `gpu` and `cpu`: epochs of whole cells;
    `device`: launches and reads. `kinds`: a mechanism as templates need it. `events`: spikes to
    targets, weights. `state`: values on the device, their start, files, copies. `records`:
    recorded quantities. `gradients`: derivatives of a loss. `ranks`: MPI. `population`: many
    parameter sets; `thresholds`: amplitudes at which cells fire. `interrupt`: Ctrl-C, at the end of
    a chunk. `known_answers`: self-tests for `solver.device.trust`. `importing`: the parts of a run
    that an importer needs.

A cell with a current into its soma, on the device and by the oracle:

>>> import numpy as np
>>> import clhines
>>> cable = clhines.discretise(clhines.sample_cells()[0], max_length=20)  # µm
>>> net = clhines.Network([cable])
>>> hh, pas = net.insert("hh", at="soma"), net.insert("pas", at="dendrites")
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

To add an engine: a row of `engines.table` and a function that makes its run; to try it, pass a
function from a `Job` to a `Run` as `engine` of `Simulation`. To record more:
`records.requests`, `engines.reference`, and `ArenaRun` in `engines.arena_run`.
"""

from clhines.core.quantities import read_texts_by
from clhines.simulator.common.units import number_in

read_texts_by(number_in)
