"""Deliver spikes and other events from their sources to mechanisms' instances.

Events in whole steps, on a device: `grid_run` keeps the event sums in a ring buffer (row ``step %
slots``). `grid` adds spikes to the sums. `plasticity` changes weights, and `spike_list` has the
spikes. `state.host_grid` does all this in NumPy.

Events at exact times: `exact` delivers them in NumPy, `event_list` has the events that a device
detects and other ranks' events. `state` has the tables from sources to instances, and values that
are played between events.
"""
