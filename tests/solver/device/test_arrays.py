"""Arrays on a device: the mark of their order, and checks."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

from clhines import InputError
from clhines.solver.device import arrays, copies


def test_marks_of_device_order(fast_queue):
    gather = np.array([2, 0, 1])
    order, same, other = (arrays.Order(g, 3) for g in (gather, gather.copy(), gather[::-1]))
    a = arrays.to_device(fast_queue, [1.0, 2.0, 3.0], np.float32)
    with pytest.raises(InputError, match=r"b does not come from to_device_order\(\)"):
        order.check("b", a)
    order.mark(a)
    order.check("b", a)
    same.check("b", a)
    with pytest.raises(InputError, match="b is in the device order of another solver"):
        other.check("b", a)
    arrays.unmark(a)
    assert arrays.order_of(a) is None
    natural = arrays.Order(np.arange(3), 3)
    assert natural.is_natural and not order.is_natural
    natural.check("b", a)


def test_values_on_a_device(fast_queue):
    assert arrays.to_device(fast_queue, [], np.int32).get().tolist() == [0]
    kept = arrays.within_reach(fast_queue, (6,), np.dtype(np.int32))
    assert kept.get().tolist() == [0] * 6


@pytest.mark.parametrize("shared", [True, False])
def test_a_part_is_filled(fast_queue, monkeypatch, shared):
    if not shared:
        monkeypatch.setattr(copies, "fine_grained", lambda _: False)
    monkeypatch.setattr(arrays, "_MOST_FILLED", 16)  # two values per command
    kept = arrays.within_reach(fast_queue, (6,), np.dtype(np.float64))
    arrays.fill_soon(kept[1:], 0, 3, np.float64(2.5), fast_queue)
    arrays.fill_soon(kept, 5, 1, np.float64(1.0), fast_queue)
    assert arrays.values_of(kept, fast_queue).tolist() == [0.0, 2.5, 2.5, 2.5, 0.0, 1.0]
    monkeypatch.setattr(arrays, "_FAR", 4096)  # by a part of the buffer
    kept = arrays.within_reach(fast_queue, (1500,), np.dtype(np.float64))
    arrays.fill_soon(kept, 1021, 5, np.float64(2.5), fast_queue)
    filled = np.flatnonzero(arrays.values_of(kept, fast_queue) == 2.5)
    assert filled.tolist() == [*range(1021, 1026)]


def test_events_are_of_the_context(fast_queue):
    assert arrays.events_of("wait_for", None, fast_queue) == []
    event = cl.enqueue_marker(fast_queue)
    assert arrays.events_of("wait_for", event, fast_queue) == [event]
    for wrong, text in (("x", "is str"), ([event, 1], "is list of Event, int")):
        with pytest.raises(InputError, match=f"wait_for {text}; expected an event or a list of"):
            arrays.events_of("wait_for", wrong, fast_queue)
    context = cl.Context([fast_queue.device])
    other = cl.CommandQueue(context)
    far = cl.enqueue_marker(other)
    with pytest.raises(InputError, match="an event of another OpenCL context"):
        arrays.events_of("wait_for", far, fast_queue)
    assert cla.zeros(fast_queue, 1, np.int32).get().tolist() == [0]
