"""Fixtures: every OpenCL device found, one queue each for the whole session."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "simulate"))
sys.path.insert(0, str(Path(__file__).parent / "solve"))
sys.path.insert(0, str(Path(__file__).parent / "support"))  # others import from these

from clhines.device import devices
from clhines.errors import DeviceError

try:
    DEVICES = devices.all_devices()
    PROBLEM = ""
except DeviceError as error:
    DEVICES, PROBLEM = [], str(error)

_queues = {}


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    """Keep every test away from the user's store of tuned winners."""
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path / "store"))


def _name(index, device):
    return f"{device.platform.name.split()[0]}-{index}"


def pytest_generate_tests(metafunc):
    """Give `queue` every device; `fast_queue` every device but simulators."""
    for fixture, wanted in (
        ("queue", DEVICES),
        ("fast_queue", [(i, d) for i, d in DEVICES if not devices.is_simulator(d)]),
    ):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(
                fixture,
                wanted or [None],
                ids=[_name(*pair) for pair in wanted] or ["no-device"],
                indirect=True,
                scope="session",
            )


def _queue(pair):
    index, device = pair
    if index not in _queues:
        _queues[index] = devices.make_queue(device)
    return _queues[index]


@pytest.fixture(scope="session")
def queue(request):
    """Queue on one of all devices; no device at all is a failure, not a skip."""
    if request.param is None:
        pytest.fail(f"the tests need an OpenCL device: {PROBLEM}", pytrace=False)
    return _queue(request.param)


@pytest.fixture(scope="session")
def fast_queue(request):
    """Queue on one of the devices that are not simulators: for large or many systems."""
    if request.param is None:
        if not DEVICES:
            pytest.fail(f"the tests need an OpenCL device: {PROBLEM}", pytrace=False)
        pytest.skip("only a simulator was found; it is too slow for this test")
    return _queue(request.param)


@pytest.fixture(scope="session")
def needs():
    """Skip where a queue's device lacks float64: ``needs(queue, dtype)``."""

    def check(queue, dtype):
        if np.dtype(dtype) == np.float64 and not devices.has_fp64(queue.device):
            pytest.skip(f"{queue.device.name.strip()} has no float64")

    return check
