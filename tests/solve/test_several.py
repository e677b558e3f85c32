"""Several devices: shares, agreement with one device, lists of arrays, and what fails."""

import threading
import time

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from systems import dissimilar, make_system
from tolerances import assert_close

from clhines import DeviceMemoryError, Forest, InputError, PivotError, ShareError, Solver, errors
from clhines.cells.shapes import chain, random_binary_tree
from clhines.device import devices
from clhines.solve import rates
from clhines.solve.rates import Rate, cut


@pytest.fixture(scope="module")
def halves():
    """Queues on two GPUs of one kind, or else on two sub-devices of a CPU."""
    found = [device for _, device in devices.all_devices()]
    gpus = [d for d in found if not devices.is_cpu(d) and not devices.is_simulator(d)]
    if len(gpus) > 1 and gpus[0].name == gpus[1].name:
        return [devices.make_queue(device) for device in gpus[:2]]
    for device in found:
        if devices.is_cpu(device) and not devices.is_simulator(device):
            try:
                kind = cl.device_partition_property.EQUALLY
                parts = device.create_sub_devices([kind, 1])
            except cl.Error:
                continue
            if len(parts) > 1:
                return [devices.make_queue(part) for part in parts[:2]]
    pytest.skip("no CPU device with sub-devices")
    return None


@pytest.fixture(scope="module")
def unequal():
    """A CPU and a simulator, which is far slower."""
    found = [device for _, device in devices.all_devices()]
    fast = [d for d in found if devices.is_cpu(d) and not devices.is_simulator(d)]
    slow = [d for d in found if devices.is_simulator(d)]
    if not fast or not slow:
        pytest.skip("needs a CPU device and a simulator")
    return [fast[0], slow[0]]


# --------------------------------------------------------------------------------------- shares


def test_cut_by_hand():
    forest = Forest.from_cells([chain(10)] * 12)
    equal, twice = Rate(0.0, 1.0), Rate(0.0, 0.5)
    assert cut(forest, [equal, equal]).tolist() == [0, 6, 12]
    assert cut(forest, [equal, twice]).tolist() == [0, 4, 12]
    # 40 nodes late, the same speed: 40 + 80 nodes
    assert cut(forest, [Rate(40.0, 1.0), equal]).tolist() == [0, 4, 12]
    # would only begin when the other has ended
    assert cut(forest, [equal, Rate(200.0, 1e-3)]).tolist() == [0, 12, 12]
    one = Forest(chain(10))
    assert cut(one, [equal] * 3).tolist()[-1] == 1
    sizes = Forest.from_cells([chain(90), chain(10), chain(10), chain(90)])
    assert cut(sizes, [equal, equal]).tolist() == [0, 2, 4]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_cut_balances_nodes(count):
    forest = Forest.from_cells(dissimilar(200))
    rng = np.random.default_rng(count)
    rates = [Rate(0.0, r) for r in rng.uniform(1, 3, count)]
    edges = cut(forest, rates)
    assert edges[0] == 0 and edges[-1] == forest.num_cells
    times = np.diff(forest.cell_offsets[edges]) * [r.node for r in rates]
    assert np.ptp(times) <= 2 * 3 * forest.sizes.max()


def test_equal_devices_are_not_timed(halves, monkeypatch):
    monkeypatch.setattr(rates, "measure", lambda *_: pytest.fail("measured"))
    solver = Solver(Forest.from_cells([chain(5)] * 10), dtype=np.float32, devices=halves)
    assert solver.shares == [0.5, 0.5]
    assert solver.queues == halves
    assert solver.queue is halves[0]
    text = repr(solver)
    assert text.count(" 50.0%  5 cells, 25 nodes, ") == 2


def test_different_devices_are_timed(unequal):
    forest = Forest.repeated([random_binary_tree(64, 6, 1)], 3000)
    solver = Solver(forest, dtype=np.float32, devices=unequal)
    assert solver.shares[0] > 0.9
    assert sum(solver.shares) == pytest.approx(1)
    assert repr(solver).count("\n") == 2
    system = make_system(forest, np.float32)
    system.assert_solved(solver.solve(**system.arrays))


