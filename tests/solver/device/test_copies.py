"""Host memory that runtimes use without a copy."""

from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from clhines.solver.device import copies


def test_what_runtimes_take():
    """PoCL accepts any address, other CPU runtimes whole pages; simulators and GPUs accept none."""
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


@pytest.mark.parametrize("count", [1, 3])
def test_threads_carry_values_there_and_back(fast_queue, monkeypatch, count):
    """Threads and the caller copy many pieces; an error ends no thread."""
    monkeypatch.setattr(copies, "LEAST_PIECE", 1 << 10)
    staging = copies.PinnedCopies(fast_queue, count, 1 << 12)
    arrays = [np.arange(size, dtype=np.float32) + size for size in (1, 7000, 20_001)]
    buffers = [cl.Buffer(fast_queue.context, cl.mem_flags.READ_WRITE, a.nbytes) for a in arrays]
    for _ in range(3):
        staging.send([([a], to) for a, to in zip(arrays, buffers, strict=True)])
        for a, source in zip(arrays, buffers, strict=True):
            out = np.zeros_like(a)
            staging.fetch(source, [out])
            assert np.array_equal(out, a)
    with pytest.raises(ValueError, match="broadcast|shape"):
        staging.send([([arrays[1].reshape(1000, 7)], buffers[1])])
    out = np.zeros_like(arrays[2])
    staging.fetch(buffers[2], [out])
    assert np.array_equal(out, arrays[2])
