"""Calls of `enqueue` with the same arrays: prepared once, and never wrong for others."""

import gc

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from solvers import ONE_EACH, forest_of, make_solver
from systems import dissimilar, make_system

import clhines
from clhines import Forest, InputError
from clhines.solver.arguments import Arguments
from clhines.solver.engines.loaded import Step
from clhines.solver.engines.repeated import MOST_CALLS, Calls
from clhines.solver.engines.whole import Whole


@pytest.fixture
def counted(monkeypatch):
    """Count checks of arguments and preparations of launches."""
    counts = {"packed": 0, "prepare": 0}
    for owner, name in ((Arguments, "packed"), (Whole, "prepare")):
        original = getattr(owner, name)

        def counting(*args, _original=original, _name=name, **kwargs):
            counts[_name] += 1
            return _original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)
    return counts


def packed(solver, system):
    """Return d, u, b of a symmetric system in device order."""
    return [solver.to_device_order(system.arrays[name]) for name in "dub"]


@pytest.mark.parametrize("config", ONE_EACH)
def test_the_same_arrays_are_checked_once_whatever_their_values(fast_queue, config, counted):
    forest = forest_of(config, dissimilar(5))
    solver = make_solver(fast_queue, forest, config, np.float64)
    arrays = packed(solver, make_system(forest, np.float64))
    out = cla.empty_like(arrays[2])
    for seed in range(4):
        system = make_system(forest, np.float64, seed=seed)
        for a, name in zip(arrays, "dub", strict=True):
            cl.enqueue_copy(
                fast_queue, a.base_data, solver.to_device_order(system.arrays[name]).base_data
            )
        event = solver.enqueue(*arrays, out=out)
        assert out.events == [event]
        system.assert_solved(solver.from_device_order(out).get())
    assert counted == {"packed": 1, "prepare": 1}


def test_a_kernel_gets_its_arguments_once(fast_queue, monkeypatch):
    forest = Forest.from_parents(dissimilar(5))
    solver = make_solver(fast_queue, forest, dtype=np.float64)
    arrays = packed(solver, make_system(forest, np.float64))
    out, keys = cla.empty_like(arrays[2]), []
    original = Step.run

    def run(step, *args):
        keys.append(step.bound.arguments_of is step.key)
        return original(step, *args)

    monkeypatch.setattr(Step, "run", run)
    for _ in range(3):
        solver.enqueue(*arrays, out=out)
    kernels = len(solver.kernel_events)
    assert keys[:kernels] == [False] * kernels
    if kernels == 1:  # several launches may share a kernel
        assert keys[1:] == [True, True]


def test_sets_of_arrays_in_turns(fast_queue, counted):
    forest = Forest.from_parents(dissimilar(5))
    solver = make_solver(fast_queue, forest, dtype=np.float64)
    systems = [make_system(forest, np.float64, seed=k) for k in range(MOST_CALLS + 1)]
    sets = [packed(solver, system) for system in systems]
    out = [cla.empty_like(arrays[2]) for arrays in sets]
    for most, prepared in ((MOST_CALLS, MOST_CALLS), (MOST_CALLS + 1, 2 * MOST_CALLS + 2)):
        for _ in range(2):
            for arrays, x in list(zip(sets, out, strict=True))[:most]:
                solver.enqueue(*arrays, out=x)
        if most == MOST_CALLS:
            assert counted["prepare"] == prepared
        for system, x in list(zip(systems, out, strict=True))[:most]:
            system.assert_solved(solver.from_device_order(x).get())
    assert counted["prepare"] > MOST_CALLS  # one set too many: the oldest needs another preparation


def test_other_uses_of_the_kernel_between(fast_queue):
    forest = Forest.from_parents(dissimilar(5))
    solver = make_solver(fast_queue, forest, dtype=np.float64)
    system, other = (make_system(forest, np.float64, seed=k) for k in range(2))
    arrays = packed(solver, system)
    out = cla.empty_like(arrays[2])
    for _ in range(2):
        solver.enqueue(*arrays, out=out)
        other.assert_solved(solver.solve(**other.arrays))
        natural = [cla.to_device(fast_queue, other.arrays[name]) for name in "dub"]
        other.assert_solved(solver.solve(*natural).get())
        factors = solver.factor(other.d, other.u)
        other.assert_solved(factors.solve(other.b))
        out.fill(np.nan)
        solver.enqueue(*arrays, out=out)
        system.assert_solved(solver.from_device_order(out).get())