class Sleeper:
    """Stands for a solver of which only the time matters: it depends on the nodes."""

    def __init__(self, forest, fixed, node):
        self.seconds = fixed + node * forest.num_nodes

    def work(self, *_):
        return lambda: lambda: time.sleep(self.seconds)


@pytest.mark.parametrize(
    ("fixed", "node"),
    [((0, 0), (1e-6, 3e-6)), ((4e-3, 0), (1e-6, 2e-6)), ((0, 5e-3), (1e-6, 3e-6))],
)
def test_devices_that_were_timed_end_together(monkeypatch, fixed, node):
    forest = Forest.repeated([chain(50)], 1000)
    monkeypatch.setattr(rates, "_work", Sleeper.work)
    found = rates.measure(
        forest, [0, 1], np.float32, "device", lambda part, k: Sleeper(part, fixed[k], node[k])
    )
    nodes = np.diff(forest.cell_offsets[cut(forest, found)])
    ends = np.array(fixed) + nodes * node
    assert nodes.min() > 0
    assert ends.max() <= 1.1 * ends.min()


def test_a_device_with_a_cache_ends_with_the_others(monkeypatch):
    """Its share of a whole batch does not fit into its cache, and takes three times as long."""
    forest = Forest.repeated([chain(50)], 20_000)

    def seconds(k, nodes):
        return nodes * 1e-8 * ((1 if nodes < 1e5 else 3) if k else 2)

    def sleep(solver, *_):
        return lambda: lambda: time.sleep(solver.seconds)

    monkeypatch.setattr(rates, "_work", sleep)

    def make(part, k):
        found = Sleeper(part, 0.0, 0.0)
        found.seconds = seconds(k, part.num_nodes)
        return found

    found = rates.measure(forest, [0, 1], np.float32, "device", make)
    nodes = np.diff(forest.cell_offsets[cut(forest, found)])
    ends = [seconds(k, n) for k, n in enumerate(nodes.tolist())]
    assert min(nodes) > 1e5
    assert max(ends) <= 1.1 * min(ends)


@pytest.mark.parametrize("fast", [0, 1])
def test_a_device_that_only_keeps_the_other_waiting_is_left_out(monkeypatch, fast):
    forest = Forest.repeated([chain(50)], 1000)
    bus = threading.Lock()

    def work(solver, *_):
        def solve():
            with bus:
                time.sleep(solver.seconds)

        return lambda: solve

    monkeypatch.setattr(rates, "_work", work)
    nodes = [2e-7, 2e-7]
    nodes[fast] = 1e-7
    found = rates.measure(
        forest, [0, 1], np.float32, "numpy", lambda part, k: Sleeper(part, 0.0, nodes[k])
    )
    assert np.diff(cut(forest, found))[fast] == 1000


def test_a_device_that_saves_nothing_is_left_out(monkeypatch):
    forest = Forest.repeated([chain(50)], 1000)
    monkeypatch.setattr(rates, "_work", Sleeper.work)
    nodes = 1e-6, 9e-5  # of which it would have one in ninety
    found = rates.measure(
        forest, [0, 1], np.float32, "device", lambda part, k: Sleeper(part, 0.0, nodes[k])
    )
    assert cut(forest, found).tolist() == [0, 1000, 1000]


def test_shares_as_asked_for(unequal):
    forest = Forest.from_cells([chain(10)] * 40)
    solver = Solver(forest, "flat", np.float32, devices=unequal, shares=[3, 1])
    assert solver.shares == [0.75, 0.25]
    again = Solver(forest, "flat", np.float32, devices=unequal, shares=solver.shares)
    assert again.shares == solver.shares
    system = make_system(forest, np.float32)
    x = solver.solve(**system.arrays)
    system.assert_solved(x)
    assert np.array_equal(x, again.solve(**system.arrays))


@pytest.mark.parametrize("size", [1e308, 1e-308, 5e-324])
def test_shares_of_any_size(halves, size):
    forest = Forest.from_cells([chain(10)] * 40)
    solver = Solver(forest, "flat", np.float32, devices=halves, shares=[size, size])
    assert solver.shares == [0.5, 0.5]
    solver = Solver(forest, "flat", np.float32, devices=halves, shares=[5e-324, 1e308])
    assert solver.shares == [0, 1]


