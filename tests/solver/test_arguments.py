"""Arguments of a solver's methods: what is converted, and what is rejected and how."""

from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from mock_queue import MockQueue
from solvers import make_solver
from systems import make_system

from bench.made import chain, star
from clhines import Forest, InputError, Solver
from clhines.solver.arguments import Arguments

LOOSE = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE


def test_numbers_of_other_kinds_are_converted(queue):
    forest = Forest([-1, 0])
    solver = make_solver(queue, forest, dtype=np.float32)
    for d, u, b in (
        ([2, 2], [0, 1], [4, 5]),
        (np.array([2, 2], np.int8), np.array([False, True]), np.array([4, 5], np.uint16)),
        (np.array([2.0, 9, 2, 9])[::2], (0.0, 1.0), np.asfortranarray([[4.0, 5.0]])),
    ):
        x = solver.solve(d, u, b)
        assert x.dtype == np.float32
        assert x.reshape(-1) == pytest.approx([1, 2], rel=1e-6)


def test_wrong_arrays_of_the_host():
    """By what `Solver` asks, without a device."""
    arguments = Arguments(Forest.from_parents([chain(3), star(4)]), np.dtype("f4"), MockQueue())
    engine = SimpleNamespace(empty_like=np.empty_like)
    good, rows = np.ones(7, np.float32), np.ones((2, 7), np.float32)
    masked = np.ma.masked_array(good, [1] + [0] * 6)
    for given, words in [
        ((good, good, masked), "b has 1 masked values; expected none"),
        ((masked, good, good), "d has 1 masked values; expected none"),
        ((good, good, [masked, masked]), "b has 2 masked values; expected none"),
        ((good[:6], good, good), r"d has shape \(6,\); expected \(7,\) in natural order"),
        ((good, rows[:, :6], good), r"u has shape \(2, 6\)"),
        ((good, good, np.ones((7, 2))), r"b has shape \(7, 2\); expected \(7,\) or \(k, 7\)"),
        ((good, good, np.ones((1, 1, 7))), r"b has shape \(1, 1, 7\)"),
        ((good, good, 1.0), r"b has shape \(1,\); expected \(7,\)"),
        ((good, good, good, good[:1]), r"l has shape \(1,\)"),
        ((rows, good, good), "d, u and l have one row; only b may have several"),
        ((good, rows, good), "d, u and l have one row"),
        ((good, good, good, rows), "d, u and l have one row"),
        ((good, good, good + 1j), "b has dtype complex64; expected real numbers"),
        ((good, good, list("abcdefg")), "b has dtype <U1; expected real numbers"),
        ((good, good, [object()] * 7), "b has dtype object; expected real numbers"),
        ((good, good, [[1], [1, 2]]), "b is not an array"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            arguments.natural(dict(zip("dubl", (*given, None)[:4], strict=True)))
        assert "\n" not in str(caught.value)
    frozen = good.copy()
    frozen.flags.writeable = False
    for out, words in [
        (good[:6], r"out is ndarray of float32 with shape \(6,\); expected .* shape \(7,\)"),
        (rows, r"out is ndarray of float32 with shape \(2, 7\)"),
        (good.astype(np.float64), "out is ndarray of float64 .* expected ndarray of float32"),
        ([0.0] * 7, "out is list of"),
        (frozen, "out is read-only"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            arguments.target(engine, good, good, out, overwrite=False)
        assert "\n" not in str(caught.value)


def test_wrong_arrays_of_a_device(queue):
    """And one of the host, to show that a solver asks."""
    forest = Forest.from_parents([chain(3), star(4)])
    solver = make_solver(queue, forest, dtype=np.float32)
    good = np.ones(7, np.float32)
    gpu = cla.to_device(queue, good)
    for arguments, words in [
        ((good[:6], good, good), r"d has shape \(6,\); expected \(7,\) in natural order"),
        ((good, good, gpu), "mix NumPy and pyopencl arrays; expected one kind"),
        ((gpu, gpu, gpu, good), "mix NumPy and pyopencl arrays"),
        ((gpu.astype(np.float64), gpu, gpu), "d has dtype float64; expected float32"),
        ((gpu[:6], gpu, gpu), r"d has shape \(6,\)"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            solver.solve(*arguments[:3], l=arguments[3] if len(arguments) > 3 else None)
        assert "\n" not in str(caught.value)
    for out, words in [
        (good[:6], r"out is ndarray of float32 with shape \(6,\); expected .* shape \(7,\)"),
        (gpu, "out is Array of float32 .* expected ndarray"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            solver.solve(2 * good, 0 * good, good, out=out)
        assert "\n" not in str(caught.value)


def test_wrong_arguments_of_enqueue_pack_and_unpack(queue):
    forest = Forest.from_parents([chain(3), star(4)])
    solver = make_solver(queue, forest, dtype=np.float32)
    good = solver.to_device_order(np.ones(7))
    size = solver.plan.packed_size
    rows = solver.to_device_order(np.ones((2, 7)))
    other = solver.to_device_order(np.zeros(7))
    natural = cla.to_device(queue, np.ones(7, np.float32))
    assert size != 7
    for arguments, words in [
        (
            (natural, good, good, other),
            rf"d has shape \(7,\); expected \({size},\) .* device order",
        ),
        ((np.ones(size), good, good, other), "d is ndarray; expected a pyopencl array"),
        ((good, good, rows, other), rf"out has shape \({size},\); expected .* b, \(2, {size}\)"),
        ((good, rows, good, other), "d, u and l have one row; only b and out may have several"),
        (
            (good, other, solver.to_device_order(np.ones(7)), other),
            "out is d, u or l; expected another array",
        ),
        ((good, good, good, other.astype(np.float64)), "out has dtype float64; expected float32"),
        ((good, good, good, natural), r"out has shape \(7,\)"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            solver.enqueue(*arguments[:3], out=arguments[3])
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"a has shape \(6,\); expected \(7,\)"):
        solver.to_device_order(np.ones(6))
    with pytest.raises(InputError, match="a is ndarray; expected a pyopencl array"):
        solver.from_device_order(np.ones(size))
    with pytest.raises(InputError, match=r"out has shape \(32,\)|out has shape"):
        solver.from_device_order(good, out=other)
    with pytest.raises(InputError, match=r"out has shape \(7,\); expected a whole array of \(2, 7"):
        solver.from_device_order(rows, out=natural)


def test_arrays_of_another_context(every_queue):
    forest = Forest(chain(3))
    solver = make_solver(every_queue, forest, dtype=np.float32)
    stranger = cl.CommandQueue(cl.Context([every_queue.device]))
    theirs = cla.to_device(stranger, np.ones(3, np.float32))
    mine = cla.to_device(every_queue, np.ones(3, np.float32))
    with pytest.raises(InputError, match="u lives in another OpenCL context than the solver"):
        solver.solve(mine, theirs, mine)
    packed = solver.to_device_order(mine)
    there = cla.zeros(stranger, packed.shape, np.float32)
    factors = solver.factor(2 * mine, 0 * mine)
    for call, name in [
        (lambda: solver.solve(2 * mine, 0 * mine, mine, out=theirs), "out"),
        (lambda: solver.enqueue(packed, packed, packed, out=there), "out"),
        (lambda: factors.solve(mine, out=theirs), "out"),
        (lambda: factors.enqueue(packed, out=there), "out"),
        (lambda: solver.from_device_order(packed, out=theirs), "out"),
        (lambda: solver.to_device_order(theirs), "a"),
    ]:
        with pytest.raises(InputError, match=f"{name} lives in another OpenCL context than the s"):
            call()


def test_wrong_arguments_of_the_solver():
    forest = Forest(chain(3))
    for arguments, words in [
        ({"method": "gauss"}, "method 'gauss' is unknown; expected auto, flat"),
        ({"dtype": np.int32}, "expected float64 or float32"),
        ({"dtype": "mixed"}, "dtype 'mixed' is not supported; expected float64 or float32$"),
        ({"method": "fine", "block_size": 4}, "'block_size' is not one of method 'fine'"),
        ({"work_group": 257}, "work_group=257 is above the device's limit of 256 work-items"),
        ({"queue": MockQueue(properties=LOOSE)}, "queue is out of order; expected an in-order q"),
        ({"queue": "first"}, "queue is str; expected pyopencl.CommandQueue"),
    ]:
        with pytest.raises(InputError, match=words):
            Solver(forest, **{"dtype": np.float32, "queue": MockQueue(), **arguments})


def test_only_l_may_be_missing(queue):
    solver = make_solver(queue, Forest(chain(4)), dtype=np.float32)
    d, u, b, low = np.full(4, 3.0), np.full(4, -1.0), np.ones(4), np.full(4, -0.5)
    for name in "dub":
        arrays = {"d": d, "u": u, "b": b, "l": low} | {name: None}
        with pytest.raises(InputError, match=f"^{name} "):
            solver.solve(**arrays)
    packed = solver.to_device_order(d)
    with pytest.raises(InputError, match=r"^u is NoneType"):
        solver.enqueue(packed, None, packed, out=cla.empty_like(packed), l=packed)


def test_offset_views_are_refused_in_device_order(queue):
    solver = make_solver(queue, Forest(chain(4)), dtype=np.float32)
    size = solver.plan.packed_size
    wide = cla.zeros(queue, size + 4, np.float32)
    whole = solver.to_device_order(np.ones(4))
    with pytest.raises(InputError, match="b is an offset view"):
        solver.enqueue(whole, whole, wide[4:], out=cla.empty_like(whole))


def test_unpack_into_itself_is_refused(queue):
    solver = make_solver(queue, Forest(chain(64)), "flat", np.float32)
    packed = solver.to_device_order(np.ones(64))
    with pytest.raises(InputError, match="out is a"):
        solver.from_device_order(packed, out=packed)


def reordered(queue, config="block_3", dtype=np.float32):
    """Solver of 6 chains in device order that has no padding, and is not natural order."""
    solver = make_solver(queue, Forest.from_parents([chain(5)] * 6), config, dtype)
    assert solver.plan.packed_size == solver.forest.num_nodes
    assert (solver.plan.gather != np.arange(30)).any()
    return solver


def test_arrays_that_are_not_in_device_order_are_refused(queue):
    solver = reordered(queue)
    system = make_system(solver.forest, np.float32)
    natural = [cla.to_device(queue, system.arrays[name]) for name in "dub"]
    packed = [solver.to_device_order(a) for a in natural]
    out = cla.empty_like(packed[2])
    expected = solver.solve(system.d, system.u, system.b)
    for k, name in enumerate("dub"):
        arrays = [*packed[:k], natural[k], *packed[k + 1 :]]
        with pytest.raises(
            InputError, match=rf"^{name} does not come from to_device_order\(\); expected an "
        ):
            solver.enqueue(*arrays, out=out)
    factors = solver.factor(system.d, system.u)
    for call in (
        lambda: factors.enqueue(natural[2], out=out),
        lambda: solver.from_device_order(natural[2]),
        lambda: solver.enqueue(*(a.copy() for a in packed), out=out),
    ):
        with pytest.raises(
            InputError, match=r"does not come from to_device_order\(\).*packed=True"
        ):
            call()
    solver.enqueue(*packed, out=out)
    assert np.array_equal(
        solver.from_device_order(out).get(), expected
    )  # enqueue() marks what it writes
    solver.enqueue(*(a.copy() for a in packed), out=out, packed=True)
    assert np.array_equal(solver.from_device_order(out.copy(), packed=True).get(), expected)
    copy = packed[2].copy()
    factors.enqueue(copy, out=copy, packed=True)
    assert np.array_equal(solver.from_device_order(copy).get(), expected)
    with pytest.raises(InputError, match="packed is 1; expected True or False"):
        factors.enqueue(copy.copy(), out=copy, packed=1)


def test_arrays_in_device_order_are_refused_in_natural_order(queue):
    solver = reordered(queue)
    system = make_system(solver.forest, np.float32)
    arrays = [cla.to_device(queue, system.arrays[name]) for name in "dub"]
    packed = solver.to_device_order(system.b)
    factors = solver.factor(system.d, system.u)
    for call in (
        lambda: solver.solve(*arrays[:2], packed),
        lambda: solver.factor(packed, arrays[1]),
        lambda: factors.solve(packed),
        lambda: solver.to_device_order(packed),
    ):
        with pytest.raises(InputError, match="is in device order; expected natural order"):
            call()
    expected = solver.solve(system.d, system.u, system.b)
    out = solver.to_device_order(system.b)
    assert solver.solve(*arrays, out=out) is out  # which is now in natural order
    with pytest.raises(InputError, match=r"does not come from to_device_order\(\)"):
        solver.from_device_order(out)
    assert np.array_equal(out.get(), expected)
    out = solver.to_device_order(system.b)
    solver.from_device_order(packed, out=out)
    assert np.array_equal(solver.solve(*arrays[:2], out).get(), expected)


def test_device_orders_of_other_solvers(queue):
    solver, same, other = (reordered(queue, c) for c in ("block_3", "block_3", "interleaved"))
    assert np.array_equal(solver.plan.gather, same.plan.gather)
    packed = solver.to_device_order(np.arange(30))
    assert np.array_equal(same.from_device_order(packed).get(), np.arange(30))
    assert not np.array_equal(solver.plan.gather, other.plan.gather)
    with pytest.raises(InputError, match="a is in the device order of another solver"):
        other.from_device_order(packed)


def test_natural_order_that_is_device_order_needs_no_mark(queue):
    solver = make_solver(queue, Forest.from_parents([chain(5)] * 3), "flat", np.float32)
    assert np.array_equal(solver.plan.gather, np.arange(15))
    system = make_system(solver.forest, np.float32)
    arrays = [cla.to_device(queue, system.arrays[name]) for name in "dub"]
    out = cla.empty_like(arrays[2])
    solver.enqueue(*arrays, out=out)
    system.assert_solved(out.get())
    system.assert_solved(solver.solve(*arrays).get())  # marked, and natural all the same
