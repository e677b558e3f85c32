"""A queue on a CPU, for whose engine these tests are."""

import pytest

from clhines.solver.device import devices


@pytest.fixture
def cpu(double_queue):
    if not devices.is_cpu(double_queue.device):
        pytest.skip("blocks are for CPUs")
    return double_queue
