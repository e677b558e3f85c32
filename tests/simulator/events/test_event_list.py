"""Events at exact times: the number of copies to the host."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from clhines import Network, Simulation, discretise, sample_cells
from clhines.simulator.events import event_list
from clhines.simulator.events.event_list import EventList, RankEvents
from clhines.solver.device import arrays, copies
from clhines.solver.device.arrays import to_device
from clhines.solver.device.devices import limits


def counted(patch, apart):
    """Return a list of flags, whether later copies block; `apart`: as if memory were separate."""
    core, blocking = arrays.cl._cl, []

    def call(own, *arguments, **named):
        blocking.append(bool(named["is_blocking"]))
        return own(*arguments, **named)

    for name in ("read_buffer", "write_buffer"):
        for module, attribute in ((core, f"_enqueue_{name}"), (copies, name)):
            patch.setattr(module, attribute, partial(call, getattr(module, attribute)))
    if apart:
        patch.setattr(copies, "fine_grained", lambda _: False)
    return blocking


@pytest.mark.parametrize("apart", [False, True])
def test_new_events_come_with_one_wait(double_queue, monkeypatch, apart):
    """One wait brings the count and as many events as usual; more events need a second wait."""
    blocking, rng = counted(monkeypatch, apart), np.random.default_rng(4)
    apart = apart or not copies.fine_grained(double_queue.device)
    count = arrays.within_reach(double_queue, (1,), np.dtype(np.int32))
    events = EventList(double_queue, 400, np.dtype(np.float64), count)
    source, t = rng.integers(0, 9, 400), rng.uniform(0, 5, 400)
    for name, values in (("spike_source", source), ("spike_time", t)):
        array = events.arguments[name]
        arrays.set_soon(array, 0, values.astype(array.dtype), double_queue)
    begin = 0
    for more, waits in ((0, 1), (63, 2), (64, 1), (65, 2), (128, 1), (80, 1)):  # 128 from 65 on
        arrays.set_soon(count, 0, np.array([begin + more], np.int32), double_queue)
        blocking.clear()
        *result, (values,) = events.new([(count, 0, 1)])
        assert values == [begin + more]
        assert sum(blocking) == (waits if apart else 0)
        for part, every in zip(result, (source, t), strict=True):
            np.testing.assert_array_equal(part, every[begin : begin + more])
        begin += more
    assert begin == events.capacity


def test_events_of_other_ranks_take_one_copy(double_queue, monkeypatch):
    """Taking events into stored arrays is one copy; rings and counts match a loop."""
    sizes, rng = np.array([3, 4, 5]), np.random.default_rng(5)
    rings, counts, fans = np.zeros(12), np.array([0, 3, 7]), [[1], [0, 2], []]
    regions = {
        "ring_first": [0, 3, 7], "ring_size": sizes, "event_count": counts, "event_live": counts,
        "fan": [1, 0, 2], "first_fan": [0, 1, 3, 3], "stale": [0, 0, 0],
    }  # fmt: skip
    ends = np.cumsum([len(values) for values in regions.values()])
    clock = to_device(double_queue, rings, np.float64)
    ints = to_device(double_queue, np.concatenate([*regions.values()]), np.int32)
    offset = dict(zip(regions, [0, *ends.tolist()], strict=False))
    arenas = {
        "clock": SimpleNamespace(offset={"ring": 0}, array=clock),
        "ints": SimpleNamespace(offset=offset, array=ints),
    }
    monkeypatch.setattr(event_list, "_WORDS", 16)
    most, stale = limits(double_queue.device).max_work_group, np.zeros(3)
    taking = RankEvents(double_queue, arenas, most)
    blocking = counted(monkeypatch, False)
    for some, room in (([1], 16), ([0, 0, 1], 16), ([0, 0, 0, 1, 1, 1, 1, 2, 2], 32)):
        source, time = np.array(some), rng.uniform(0, 9, len(some))
        blocking.clear()
        taking.take(source, time)
        assert blocking == [False]
        assert len(taking._words) == room
        for s, t in zip(some, time, strict=True):
            rings[regions["ring_first"][s] + counts[s] % sizes[s]] = t
            counts[s] += 1
            stale[fans[s]] = 1
        result = dict(zip(regions, np.split(ints.get(double_queue), ends[:-1]), strict=True))
        np.testing.assert_array_equal(clock.get(double_queue), rings)
        for name, values in (("event_count", counts), ("event_live", counts), ("stale", stale)):
            np.testing.assert_array_equal(result[name], values)


@pytest.mark.core
def test_networks_in_whole_steps_have_room_for_their_spikes(fast_queue):
    """The list has room for one spike per cell and step in whole steps, and none at exact times."""
    net = Network(discretise(sample_cells()[0]), num_cells=3)
    net.insert("hh", at="soma")
    synapses = net.add("expsyn", at=net.soma)
    net.connect([0, 1], synapses, [1, 2], 0.05, 1.0)
    sim = Simulation(net, 0.025, queue=fast_queue, engine="epochs-gpu", chunk=200)
    run = sim.runner
    assert (run.events.capacity, run.grid.spikes.capacity) == (1, 3 * (sim.chunk + 1))