def test_samples_of_cells_of_all_sizes(monkeypatch):
    """A sample of more cells that has fewer nodes says nothing of the rate."""
    sizes = np.full(100, 1)
    sizes[33] = 4000  # in a sample of 6 cells, not in one of 49
    monkeypatch.setattr(rates, "_SAMPLE_SECONDS", 10.0)
    forest = Forest.from_cells([chain(n) for n in sizes])
    timed = []

    def make(part, _):
        timed.append(part.num_nodes)
        return Solver(part, "serial", np.float64)

    rate = rates._alone(forest, None, np.dtype(np.float64), "numpy", make)
    assert timed == [4005, 4099]
    assert rate.fixed >= 0
    assert rate.node > 0


def test_samples_are_neither_tuned_nor_stored(unequal, monkeypatch):
    modes = []
    monkeypatch.setattr(Solver, "_tune", lambda self, *_: modes.append(self.forest.num_cells))
    forest = Forest.repeated([chain(8)], 400)
    solver = Solver(forest, dtype=np.float32, devices=unequal, tune="measure")
    assert modes == [s.forest.num_cells for s in solver._share.solvers]


def test_errors_of_timing_name_the_device(unequal, monkeypatch):
    forest = Forest.repeated([chain(8)], 400)

    def broken(*_, **__):
        raise cl.RuntimeError("enqueue failed: OUT_OF_RESOURCES")

    words = r"^devices\[0\], .*: a sample of the batch could not be timed: .*OUT_OF_RESOURCES"
    for where in ("solve", "_settle"):
        with monkeypatch.context() as patch, pytest.raises(errors.DeviceError, match=words):
            patch.setattr(Solver, where, broken)
            Solver(forest, dtype=np.float32, devices=unequal)
    patched = rates._named(1, cl.CommandQueue(cl.Context([unequal[1]])))(broken)
    with pytest.raises(errors.DeviceError, match=r"^devices\[1\], "):
        rates._together([patched, lambda: None])


def test_a_device_without_cells(halves):
    forest = Forest(chain(9))
    solver = Solver(forest, dtype=np.float32, devices=halves)
    assert sorted(solver.shares) == [0.0, 1.0]
    assert len(solver.queues) == 1
    assert "left out" in repr(solver)
    system = make_system(forest, np.float32)
    system.assert_solved(solver.solve(**system.arrays))


# ------------------------------------------------------------------------------------ agreement


@pytest.mark.parametrize(
    ("method", "rows", "symmetric"),
    [("flat", 6, False), ("fine", None, True), ("fine", 6, False), ("contraction", None, True)],
)
def test_two_give_the_bits_of_one(halves, method, rows, symmetric):
    forest = Forest.from_cells(dissimilar(60))
    system = make_system(forest, np.float64, symmetric, rows)
    one = Solver(forest, method, queue=halves[0])
    two = Solver(forest, method, devices=halves)
    x = two.solve(**system.arrays)
    system.assert_solved(x)
    assert np.array_equal(x, one.solve(**system.arrays))
    assert (two.status() == -1).all()
    kept = system.copy()
    assert two.solve(**system.arrays, overwrite=True) is system.b
    assert np.array_equal(system.b, x)
    out = np.empty_like(x)
    assert two.solve(**kept.arrays, out=out) is out
    assert np.array_equal(out, x)


def parts_of(solver, a):
    """A list of arrays in natural order, one on each device."""
    cuts = np.cumsum([s.forest.num_nodes for s in solver._share.solvers])[:-1]
    parts = np.split(a, cuts, axis=-1)
    return [
        cla.to_device(q, np.ascontiguousarray(p)) for q, p in zip(solver.queues, parts, strict=True)
    ]


def joined(arrays):
    return np.concatenate([a.get() for a in arrays], axis=-1)


