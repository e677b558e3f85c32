"""The review's VSN and VSSN: deliver spikes by sums in local memory (Brette and Goodman 2012).

A work-group sums up the weights for a range of targets. `vsn` has one spike at a time, `vssn`
several. They are measured beside `vpo`, which a simulation uses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.events.grid import Delivery, NewSpikes
from clhines.simulator.model.connections import offsets_of
from clhines.solver.device import devices

SOURCE = """
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
// Groups along the dimensions: targets, delays. A chunk has one source, one delay and COLUMNS
// targets; first: the place of its first connection. GROUP / LANES spikes are added at once.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void deliver(__global const int *spike_source, int count, int first_slot, int num_targets,
             int slots, __global const int *first, __global const int *delays,
             __global const int *target, __global const long *weight, __global long *incoming)
{
    __local long stage[COLUMNS];
    const int lane = get_local_id(0), num_blocks = get_num_groups(0);
    const int column = get_group_id(0) * COLUMNS, width = min(COLUMNS, num_targets - column);
    for (int c = lane; c < width; c += GROUP) stage[c] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = (uint)lane / LANES; k < count; k += GROUP / LANES) {
        const long row = (long)spike_source[k] * get_num_groups(1) + get_group_id(1);
        const long chunk = row * num_blocks + get_group_id(0);
        const int stop = first[chunk + 1];
        for (int i = first[chunk] + (lane & (LANES - 1)); i < stop; i += LANES)
            atom_add((volatile __local long *)stage + (target[i] - column), weight[i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int slot = (first_slot + delays[get_group_id(1)]) % slots;
    for (int c = lane; c < width; c += GROUP)
        if (stage[c]) incoming[(long)slot * num_targets + column + c] += stage[c];
}
"""  # a sum has one delay in each slot, as all spikes are from one step


class Staged:
    """One of the two algorithms, with `columns` targets in a work-group's range."""

    def __init__(self, delivery: Delivery, algorithm: str, columns: int) -> None:
        self._delivery, queue, c = delivery, delivery.queue, delivery.connections
        delays = np.unique(c.delay)
        group = 16 if devices.is_cpu(queue.device) else 256
        blocks = -(-delivery.num_targets // columns)
        rows = c.source.astype(np.int64) * len(delays) + np.searchsorted(delays, c.delay)
        count = c.num_sources * len(delays) * blocks
        first = offsets_of(rows * blocks + c.target // columns, count)
        lanes = group
        if algorithm == "vssn":
            mean = max(1.0, c.count / max(1, np.count_nonzero(np.diff(first))))
            lanes = min(group, 1 << math.ceil(math.log2(mean)))
        tables = first, delays, c.by_rows(c.target)
        self._tables = [cla.to_device(queue, t.astype(np.int32)) for t in tables]
        options = [f"-DCOLUMNS={columns}", f"-DGROUP={group}", f"-DLANES={lanes}"]
        self._kernel = cl.Program(queue.context, SOURCE).build(options).deliver
        self._sizes = (blocks * group, len(delays)), (group, 1)

    def __call__(self, spikes: NewSpikes, incoming: cla.Array) -> cl.Event:
        """Add the weights for spikes of step 0."""
        d, source = self._delivery, spikes[0]
        numbers = np.int32(source.size), np.int32(1), np.int32(d.num_targets), np.int32(d.slots)
        arrays = *(t.data for t in self._tables), d.tables.weight.data, incoming.data
        return self._kernel(d.queue, *self._sizes, source.data, *numbers, *arrays)


def widths(delivery: Delivery) -> Sequence[int]:
    """Return the targets of a range: 2048 on CPUs, also 256 on GPUs, unless chunks are too many."""
    c, device = delivery.connections, delivery.queue.device
    rows = c.num_sources * len(np.unique(c.delay))
    most = max(1 << 14, 4 * c.count)
    return [
        n
        for n in ((2048,) if devices.is_cpu(device) else (256, 2048))
        if rows * -(-delivery.num_targets // n) <= most and 16 * n <= device.local_mem_size
    ]
