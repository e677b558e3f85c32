"""Spikes and other events, from where they begin to the instances that they reach.

On the grid of steps: `grid_run` keeps the sums, a ring buffer, row ``step % slots``, `plasticity`
plastic weights on devices (`state.host_grid` in NumPy), and `spike_list` the spikes that they come
from; `grid` delivers by one of several algorithms, and times them. At exact times: `exact` has the
queues on the host, `event_list` the events on a device and those of other ranks; tables of events
to instances, and values that are played between events, are in `state`. `weight_order` compares
orders of weights in memory, as Brette and Goodman (2012) do.
"""