@pytest.mark.parametrize("method", ["fine"])
def test_lists_of_arrays(halves, method):
    forest = Forest.from_cells(dissimilar(60))
    system = make_system(forest, rows=2, symmetric=False)
    solver = Solver(forest, method, devices=halves)
    truth = solver.solve(**system.arrays)
    natural = {name: parts_of(solver, a) for name, a in system.arrays.items()}
    assert np.array_equal(joined(solver.solve(**natural)), truth)
    out = [cla.zeros_like(b) for b in natural["b"]]
    assert solver.solve(**natural, out=out)[1] is out[1]
    assert np.array_equal(joined(out), truth)

    packed = {name: solver.pack(a) for name, a in system.arrays.items()}
    same = {name: solver.pack(a) for name, a in natural.items()}
    assert np.array_equal(joined(same["d"]), joined(packed["d"]))
    x = [cla.zeros_like(b) for b in packed["b"]]
    events = solver.enqueue(packed["d"], packed["u"], packed["b"], out=x, l=packed["l"])
    assert len(events) == 2
    assert np.array_equal(joined(solver.unpack(x)), truth)
    first, second = events
    for waits in (events, tuple(events), [[first], [second]], [first, None], [[], [second] * 2]):
        found = solver.enqueue(packed["d"], packed["u"], packed["b"], out=x, wait_for=waits)
        assert len(found) == 2
    solver.enqueue(packed["d"], packed["u"], packed["b"], out=x, wait_for=events, l=packed["l"])
    assert (solver.status() == -1).all()
    assert len(solver.kernel_events) >= 2

    factors = solver.factor(system.d, system.u, l=system.l)
    assert_close(forest, factors.solve(system.b), system.truth(), np.float64)
    assert_close(forest, joined(factors.solve(natural["b"])), system.truth(), np.float64)
    factors.enqueue(packed["b"], out=x, wait_for=factors.enqueue(packed["b"], out=x))
    assert_close(forest, joined(solver.unpack(x)), system.truth(), np.float64)
    assert (factors.status() == -1).all()


def test_a_bad_pivot_has_the_numbers_of_the_whole_batch(halves):
    forest = Forest.from_cells(dissimilar(40, least=5))
    system = make_system(forest)
    nodes = forest.cell_offsets[[33, 7]]
    system.d[nodes] = -1000.0
    solver = Solver(forest, "flat", devices=halves)
    for call in (
        lambda: solver.solve(**system.arrays),
        lambda: solver.factor(system.d, system.u),
        lambda: solver.solve(*(parts_of(solver, a) for a in (system.d, system.u, system.b))),
    ):
        with pytest.raises(PivotError) as caught:
            call()
        assert (caught.value.cell, caught.value.node) == (7, nodes[1])
    assert np.flatnonzero(solver.status() >= 0).tolist() == [7, 33]


def test_slices_on_each_device(halves):
    forest = Forest.from_cells(dissimilar(80, least=5))
    system = make_system(forest, np.float32)
    solver = Solver(forest, "fine", np.float32, devices=halves, max_memory=40_000)
    assert solver.num_slices > 1
    assert not solver.takes_device_order
    system.assert_solved(solver.solve(**system.arrays))


# --------------------------------------------------------------------------------------- errors


def test_a_device_that_fails_is_named_and_the_rest_is_kept(halves, monkeypatch):
    forest = Forest.from_cells(dissimilar(40, least=5))
    system = make_system(forest)
    solver = Solver(forest, "flat", devices=halves)
    truth = solver.solve(**system.arrays)
    natural = [parts_of(solver, a) for a in (system.d, system.u, system.b)]
    second = solver._share.solvers[1]
    first = solver._share.solvers[0].forest.num_nodes

    def broken(*_, **__):
        raise cl.RuntimeError("enqueue failed: OUT_OF_RESOURCES")

    monkeypatch.setattr(second._resident, "solve", broken)
    words = r"^devices\[1\], .*, cells \d+ to 39: .*OUT_OF_RESOURCES; the other \d+ cells of 40 "
    with pytest.raises(ShareError, match=words) as caught:
        solver.solve(**system.arrays)
    error = caught.value
    assert list(error.errors) == [1]
    assert np.array_equal(error.result[:first], truth[:first])
    assert np.isnan(error.result[first:]).all()
    assert error.solved.sum() == solver._share.solvers[0].forest.num_cells
    with pytest.raises(ShareError, match=r"devices\[1\]") as caught:
        solver.solve(*natural)
    assert caught.value.result[1] is None
    assert np.array_equal(caught.value.result[0].get(), truth[:first])


