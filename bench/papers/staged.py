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
// A chunk has one source and COLUMNS targets; first: the place of its first connection. All delays
// are one step. GROUP / LANES spikes are added at once.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void deliver(__global const int *spike_source, int count, int num_targets,
             __global const int *first, __global const int *target, __global const long *weight,
             __global long *incoming)
{
    __local long stage[COLUMNS];
    const int lane = get_local_id(0), num_blocks = get_num_groups(0);
    const int column = get_group_id(0) * COLUMNS, width = min(COLUMNS, num_targets - column);
    for (int c = lane; c < width; c += GROUP) stage[c] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = (uint)lane / LANES; k < count; k += GROUP / LANES) {
        const long chunk = (long)spike_source[k] * num_blocks + get_group_id(0);
        const int stop = first[chunk + 1];
        for (int i = first[chunk] + (lane & (LANES - 1)); i < stop; i += LANES)
            atom_add((volatile __local long *)stage + (target[i] - column), weight[i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c = lane; c < width; c += GROUP)
        if (stage[c]) incoming[column + c] += stage[c];
}
"""


class Staged:
    """One of the two algorithms, with `columns` targets in a work-group's range."""

    def __init__(self, delivery: Delivery, algorithm: str, columns: int) -> None:
        self._delivery, queue, c = delivery, delivery.queue, delivery.connections
        group = 16 if devices.is_cpu(queue.device) else 256
        blocks = -(-delivery.num_targets // columns)
        chunk = c.source.astype(np.int64) * blocks + c.target // columns
        first = offsets_of(chunk, c.num_sources * blocks)
        lanes = group
        if algorithm == "vssn":
            mean = max(1.0, c.count / max(1, np.count_nonzero(np.diff(first))))
            lanes = min(group, 1 << math.ceil(math.log2(mean)))
        tables = first, c.by_rows(c.target)
        self._tables = [cla.to_device(queue, t.astype(np.int32)) for t in tables]
        options = [f"-DCOLUMNS={columns}", f"-DGROUP={group}", f"-DLANES={lanes}"]
        self._kernel = cl.Program(queue.context, SOURCE).build(options).deliver
        self._sizes = (blocks * group,), (group,)

    def __call__(self, spikes: NewSpikes, incoming: cla.Array) -> cl.Event:
        """Add the weights for spikes of step 0, which act in step 2: slot 0 of 2."""
        d, source = self._delivery, spikes[0]
        numbers = np.int32(source.size), np.int32(d.num_targets)
        arrays = *(t.data for t in self._tables), d.tables.weight.data, incoming.data
        return self._kernel(d.queue, *self._sizes, source.data, *numbers, *arrays)


def widths(delivery: Delivery) -> Sequence[int]:
    """Return the targets of a range: 2048 on CPUs, also 256 on GPUs, unless chunks are too many."""
    c, device = delivery.connections, delivery.queue.device
    most = max(1 << 14, 4 * c.count)
    return [
        n
        for n in ((2048,) if devices.is_cpu(device) else (256, 2048))
        if c.num_sources * -(-delivery.num_targets // n) <= most and 16 * n <= device.local_mem_size
    ]
