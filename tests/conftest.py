"""Fixtures: every OpenCL device found, one queue each for the whole session.

OpenCL is looked for when the first test wants a queue: `pytest tests/plan` runs without it.
"""

import functools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "kernels"))
sys.path.insert(0, str(Path(__file__).parent / "simulate"))
sys.path.insert(0, str(Path(__file__).parent / "solve"))
sys.path.insert(0, str(Path(__file__).parent / "support"))  # others import from these
pytest.register_assert_rewrite("solvers", "commands", "made_cells", "swc_files", "systems")


@functools.cache
def found():
    """All devices, as (index, device), and why there are none."""
    from clhines.device import devices
    from clhines.errors import DeviceError

    try:
        return devices.all_devices(), ""
    except DeviceError as error:
        return [], str(error)


_queues = {}


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    """Keep every test away from the user's store of tuned winners."""
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path / "store"))


def _parameter(pair):
    """Test parameter of a device; tests on a simulator are marked `oclgrind`."""
    from clhines.device import devices

    index, device = pair
    name = f"{device.platform.name.split()[0]}-{index}"
    marks = [pytest.mark.oclgrind] if devices.is_simulator(device) else []
    return pytest.param(pair, id=name, marks=marks)


def pytest_generate_tests(metafunc):
    """Give `queue` every device; `fast_queue` every device but simulators."""
    for fixture in ("queue", "fast_queue"):
        if fixture not in metafunc.fixturenames:
            continue
        parameters = [_parameter(pair) for pair in found()[0]]
        if fixture == "fast_queue":
            parameters = [p for p in parameters if not p.marks]
        metafunc.parametrize(
            fixture,
            parameters or [pytest.param(None, id="no-device")],
            indirect=True,
            scope="session",
        )


def _queue(pair):
    from clhines.device import devices

    index, device = pair
    if index not in _queues:
        _queues[index] = devices.make_queue(device)
    return _queues[index]


@pytest.fixture(scope="session")
def queue(request):
    """Queue on one of all devices; no device at all is a failure, not a skip."""
    if request.param is None:
        pytest.fail(f"the tests need an OpenCL device: {found()[1]}", pytrace=False)
    return _queue(request.param)


@pytest.fixture(scope="session")
def fast_queue(request):
    """Queue on one of the devices that are not simulators: for large or many systems."""
    if request.param is None:
        if not found()[0]:
            pytest.fail(f"the tests need an OpenCL device: {found()[1]}", pytrace=False)
        pytest.skip("only a simulator was found; it is too slow for this test")
    return _queue(request.param)


@pytest.fixture(scope="session")
def needs():
    """Skip where a queue's device lacks float64: ``needs(queue, dtype)``."""
    from clhines.device import devices

    def check(queue, dtype):
        if np.dtype(dtype) == np.float64 and not devices.has_fp64(queue.device):
            pytest.skip(f"{queue.device.name.strip()} has no float64")

    return check