def test_factors_keep_what_the_others_solved(halves, monkeypatch):
    forest = Forest.from_cells(dissimilar(40, least=5))
    system = make_system(forest, rows=2)
    solver = Solver(forest, "flat", devices=halves)
    factors = solver.factor(system.d, system.u)
    truth, out = factors.solve(system.b), np.zeros_like(system.b)
    first = solver._share.solvers[0].forest.num_nodes

    def broken(*_, **__):
        raise cl.RuntimeError("enqueue failed: OUT_OF_RESOURCES")

    monkeypatch.setattr(solver._share.solvers[1]._resident, "solve", broken)
    for given in (out, None):
        with pytest.raises(ShareError, match=r"devices\[1\]") as caught:
            factors.solve(system.b, out=given)
        assert given is None or caught.value.result is given
        assert np.array_equal(caught.value.result[:, :first], truth[:, :first])
        assert np.isnan(caught.value.result[:, first:]).all()


def test_factors_check_the_numbers_of_the_whole_batch(halves):
    forest = Forest.from_cells([chain(3)] * 10)
    system = make_system(forest, np.float32)
    factors = Solver(forest, "flat", np.float32, devices=halves).factor(system.d, system.u)
    system.b[22] = np.nan
    with pytest.raises(InputError, match="^cell 7, node 22: b is nan; expected finite"):
        factors.solve(system.b)
    assert np.isnan(factors.solve(system.b, check=False)[22])
    system.b[22] = 3e38
    system.d[22] = 1e-3
    factors = Solver(forest, "flat", np.float32, devices=halves).factor(system.d, 0 * system.u)
    with pytest.raises(InputError, match="^cell 7, node 21: x is .*; expected finite"):
        factors.solve(system.b)
    kept = system.b.copy()
    kept.flags.writeable = False
    assert factors.solve(kept, overwrite=True, check=False) is not kept
    for words, call in {
        "out is list of": lambda: factors.solve(system.b, out=[1.0]),
        "out is read-only": lambda: factors.solve(system.b, out=kept),
        "b has dtype": lambda: factors.solve("text"),
        r"b has shape \(3,\)": lambda: factors.solve([1, 2, 3]),
        "a is not an array": lambda: factors.share.pack([[1.0], [1.0, 2.0]]),
    }.items():
        with pytest.raises(InputError, match=words):
            call()


def test_a_device_out_of_memory(halves, monkeypatch):
    forest = Forest.from_cells([chain(30)] * 20)
    system = make_system(forest)
    solver = Solver(forest, "flat", devices=halves)

    def full(*_, **__):
        raise cl.MemoryError("clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE")

    monkeypatch.setattr(solver._share.solvers[0], "_solve_numpy", full)
    words = r"devices\[0\], .* has no memory left: the batch needs"
    with pytest.raises(ShareError, match=words) as caught:
        solver.solve(**system.arrays)
    assert not caught.value.solved[:10].any()
    assert caught.value.solved[10:].all()
    assert np.isfinite(caught.value.result[300:]).all()


def test_only_solves_say_what_is_solved(halves, monkeypatch):
    forest = Forest.from_cells([chain(30)] * 20)
    system = make_system(forest)
    solver = Solver(forest, "flat", devices=halves)
    packed = solver.pack(system.b)

    def broken(*_, **__):
        raise cl.RuntimeError("enqueue failed: OUT_OF_RESOURCES")

    monkeypatch.setattr(solver._share.solvers[1]._resident, "permute", broken)
    for call in (
        lambda: solver.pack(system.b),
        lambda: solver.unpack(packed),
        lambda: solver.factor(system.d, system.u),
    ):
        with pytest.raises(ShareError, match="OUT_OF_RESOURCES$") as caught:
            call()
        assert caught.value.result[0] is not None
        assert not caught.value.solved.any()
    monkeypatch.setattr(solver._share.solvers[0]._resident, "permute", broken)
    with pytest.raises(ShareError, match="OUT_OF_RESOURCES$"):
        solver.solve(**system.arrays)


