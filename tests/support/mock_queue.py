"""A queue without a device, for tests of the host's checks before anything is enqueued.

It passes for a queue of pyopencl and has the properties that checks and planners read, but cannot
compute: if a check lets a wrong argument through, the test ends with an error of another kind, not
with a number.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pyopencl as cl


@dataclass(eq=False)
class MockDevice:
    """A GPU of middle size."""

    name: str = "mock device"
    type: int = cl.device_type.GPU
    extensions: str = "cl_khr_fp64"
    double_fp_config: int = 63
    max_compute_units: int = 32
    max_work_group_size: int = 256
    local_mem_size: int = 32 << 10
    global_mem_size: int = 1 << 30
    max_mem_alloc_size: int = 1 << 28
    platform: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(name="mock"))

    @property
    def __class__(self):
        return cl.Device


@dataclass(eq=False)
class MockQueue:
    """A queue, in order unless `properties` say otherwise, in a context of its own."""

    device: MockDevice = field(default_factory=MockDevice)
    context: object = field(default_factory=object)
    properties: int = 0

    @property
    def __class__(self):
        return cl.CommandQueue
