"""The self-test of solves passes on this device, and detects a fault."""

import numpy as np
import pytest

from clhines import Solver
from clhines.solver.device import trust
from clhines.solver.known_answers import PROBLEMS


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_solve_is_right_and_a_fault_is_seen(typed_queue, monkeypatch, dtype):
    monkeypatch.setenv(trust.SWITCH, "1")
    dtype, solve = np.dtype(dtype), Solver.solve
    assert PROBLEMS["solve"](typed_queue, dtype) == ""
    off = dtype.type(1 + 1e3 * np.finfo(dtype).eps)  # 64 roundings are allowed
    monkeypatch.setattr(Solver, "solve", lambda *arguments: solve(*arguments) * off)
    assert "from the reference" in PROBLEMS["solve"](typed_queue, dtype)