def test_more_than_the_memory_of_each_device(halves):
    forest = Forest.from_cells(dissimilar(80, least=5))
    system = make_system(forest, np.float32)
    solver = Solver(forest, "fine", np.float32, devices=halves, max_memory=40_000)
    for call in (lambda: solver.factor(system.d, system.u), lambda: solver.pack(system.b)):
        with pytest.raises(DeviceMemoryError, match=r"^devices\[0\].*whole batch") as caught:
            call()
        assert not isinstance(caught.value, ShareError)


def test_numbers_in_errors_of_a_part_are_of_the_batch(halves):
    cells = [chain(10)] * 15 + [random_binary_tree(10, 4, 1)]
    words = "^cell 15 branches: node 15[0-9] "
    for more in ({"queue": halves[0]}, {"devices": halves}):
        with pytest.raises(InputError, match=words):
            Solver(Forest.from_cells(cells), "cr", **more)


def test_a_cell_too_large_for_its_device(halves):
    forest = Forest.from_cells([chain(3)] * 1000 + [chain(3000)])
    with pytest.raises(
        errors.DeviceError, match=r"devices\[1\], .* cells 1000 to 1000: cell 1000 with"
    ):
        Solver(forest, "flat", np.float32, devices=halves, max_memory=60_000)


def test_wrong_arguments(halves):
    forest = Forest.from_cells([chain(3)] * 10)
    device = halves[0].device
    for words, options in {
        r"devices=\[\]; expected a list": {"devices": []},
        "expected a list of one or more": {"devices": device},
        r"devices\[0\] and devices\[1\] are both": {"devices": [device, device]},
        r"devices\[0\] and devices\[1\] are one queue": {"devices": halves[:1] * 2},
        "together with device or queue": {"devices": halves, "queue": halves[0]},
        "works on one device": {"devices": halves, "dtype": "mixed"},
        "shares='half' is not valid": {"devices": halves, "shares": "half"},
        "expected 2 finite numbers, 0 or more and not all 0": {
            "devices": halves,
            "shares": [1, 2, 3],
        },
        r"shares=\[inf, 1\]; expected 2 finite": {"devices": halves, "shares": [np.inf, 1]},
        "got shares='device' without devices": {"shares": "device"},
        r"got shares=\[1, 2\] without devices": {"queue": halves[0], "shares": [1, 2]},
        r"shares=\[0, 0\]": {"devices": halves, "shares": [0, 0]},
        r"shares=\[1, -1\]": {"devices": halves, "shares": [1, -1]},
    }.items():
        with pytest.raises(InputError, match=words):
            Solver(forest, **{"dtype": np.float32, **options})
    solver = Solver(forest, dtype=np.float32, devices=halves)
    system = make_system(forest, np.float32)
    parts = {name: parts_of(solver, getattr(system, name)) for name in "dub"}
    with pytest.raises(InputError, match="b is 1 arrays; expected a list of 2"):
        solver.solve(parts["d"], parts["u"], parts["b"][:1])
    with pytest.raises(InputError, match="b is Array; expected a list of 2"):
        solver.solve(parts["d"], parts["u"], parts["b"][0])
    with pytest.raises(InputError, match="d is ndarray; expected a list"):
        solver.solve(system.d, parts["u"], parts["b"])
    with pytest.raises(InputError, match=r"devices\[0\].*d has shape"):
        solver.enqueue(parts["d"], parts["u"], parts["b"], out=parts["d"])
    packed = [solver.pack(getattr(system, name)) for name in "dubb"]
    factors = solver.factor(system.d, system.u)
    event = solver.enqueue(*packed[:3], out=packed[3])[0]
    for waits, words in {
        event: "wait_for is Event; expected a list of 2",
        (event,): "wait_for is 1 items; expected a list of 2",
        ("now", event): r"wait_for\[0\] is str; expected an event or a list",
        (event, (1, event)): r"wait_for\[1\] is tuple of Event, int; expected an event or a list",
        (None, event): r"wait_for\[1\] has an event of another OpenCL context",
    }.items():
        with pytest.raises(InputError, match=words):
            solver.enqueue(*packed[:3], out=packed[3], wait_for=waits)
        with pytest.raises(InputError, match=words):
            factors.enqueue(packed[2], out=packed[3], wait_for=waits)
