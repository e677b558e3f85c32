"""Device arrays, device order, and events."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from solvers import ONE_EACH, assert_solved, forest_of, make_solver, on_device
from systems import dissimilar, make_system

from bench.made import chain
from clhines import Forest, InputError

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize("rows", [None, 1, 6])
@pytest.mark.parametrize("config", ONE_EACH)
def test_device_arrays_in_device_arrays_out(fast_queue, config, rows):
    forest = forest_of(config, dissimilar(6))
    system = make_system(forest, np.float32, symmetric=False, rows=rows)
    solver = make_solver(fast_queue, forest, config, np.float32)
    arrays = on_device(fast_queue, system)
    x = solver.solve(**arrays, check=False)
    assert isinstance(x, cla.Array)
    assert x.queue == fast_queue == solver.queue
    assert x.events
    assert np.array_equal(x.get(), solver.solve(**system.arrays))
    assert_solved(config, system, x.get())
    for key, array in arrays.items():
        assert np.array_equal(array.get(), system.arrays[key])

    out = cla.zeros_like(arrays["b"])
    assert solver.solve(**arrays, out=out) is out
    assert np.array_equal(out.get(), x.get())
    assert solver.solve(**arrays, overwrite=True) is arrays["b"]
    assert np.array_equal(arrays["b"].get(), x.get())
    assert np.array_equal(arrays["d"].get(), system.d)


def test_a_part_of_a_device_array(queue):
    forest = Forest.from_parents(dissimilar(4))
    n = forest.num_nodes
    system = make_system(forest, np.float32)
    solver = make_solver(queue, forest, dtype=np.float32)
    arrays = on_device(queue, system)
    both = cla.to_device(queue, np.concatenate((system.b * 0 + 7, system.b)))
    x = solver.solve(arrays["d"], arrays["u"], both[n:])
    system.assert_solved(x.get())
    with pytest.raises(InputError, match="out is read-only"):
        solver.solve(**arrays, out=both[n:])
    with pytest.raises(InputError, match="b is a strided view; expected a C-contiguous array"):
        solver.solve(arrays["d"], arrays["u"], both[::2])


@pytest.mark.parametrize("config", ONE_EACH)
def test_enqueue_in_device_order(fast_queue, config):
    forest = forest_of(config, dissimilar(6))
    solver = make_solver(fast_queue, forest, config, np.float32)
    for rows, symmetric in ((None, True), (2, False), (7, True)):
        system = make_system(forest, np.float32, symmetric, rows)
        expected = solver.solve(**system.arrays)
        packed = {k: solver.to_device_order(a) for k, a in system.arrays.items() if a is not None}
        before = {k: a.get() for k, a in packed.items()}
        out = cla.empty_like(packed["b"])
        out.fill(np.nan)
        event = solver.enqueue(**packed, out=out)
        assert isinstance(event, cl.Event)
        event.wait()
        assert event.command_execution_status == cl.command_execution_status.COMPLETE
        assert np.array_equal(solver.from_device_order(out).get(), expected)
        assert (solver.status() == -1).all()
        for key, array in packed.items():
            assert np.array_equal(array.get(), before[key])
        # in place: may overwrite d and b
        solver.enqueue(**packed, out=packed["b"], overwrite=True).wait()
        assert np.array_equal(solver.from_device_order(packed["b"]).get(), expected)
        assert_solved(config, system, expected)


def test_events_to_wait_for(fast_queue):
    forest = Forest(chain(9))
    system = make_system(forest, np.float32)
    solver = make_solver(fast_queue, forest, dtype=np.float32)
    d, u, b, out = (solver.to_device_order(a) for a in (system.d, system.u, system.b, system.b))
    factors = solver.factor(system.d, system.u)
    event = solver.enqueue(d, u, b, out=out)
    for good in (event, [event], (event, event), []):
        solver.enqueue(d, u, b, out=out, wait_for=good)
        system.assert_solved(solver.from_device_order(out).get())
        factors.enqueue(b, out=out, wait_for=good)
    for bad, got in ((1, "int"), (["now", event], "list of Event, str"), ([[event]], "list")):
        for call in (
            lambda e: solver.enqueue(d, u, b, out=out, wait_for=e),
            lambda e: factors.enqueue(b, out=out, wait_for=e),
        ):
            with pytest.raises(InputError, match=f"wait_for is {got}.*; expected an event or"):
                call(bad)


@pytest.mark.parametrize("config", ONE_EACH)
def test_pack_and_unpack(queue, config):
    forest = forest_of(config, dissimilar(6))
    solver = make_solver(queue, forest, config, np.float32)
    gather = solver.plan.gather
    for shape in ((forest.num_nodes,), (3, forest.num_nodes)):
        natural = np.random.default_rng(3).random(shape, np.float32)
        packed = solver.to_device_order(natural)
        assert packed.shape == (*shape[:-1], solver.plan.packed_size)
        assert np.array_equal(packed.get()[..., gather >= 0], natural[..., gather[gather >= 0]])
        assert not packed.get()[..., gather < 0].any()
        assert np.array_equal(
            solver.to_device_order(cla.to_device(queue, natural)).get(), packed.get()
        )
        assert np.array_equal(solver.from_device_order(packed).get(), natural)
        out = cla.zeros(queue, shape, np.float32)
        assert solver.from_device_order(packed, out=out) is out
        assert np.array_equal(out.get(), natural)


def test_solves_wait_for_events(fast_queue):
    """Skip the simulator, which runs commands in one thread and would wait for itself."""
    queue = fast_queue
    forest = Forest.from_parents(dissimilar(6))
    solver = make_solver(queue, forest, dtype=np.float32)
    system = make_system(forest, np.float32)
    queue.finish()
    complete = cl.command_execution_status.COMPLETE
    gate = cl.UserEvent(queue.context)
    arrays = on_device(queue, system)
    arrays["b"].add_event(gate)  # b is still being filled
    x = solver.solve(**arrays, check=False)
    assert x.events[-1].command_execution_status != complete
    gate.set_status(complete)
    system.assert_solved(x.get())


def test_many_solves_into_one_array_never_wait_for_the_host(fast_queue):
    solver = make_solver(fast_queue, Forest.from_parents(dissimilar(6)), dtype=np.float32)
    system = make_system(solver.forest, np.float32)
    packed = [solver.to_device_order(a) for a in (system.d, system.u, system.b)]
    out = cla.empty_like(packed[2])
    gate = cl.UserEvent(fast_queue.context)
    event = solver.enqueue(*packed, out=out, wait_for=[gate])
    for _ in range(40):  # a host that waits here waits forever
        event = solver.enqueue(*packed, out=out)
    assert len(out.events) == 1
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    system.assert_solved(solver.from_device_order(out).get())
