"""What runtimes take without a copy."""

from types import SimpleNamespace

import numpy as np
import pyopencl as cl

from clhines.device import copies


def test_what_runtimes_take():
    """PoCL any address, others whole pages; simulators and GPUs nothing."""
    room = np.zeros(8192, np.uint8)
    page = room[-room.ctypes.data % 4096 :]

    def fake(kind, name):
        return SimpleNamespace(type=kind, platform=SimpleNamespace(name=name), name=name)

    for device, any_address, pages in (
        (fake(cl.device_type.CPU, "Portable Computing Language"), True, True),
        (fake(cl.device_type.CPU, "Intel(R) OpenCL"), False, True),
        (fake(cl.device_type.CPU, "Oclgrind"), False, False),
        (fake(cl.device_type.GPU, "NVIDIA CUDA"), False, False),
    ):
        assert copies.lends(device, page) == pages
        assert copies.lends(device, page[8:]) == any_address