def test_an_array_that_was_changed_is_checked_again(fast_queue, counted):
    forest = Forest.from_parents(dissimilar(5))
    solver = make_solver(fast_queue, forest, dtype=np.float64)
    systems = [make_system(forest, np.float64, seed=k) for k in range(2)]
    (d, u, b), other = (packed(solver, system) for system in systems)
    out = cla.empty_like(b)
    solver.enqueue(d, u, b, out=out)
    d.base_data, u.base_data, b.base_data = (a.base_data for a in other)
    solver.enqueue(d, u, b, out=out)
    systems[1].assert_solved(solver.from_device_order(out).get())
    assert counted["packed"] == 2
    b.offset = 8
    with pytest.raises(InputError, match="b is an offset view"):
        solver.enqueue(d, u, b, out=out)


def test_wrong_arguments_are_refused_beside_known_ones(fast_queue):
    forest = Forest.from_parents(dissimilar(5))
    solver = make_solver(fast_queue, forest, dtype=np.float64)
    d, u, b = packed(solver, make_system(forest, np.float64))
    out = cla.empty_like(b)
    solver.enqueue(d, u, b, out=out)
    with pytest.raises(InputError, match="out is d, u or l"):
        solver.enqueue(d, u, b, out=d)
    with pytest.raises(InputError, match="b has dtype float32"):
        solver.enqueue(d, u, b.astype(np.float32), out=out)
    with pytest.raises(InputError, match="d is ndarray; expected a pyopencl array"):
        solver.enqueue(d.get(), u, b, out=out)
    with pytest.raises(InputError, match="wait_for is int"):
        solver.enqueue(d, u, b, out=out, wait_for=3)
    with pytest.raises(InputError, match="l has shape"):
        solver.enqueue(d, u, b, l=cla.empty(fast_queue, 3, np.float64), out=out)


def test_events_of_known_arrays_are_waited_for(fast_queue):
    """Skip Oclgrind, whose flushing thread runs the commands and would wait for itself."""
    queue = fast_queue
    forest = Forest.from_parents(dissimilar(5))
    solver = make_solver(queue, forest, dtype=np.float64)
    system = make_system(forest, np.float64)
    d, u, b = packed(solver, system)
    out = cla.empty_like(b)
    for name, array in (("first", None), ("b", b), ("out", out), ("wait_for", None)):
        queue.finish()
        gate = cl.UserEvent(queue.context)
        if array is not None:
            array.add_event(gate)
        event = solver.enqueue(d, u, b, out=out, wait_for=[gate] if array is None else None)
        queue.flush()
        status = event.get_info(cl.event_info.COMMAND_EXECUTION_STATUS)
        gate.set_status(cl.command_execution_status.COMPLETE)
        assert status != cl.command_execution_status.COMPLETE, name
    system.assert_solved(solver.from_device_order(out).get())


def test_buffers_of_arrays_that_are_gone_are_not_kept(fast_queue):
    calls = Calls()
    a, b = (cla.zeros(fast_queue, 8, np.float64) for _ in range(2))
    call = calls.add((a, None, b), [])
    assert calls.find((a, None, b)) is call
    assert calls.find((a, b, b)) is None
    assert calls.find((a, None, b), more=True) is None
    del b, call
    gc.collect()
    assert len(calls) == 0


def test_factors_for_the_same_arrays(fast_queue, monkeypatch):
    forest = Forest.from_parents(dissimilar(5))
    solver = make_solver(fast_queue, forest, dtype=np.float64)
    system = make_system(forest, np.float64)
    factors = solver.factor(system.d, system.u)
    b = solver.to_device_order(system.b)
    out, checked, counts = cla.empty_like(b), [], []
    original = Arguments.check_out
    monkeypatch.setattr(Arguments, "check_out", lambda *args: checked.append(1) or original(*args))
    for _ in range(3):
        checked.clear()
        factors.enqueue(b, out=out)
        counts.append(len(checked))
        system.assert_solved(solver.from_device_order(out).get())
    assert counts == [1, 0, 0]


def test_device_solves_in_natural_order_take_their_memory_once(fast_queue, monkeypatch):
    """A release of memory makes some drivers wait for all enqueued work."""
    forest = Forest.from_parents(dissimilar(5))
    solver = clhines.Solver(forest, "flat", queue=fast_queue)
    system = make_system(forest, np.float64)
    arrays = [cla.to_device(fast_queue, system.arrays[name]) for name in "dub"]
    out = cla.empty_like(arrays[2])
    assert not solver.plan.takes_natural
    solver.solve(*arrays, out=out, check=False)
    made = []
    original = cla.Array.__init__

    def init(self, *args, **kwargs):
        made.append(kwargs.get("data"))
        original(self, *args, **kwargs)

    monkeypatch.setattr(cla.Array, "__init__", init)
    for _ in range(3):
        solver.solve(*arrays, out=out, check=False)
    assert made
    assert all(data is not None for data in made)  # views of existing buffers
    monkeypatch.undo()
    system.assert_solved(out.get())
