"""Several devices: shares, agreement with one device, plain solvers, and what fails."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from systems import dissimilar, make_system
from tolerances import assert_close

from bench.made import chain, random_binary_tree
from clhines import DeviceMemoryError, DeviceShareError, Forest, InputError, PivotError, Solver
from clhines.core import errors
from clhines.core.errors import AccuracyWarning
from clhines.solver import reference
from clhines.solver.device import devices
from clhines.solver.engines.several import cut


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
    forest = Forest.from_parents([chain(10)] * 12)
    assert cut(forest, np.ones(2)).tolist() == [0, 6, 12]
    assert cut(forest, np.array([0.5, 1.0])).tolist() == [0, 4, 12]
    assert cut(forest, np.array([0.0, 1.0, 0.0])).tolist() == [0, 0, 12, 12]
    one = Forest(chain(10))
    assert cut(one, np.ones(3)).tolist()[-1] == 1
    sizes = Forest.from_parents([chain(90), chain(10), chain(10), chain(90)])
    assert cut(sizes, np.ones(2)).tolist() == [0, 2, 4]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_cut_balances_nodes(count):
    forest = Forest.from_parents(dissimilar(200))
    shares = np.random.default_rng(count).uniform(1, 3, count)
    edges = cut(forest, shares)
    assert edges[0] == 0 and edges[-1] == forest.num_cells
    expected = forest.num_nodes * shares / shares.sum()
    assert np.abs(np.diff(forest.cell_offsets[edges]) - expected).max() <= forest.sizes.max()


def test_shares_are_equal(halves):
    solver = Solver(Forest.from_parents([chain(5)] * 10), dtype=np.float32, devices=halves)
    assert solver.shares == [0.5, 0.5]
    assert solver.queues == halves
    assert solver.queue is halves[0]
    text = repr(solver)
    assert text.count(" 50.0%  5 cells, 25 nodes, ") == 2


def test_shares_as_asked_for(unequal):
    forest = Forest.from_parents([chain(10)] * 40)
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
    forest = Forest.from_parents([chain(10)] * 40)
    solver = Solver(forest, "flat", np.float32, devices=halves, shares=[size, size])
    assert solver.shares == [0.5, 0.5]
    solver = Solver(forest, "flat", np.float32, devices=halves, shares=[5e-324, 1e308])
    assert solver.shares == [0, 1]


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
    forest = Forest.from_parents(dissimilar(60))
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


def test_parts_are_plain_solvers_of_their_cells(halves):
    """Arrays on the devices, in natural and in device order, and events between solves."""
    forest = Forest.from_parents(dissimilar(60))
    system = make_system(forest, rows=2, symmetric=False)
    solver = Solver(forest, "fine", devices=halves)
    truth = solver.solve(**system.arrays)
    assert [part.solver.queue for part in solver.parts] == solver.queues == halves
    cells, nodes = zip(*((part.cells, part.nodes) for part in solver.parts), strict=True)
    assert cells[0].start == 0 and cells[0].stop == cells[1].start
    assert cells[1].stop == forest.num_cells
    for one, of in zip(cells, nodes, strict=True):
        assert [of.start, of.stop] == forest.cell_offsets[[one.start, one.stop]].tolist()
    for part in solver.parts:
        plain = part.solver
        natural = {
            name: cla.to_device(plain.queue, np.ascontiguousarray(a[..., part.nodes]))
            for name, a in system.arrays.items()
        }
        assert np.array_equal(plain.solve(**natural).get(), truth[:, part.nodes])
        packed = {name: plain.to_device_order(a) for name, a in natural.items()}
        x = cla.zeros_like(packed["b"])
        event = plain.enqueue(**packed, out=x)
        plain.enqueue(**packed, out=x, wait_for=event)
        assert np.array_equal(plain.from_device_order(x).get(), truth[:, part.nodes])
        assert (plain.status() == -1).all()
    assert (solver.status() == -1).all()
    assert len(solver.kernel_events) >= 2

    one = Solver(forest, "fine", queue=halves[0])
    ((itself, *ranges),) = one.parts
    assert itself is one
    assert ranges == [slice(0, forest.num_cells), slice(0, forest.num_nodes)]


def test_factors_on_several(halves):
    forest = Forest.from_parents(dissimilar(60))
    system = make_system(forest, rows=2, symmetric=False)
    factors = Solver(forest, "fine", devices=halves).factor(system.d, system.u, l=system.l)
    assert_close(forest, factors.solve(system.b), system.truth(), np.float64)
    assert (factors.status() == -1).all()


def test_factors_on_several_warn_as_on_one(halves):
    """Parallel cyclic reduction of chains whose couplings differ by orders of magnitude."""
    forest = Forest.repeat([chain(256)], 4)
    rng, n = np.random.default_rng(0), forest.num_nodes
    u, b = -(10.0 ** rng.uniform(-6, 6, n)) * rng.uniform(0.1, 1, n), rng.uniform(-1, 1, n)
    d = reference.multiply(forest, np.zeros(n), -u, np.ones(n)) * (1 + 4 * np.finfo(float).eps)
    d[forest.parent < 0] *= 2
    for where in ({"queue": halves[0]}, {"devices": halves}):
        factors = Solver(forest, "pcr", **where).factor(d, u)
        with pytest.warns(AccuracyWarning, match="componentwise backward error of 'pcr'"):
            factors.solve(b)


def test_a_bad_pivot_has_the_numbers_of_the_whole_batch(halves):
    forest = Forest.from_parents(dissimilar(40, least=5))
    system = make_system(forest)
    nodes = forest.cell_offsets[[33, 7]]
    system.d[nodes] = -1000.0
    solver = Solver(forest, "flat", devices=halves)
    for call in (
        lambda: solver.solve(**system.arrays),
        lambda: solver.factor(system.d, system.u),
    ):
        with pytest.raises(PivotError) as caught:
            call()
        assert (caught.value.cell, caught.value.node) == (7, nodes[1])
    assert np.flatnonzero(solver.status() >= 0).tolist() == [7, 33]


def test_slices_on_each_device(halves):
    forest = Forest.from_parents(dissimilar(80, least=5))
    system = make_system(forest, np.float32)
    solver = Solver(forest, "fine", np.float32, devices=halves, max_memory=40_000)
    assert solver.num_slices > 1
    assert not solver.takes_device_order
    system.assert_solved(solver.solve(**system.arrays))


# --------------------------------------------------------------------------------------- errors


def test_a_device_that_fails_is_named_and_the_rest_is_kept(halves, monkeypatch):
    forest = Forest.from_parents(dissimilar(40, least=5))
    system = make_system(forest)
    solver = Solver(forest, "flat", devices=halves)
    truth = solver.solve(**system.arrays)
    second, first = solver.parts[1].solver, solver.parts[0].nodes.stop

    def broken(*_, **__):
        raise cl.RuntimeError("enqueue failed: OUT_OF_RESOURCES")

    monkeypatch.setattr(second.engine, "solve_values", broken)
    words = r"^devices\[1\], .*, cells \d+ to 39: .*OUT_OF_RESOURCES; the other \d+ cells of 40 "
    with pytest.raises(DeviceShareError, match=words) as caught:
        solver.solve(**system.arrays)
    error = caught.value
    assert list(error.errors) == [1]
    assert np.array_equal(error.result[:first], truth[:first])
    assert np.isnan(error.result[first:]).all()
    assert error.solved.sum() == solver.parts[0].cells.stop


def test_factors_keep_what_the_others_solved(halves, monkeypatch):
    forest = Forest.from_parents(dissimilar(40, least=5))
    system = make_system(forest, rows=2)
    solver = Solver(forest, "flat", devices=halves)
    factors = solver.factor(system.d, system.u)
    truth, out = factors.solve(system.b), np.zeros_like(system.b)
    first = solver.parts[0].nodes.stop

    def broken(*_, **__):
        raise cl.RuntimeError("enqueue failed: OUT_OF_RESOURCES")

    for name in ("solve_values", "solve_factored"):  # by the kind of factors
        monkeypatch.setattr(solver.parts[1].solver.engine, name, broken)
    for given in (out, None):
        with pytest.raises(DeviceShareError, match=r"devices\[1\]") as caught:
            factors.solve(system.b, out=given)
        assert given is None or caught.value.result is given
        assert np.array_equal(caught.value.result[:, :first], truth[:, :first])
        assert np.isnan(caught.value.result[:, first:]).all()


def test_factors_check_the_numbers_of_the_whole_batch(halves):
    forest = Forest.from_parents([chain(3)] * 10)
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
        "b is not an array": lambda: factors.solve([[1.0], [1.0, 2.0]]),
    }.items():
        with pytest.raises(InputError, match=words):
            call()


def test_a_device_out_of_memory(halves, monkeypatch):
    forest = Forest.from_parents([chain(30)] * 20)
    system = make_system(forest)
    solver = Solver(forest, "flat", devices=halves)

    def full(*_, **__):
        raise cl.MemoryError("clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE")

    monkeypatch.setattr(solver.parts[0].solver.engine, "solve_host", full)
    words = r"devices\[0\], .* has no memory left: the batch needs"
    with pytest.raises(DeviceShareError, match=words) as caught:
        solver.solve(**system.arrays)
    assert not caught.value.solved[:10].any()
    assert caught.value.solved[10:].all()
    assert np.isfinite(caught.value.result[300:]).all()


def test_only_solves_say_what_is_solved(halves, monkeypatch):
    forest = Forest.from_parents([chain(30)] * 20)
    system = make_system(forest)
    solver = Solver(forest, "flat", devices=halves)

    def broken(*_, **__):
        raise cl.RuntimeError("enqueue failed: OUT_OF_RESOURCES")

    monkeypatch.setattr(solver.parts[1].solver.engine, "factor", broken)
    with pytest.raises(DeviceShareError, match="OUT_OF_RESOURCES$") as caught:
        solver.factor(system.d, system.u)
    assert caught.value.result[0] is not None
    assert not caught.value.solved.any()
    for part in solver.parts:
        monkeypatch.setattr(part.solver.engine, "solve_values", broken)
    with pytest.raises(DeviceShareError, match="OUT_OF_RESOURCES$"):
        solver.solve(**system.arrays)


def test_more_than_the_memory_of_each_device(halves):
    forest = Forest.from_parents(dissimilar(80, least=5))
    system = make_system(forest, np.float32)
    solver = Solver(forest, "fine", np.float32, devices=halves, max_memory=40_000)
    with pytest.raises(DeviceMemoryError, match=r"^devices\[0\].*whole batch") as caught:
        solver.factor(system.d, system.u)
    assert not isinstance(caught.value, DeviceShareError)


def test_numbers_in_errors_of_a_part_are_of_the_batch(halves):
    cells = [chain(10)] * 15 + [random_binary_tree(10, 4, 1)]
    words = "^cell 15 branches: node 15[0-9] "
    for more in ({"queue": halves[0]}, {"devices": halves}):
        with pytest.raises(InputError, match=words):
            Solver(Forest.from_parents(cells), "cr", **more)


def test_a_cell_too_large_for_its_device(halves):
    forest = Forest.from_parents([chain(3)] * 1000 + [chain(3000)])
    with pytest.raises(
        errors.DeviceError, match=r"devices\[1\], .* cells 1000 to 1000: cell 1000 with"
    ):
        Solver(forest, "flat", np.float32, devices=halves, max_memory=60_000)


def test_wrong_arguments(halves):
    forest = Forest.from_parents([chain(3)] * 10)
    device = halves[0].device
    for words, options in {
        r"devices=\[\]; expected a list": {"devices": []},
        "expected a list of one or more": {"devices": device},
        r"devices\[0\] and devices\[1\] are both": {"devices": [device, device]},
        r"devices\[0\] and devices\[1\] are one queue": {"devices": halves[:1] * 2},
        "together with device or queue": {"devices": halves, "queue": halves[0]},
        "shares='half'; expected 2 finite": {"devices": halves, "shares": "half"},
        "expected 2 finite numbers, 0 or more and not all 0": {
            "devices": halves,
            "shares": [1, 2, 3],
        },
        r"shares=\[inf, 1\]; expected 2 finite": {"devices": halves, "shares": [np.inf, 1]},
        "got shares='half' without devices": {"shares": "half"},
        r"got shares=\[1, 2\] without devices": {"queue": halves[0], "shares": [1, 2]},
        r"shares=\[0, 0\]": {"devices": halves, "shares": [0, 0]},
        r"shares=\[1, -1\]": {"devices": halves, "shares": [1, -1]},
    }.items():
        with pytest.raises(InputError, match=words):
            Solver(forest, **{"dtype": np.float32, **options})
    solver = Solver(forest, dtype=np.float32, devices=halves)
    system = make_system(forest, np.float32)
    a = cla.to_device(halves[0], system.d)
    for words, call in {
        "d is a pyopencl array; expected a NumPy array: solver.parts": lambda: solver.solve(
            a, a, a
        ),
        "d is a list of pyopencl arrays; expected a NumPy array": lambda: solver.factor([a, a], a),
        r"to_device_order\(\) works on one device, not on 2; use": lambda: solver.to_device_order(
            a
        ),
        r"from_device_order\(\) works on one device": lambda: solver.from_device_order(a),
        r"enqueue\(\) works on one device": lambda: solver.enqueue(a, a, a, out=a),
    }.items():
        with pytest.raises(InputError, match=words):
            call()
    factors = solver.factor(system.d, system.u)
    with pytest.raises(InputError, match=r"enqueue\(\) works on one device"):
        factors.enqueue(a, out=a)
    with pytest.raises(InputError, match="b is a pyopencl array"):
        factors.solve(a)
    one = Solver(forest, dtype=np.float32, queue=halves[0])
    with pytest.raises(InputError, match="b is a list of pyopencl arrays; expected one array"):
        one.solve(system.d, system.u, [a, a])
