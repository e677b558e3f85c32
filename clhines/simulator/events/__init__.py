"""Deliver spikes and other events from their sources to instances of mechanisms.

Events in whole steps: `grid_run` keeps their sums in a ring buffer (row ``step % slots``), `grid`
adds to them by one of several algorithms and times these, `plasticity` changes weights, and
`spike_list` holds the spikes. `state.host_grid` does the same in NumPy.

Events at exact times: `exact` has the queues in NumPy, `event_list` the events of a device and of
other ranks. `state` has the tables from sources to instances, and values that are played between
events.

`weight_order` compares orders of weights in memory (Brette and Goodman 2012).
"""
