"""Spikes and other events, from where they begin to the instances that they reach.

On the grid of steps: `grid_run` keeps the sums, a ring buffer, row ``step % slots``, and
plastic weights on devices (`state.host_grid` in NumPy); `grid` delivers by one of several
algorithms, and times them. At exact times: `sources` has tables of events to instances and bins of
a step, `exact` the queues on the host, `plays` what is played among events.
"""
