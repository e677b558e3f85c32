"""The interface of engines: defaults of an engine that implements nothing."""

import numpy as np
import pyopencl.array as cla
import pytest

from bench.made import chain
from clhines import Forest, InputError, make_plan
from clhines.solver.engines.engine import SolveEngine, nothing_solved, on_host


def test_what_an_engine_has_by_its_plan():
    forest = Forest.from_parents([chain(6)] * 3)
    engine = SolveEngine()
    for method, may_lose in (("flat", False), ("cr", True)):
        engine.plan = make_plan(forest, method)
        assert engine.may_lose == may_lose
        assert "__kernel" in engine.source and engine.source.count("void solve(") == 1
    assert not engine.finds_finite
    assert engine.empty_like(np.ones(3, np.float32)).dtype == np.float32
    for call in (lambda: engine.memory, engine.bad_pivots, lambda: engine.factor({})):
        with pytest.raises(NotImplementedError):
            call()
    assert isinstance(nothing_solved(), InputError)


def test_arrays_come_to_the_host_as_copies(fast_queue):
    here, there = np.arange(3.0), cla.to_device(fast_queue, np.arange(4, dtype=np.float32))
    result = on_host(fast_queue, {"d": here, "u": there})
    assert result["d"] is not here and result["d"].tolist() == [0, 1, 2]
    assert isinstance(result["u"], np.ndarray) and result["u"].tolist() == [0, 1, 2, 3]
