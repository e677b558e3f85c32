"""Measurements: the median of the counted runs, and a memory floor that moves all its memory."""

from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from systems import make_system

from bench.made import chain
from clhines import Forest, Solver
from clhines.solver.device import program, timing
from clhines.solver.device.timing import FloorSpec
from clhines.solver.plan.plan import real_name

SECONDS = (50.0, 70.0, 3.0, 9.0, 1.0, 4.0, 8.0)  # the first two are warm-up


TIMED = cl.command_queue_properties.PROFILING_ENABLE


def fake_queue(kind, waits=None, properties=TIMED):
    platform = SimpleNamespace(name="Some Platform")
    waits = [] if waits is None else waits
    return SimpleNamespace(
        device=SimpleNamespace(type=kind, platform=platform, name="Some Device"),
        properties=properties,
        finish=lambda: waits.append("finish"),
    )


def fake_event(start, end):
    return SimpleNamespace(profile=SimpleNamespace(start=start, end=end))


@pytest.fixture
def clock(monkeypatch):
    """A clock, in seconds, that a test sets."""
    now = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    return now


def test_median_of_wall_time_on_a_cpu(clock):
    log = []

    def launch(k):
        log.append(k)
        clock[0] += SECONDS[k]

    times = timing.median_seconds(fake_queue(cl.device_type.CPU, log), launch, repeats=5, warmup=2)
    assert times == 4.0
    assert [k for k in log if k != "finish"] == list(range(7))
    for k in range(7):  # earlier work has finished, and the timer waits for the end
        place = log.index(k)
        assert log[place - 1] == "finish" == log[place + 1]


def test_a_queue_without_timestamps_is_timed_by_the_wall(clock):
    def launch(k):
        clock[0] += SECONDS[k]
        return object()  # has no `profile`

    queue = fake_queue(cl.device_type.GPU, properties=0)
    assert timing.median_seconds(queue, launch, repeats=5, warmup=2) == 4.0


def test_measuring_on_a_queue_without_timestamps(fast_queue, monkeypatch):
    """As on a GPU, the queue has no timestamps unless its caller requested them."""
    monkeypatch.setattr(timing.devices, "is_cpu", lambda _: False)
    plain = cl.CommandQueue(fast_queue.context, fast_queue.device)
    forest = Forest.repeat([chain(20)], 8)
    system = make_system(forest, np.float32)
    solver = Solver(forest, dtype=np.float32, queue=plain, tune="measure")
    assert solver.tuning is not None
    assert all(seconds > 0 for _, seconds in solver.tuning.rows)
    system.assert_solved(solver.solve(**system.arrays))


@pytest.mark.parametrize("several", [False, True])
def test_median_of_event_times_on_a_gpu(several):
    runs = []

    def launch(k):
        runs.append(k)
        start, length = 1000 * k, int(SECONDS[k] * 1e9)
        if not several:
            return fake_event(start, start + length)
        return [fake_event(start, start + 1), fake_event(start + 7, start + length)]

    seconds = timing.median_seconds(fake_queue(cl.device_type.GPU), launch, repeats=5, warmup=2)
    assert seconds == pytest.approx(4.0, rel=1e-12)
    assert runs == list(range(7))


def test_a_mean_of_the_middle_two_of_an_even_number_and_eleven_runs_by_default():
    durations, runs, queue = [4, 2, 16, 8], [], fake_queue(cl.device_type.GPU)
    seconds = timing.median_seconds(
        queue, lambda k: fake_event(0, durations[k] * 10**9), 4, warmup=0
    )
    assert seconds == pytest.approx(6.0, rel=1e-12)
    timing.median_seconds(queue, lambda k: runs.append(k) or fake_event(0, 1))
    assert runs == list(range(11))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 37, 4099])
def test_floor_moves_all_arrays(queue, needs, monkeypatch, dtype, n):
    needs(queue, dtype)
    sent = []

    def repeated(q, values, count, make=timing.repeated):
        array = make(q, values, count)
        sent.append((array, array.get()))
        return array

    monkeypatch.setattr(timing, "repeated", repeated)
    seconds = timing.floor_seconds(queue, n, dtype, repeats=3)
    assert np.isfinite(seconds) and seconds > 0
    assert len(sent) == 2 * timing.FLOOR_ARRAYS  # two sets take turns
    for first in (0, 4):
        (_, d), (_, u), (_, b), (x, before) = sent[first : first + 4]
        assert d.dtype == np.dtype(dtype) and d.shape == (n,)
        expected = d.astype(np.float64) + u.astype(np.float64) * b.astype(np.float64)
        assert not np.allclose(before, expected, rtol=1e-3)
        np.testing.assert_allclose(x.get(), expected, rtol=2 * np.finfo(dtype).eps)
        for device, host in sent[first : first + 3]:  # inputs do not change
            np.testing.assert_array_equal(device.get(), host)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("n", [3, 64, 1001])
def test_floor_kernel_against_numpy(queue, width, n):
    """All widths, and a rest that fills no vector; no write passes the end."""
    rng = np.random.default_rng(width)
    values = rng.uniform(-1, 1, (3, n)).astype(np.float32)
    arrays = [cla.to_device(queue, a) for a in values]
    x = cla.to_device(queue, np.full(n + 16, -7, np.float32))
    spec = FloorSpec(real_name(np.float32), width)
    kernel = cl.Kernel(program.build(queue.context, spec), "floor_copy")
    items = n if width == 1 else 5
    kernel(queue, (items,), (1,), np.int64(n), *(a.data for a in arrays), x.data)
    d, u, b = values.astype(np.float64)
    np.testing.assert_allclose(x.get()[:n], d + u * b, atol=2.5 * np.finfo(np.float32).eps)
    np.testing.assert_array_equal(x.get()[n:], -7)


@pytest.mark.parametrize(("given", "n"), [(3, 1), (3, 3), (3, 4), (3, 100), (5, 12), (1, 7)])
def test_values_are_repeated_on_the_device(fast_queue, given, n):
    values = np.arange(1, given + 1, dtype=np.float32)
    array = timing.repeated(fast_queue, values, n)
    assert array.dtype == np.float32 and array.get().tolist() == np.resize(values, n).tolist()
