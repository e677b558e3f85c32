"""Plastic connections on a device."""

import numpy as np
import pyopencl.array as cla

from clhines.simulator.events.grid import Delivery
from clhines.simulator.events.plasticity import Plasticity

DT = 0.5  # ms, a plasticity step


class PlasticDevice:
    """Plastic connections on a device, with its lists of spikes."""

    def __init__(
        self, queue, connections, rule, cell_of_target, plastic, algorithm, slots, dt=DT, **given
    ):
        self.delivery = Delivery(
            queue,
            connections,
            len(cell_of_target),
            slots,
            1000,
            algorithm,
            scale=connections.scale(largest=rule.max_weight(connections, plastic)),
            **given,
        )
        self.plasticity = Plasticity(self.delivery, rule, dt, cell_of_target, plastic)
        self.lists = [cla.to_device(queue, np.full(1000, -1, np.int32)) for _ in range(2)]
        self.count = cla.to_device(queue, np.zeros(1, np.int32))
        zeros = np.zeros(slots * len(cell_of_target), np.int64)
        self.incoming = cla.to_device(queue, zeros)

    def epoch(self, trains, first, steps, rng):
        """Append the spikes of some steps, shuffled, and deliver them."""
        spikes = [(c, s) for s in range(first, first + steps) for c in np.flatnonzero(trains[s])]
        held = int(self.count.get()[0])
        for array, column in zip(self.lists, np.array(rng.permutation(spikes)).reshape(-1, 2).T):
            values = array.get()
            values[held : held + len(spikes)] = column
            array.set(values)
        self.count.set(np.array([held + len(spikes)], np.int32))
        self.plasticity.enqueue((*self.lists, self.count), self.incoming, first, steps)
