"""Arguments of a solver's methods: conversions, edges, refusals and their messages."""

import pickle
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from mock_queue import MockQueue
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import solve_banded
from solvers import make_solver
from systems import make_system

from bench.made import chain, star
from clhines import Forest, InputError, Solver, Tridiagonal, solve_tridiagonal
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
    """`Arguments`, which `Solver` uses, refuses wrong host arrays without a device."""
    arguments = Arguments(Forest.from_parents([chain(3), star(4)]), np.dtype("f4"), MockQueue())
    engine = SimpleNamespace(empty_like=np.empty_like)
    good, rows = np.ones(7, np.float32), np.ones((2, 7), np.float32)
    masked = np.ma.masked_array(good, [1] + [0] * 6)
    for operands, words in [
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
            arguments.natural(dict(zip("dubl", (*operands, None)[:4], strict=True)))
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
        ((good, good, rows, other), rf"out has shape \({size},\); expected \(2, {size}\), as b"),
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
    with pytest.raises(InputError, match=r"out has shape \(7,\); expected \(2, 7\), as b or a"):
        solver.from_device_order(rows, out=natural)
    solver = make_solver(queue, Forest(chain(64)), "flat", np.float32)
    packed = solver.to_device_order(np.ones(64))
    with pytest.raises(InputError, match="out is a"):
        solver.from_device_order(packed, out=packed)


def test_arrays_of_another_context(every_queue):
    forest = Forest(chain(3))
    solver = make_solver(every_queue, forest, dtype=np.float32)
    context = cl.Context([every_queue.device])
    stranger = cl.CommandQueue(context)
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


def reordered(queue, config="block_3", dtype=np.float32):
    """Return a solver of 6 chains whose device order has no padding, and is not natural order."""
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
    )  # enqueue() marks its output
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
    assert solver.solve(*arrays, out=out) is out  # is now in natural order
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
    system.assert_solved(solver.solve(*arrays).get())  # marked, but equal to natural order


def buffers_of(queue, arrays):
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return [cl.Buffer(queue.context, flags, hostbuf=np.ascontiguousarray(a)) for a in arrays]


def test_buffers_stand_for_arrays(queue):
    solver = reordered(queue)
    system = make_system(solver.forest, np.float32)
    rows = np.stack((system.b, 2 * system.b))
    d, u, b, x = buffers_of(queue, (system.d, system.u, rows, rows))
    solution = solver.solve(d, u, b, out=x, check=False)
    assert solution.base_data is x and solution.shape == rows.shape
    expected = solver.solve(system.d, system.u, rows)
    assert np.array_equal(solution.get(), expected)
    assert np.array_equal(solver.solve(d, u, b).get(), expected)
    assert np.array_equal(solver.factor(d, u).solve(b, out=x).get(), expected)

    for solve in (partial(solver.solve, d, u), solver.factor(d, u).solve):
        (given,) = buffers_of(queue, [rows])
        solution = solve(given, overwrite=True)
        assert solution.base_data is given and np.array_equal(solution.get(), expected)

    packed = [solver.to_device_order(a) for a in (d, u, b)]
    raw = [a.data for a in packed]
    (out,) = buffers_of(queue, [np.zeros(packed[2].shape, np.float32)])
    for one in (solver, solver.factor(system.d, system.u)):
        given = raw if one is solver else raw[2:]
        with pytest.raises(InputError, match=r"does not come from to_device_order\(\)"):
            one.enqueue(*given, out=out)
        one.enqueue(*given, out=out, packed=True).wait()
        natural = solver.from_device_order(out, out=x, packed=True)
        assert natural.base_data is x and np.array_equal(natural.get(), expected)


def test_buffers_that_do_not_fit_are_refused(queue):
    solver = reordered(queue)
    n = solver.forest.num_nodes
    a = np.ones(n, np.float32)
    d, u, b, short = buffers_of(queue, (a, a, a, a[:-1]))
    with pytest.raises(InputError, match=f"b is a buffer of {4 * n - 4} bytes; expected {4 * n}, "):
        solver.solve(d, u, short)
    with pytest.raises(InputError, match="out is a buffer of"):
        solver.solve(d, u, b, out=short)
    with pytest.raises(InputError, match="mix NumPy and pyopencl arrays"):
        solver.solve(d, u, a)
    other = SimpleNamespace(context=cl.Context([queue.device]))
    (foreign,) = buffers_of(other, [a])
    with pytest.raises(InputError, match="d lives in another OpenCL context"):
        solver.solve(foreign, u, b)


def test_read_only_buffers_are_no_targets(queue):
    solver = reordered(queue)
    a = np.ones(solver.forest.num_nodes, np.float32)
    d, u, b, lower = buffers_of(queue, (4 * a, 0 * a, a, 0 * a))
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    frozen = cl.Buffer(queue.context, flags, hostbuf=a)
    array = cla.Array(queue, a.shape, a.dtype, data=frozen)
    packed = [solver.to_device_order(one) for one in (d, u, b)]
    factors = solver.factor(d, u)
    chains = Tridiagonal([len(a)], dtype=np.float32, queue=queue)
    diagonals = [cla.Array(queue, a.shape, a.dtype, data=one) for one in (lower, d, lower, b)]
    for call in (
        partial(solver.solve, d, u, b),
        partial(factors.solve, b),
        partial(solver.enqueue, *packed),
        partial(factors.enqueue, packed[2]),
        partial(solver.from_device_order, packed[0]),
        partial(chains.solve, *diagonals),
    ):
        for out in (array,) if call.func == chains.solve else (frozen, array):
            with pytest.raises(InputError, match="out is read-only"):
                call(out=out)
    out = cla.empty_like(packed[2])
    for x in (
        solver.solve(d, u, frozen, overwrite=True),
        solver.solve(array + 3, 0 * array, array, overwrite=True),
    ):
        assert x.base_data is not frozen and np.array_equal(x.get(), a / 4)
    solver.enqueue(array, packed[1], packed[2], out=out, overwrite=True, packed=True)
    assert np.array_equal(out.get(), a) and np.array_equal(array.get(), a)


class Shared:
    """An array of another library, in memory of DLPack's kind `place`."""

    def __init__(self, array, place=1):
        self.array, self.place = array, place

    def __dlpack__(self, **options):
        if self.place == 0:
            raise BufferError("it needs a gradient")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return max(self.place, 1), 0


def test_arrays_of_other_libraries_are_read_where_they_are(fast_queue, monkeypatch):
    solver = reordered(fast_queue)
    system = make_system(solver.forest, np.float32)
    arrays = [system.d, system.u, system.b]
    seen = []
    solve_host = type(solver.engine).solve_host
    monkeypatch.setattr(
        type(solver.engine),
        "solve_host",
        lambda engine, a, x: (seen.append((*a.values(), x)), solve_host(engine, a, x))[1],
    )
    expected = solver.solve(*arrays)
    x = np.zeros_like(expected)
    writable = np.from_dlpack(Shared(x)).flags.writeable  # since NumPy 2.1
    solution = solver.solve(*map(Shared, arrays), out=Shared(x) if writable else x)
    assert np.array_equal(x, expected) and np.shares_memory(solution, x)
    for a, b in zip(seen[-1], (*arrays, x), strict=True):
        assert np.shares_memory(a, b)
    d, u, b = arrays
    for place, text in ((2, "CUDA"), (10, "ROCm"), (99, "DLPack device 99")):
        with pytest.raises(InputError, match=f"u is Shared in memory of {text}, which OpenCL can"):
            solver.solve(d, Shared(u, place), b)
    with pytest.raises(InputError, match="memory cannot be shared: it needs a gradient"):
        solver.solve(d, u, Shared(b, 0))
    negated = type("Negated", (Shared,), {"is_neg": lambda a: True})  # z.conj().imag in PyTorch
    with pytest.raises(InputError, match="b is Negated with the negative bit"):
        solver.solve(d, u, negated(b))
    traced = type("Tracer", (), {"__dlpack__": None})  # inside jax.jit
    with pytest.raises(InputError, match="d is Tracer, whose memory cannot be shared"):
        solver.solve(traced(), u, b)
    frozen = np.zeros_like(x)
    frozen.flags.writeable = False
    with pytest.raises(InputError, match="out is read-only"):
        solver.solve(d, u, b, out=frozen)


def test_arrays_of_torch_and_jax_on_cpus(fast_queue):
    solver = reordered(fast_queue)
    system = make_system(solver.forest, np.float32)
    arrays = [system.d, system.u, system.b]
    expected = solver.solve(*arrays)
    torch = pytest.importorskip("torch")
    x = torch.zeros(len(expected))
    solver.solve(*map(torch.from_numpy, arrays), out=x)
    assert np.array_equal(x.numpy(), expected)
    with pytest.raises(InputError, match="cannot be shared"):
        solver.solve(*arrays[:2], torch.from_numpy(system.b).requires_grad_())
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):  # JAX would put arrays on a GPU
        assert np.array_equal(solver.solve(*map(jax.numpy.asarray, arrays)), expected)
        with pytest.raises(InputError, match="out is read-only"):
            solver.solve(*arrays, out=jax.numpy.zeros(len(expected), np.float32))


def test_arrays_of_jax_on_a_gpu_are_refused(fast_queue):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU")
    solver = reordered(fast_queue)
    b = jax.numpy.ones(solver.forest.num_nodes, np.float32)
    with pytest.raises(InputError, match="b is ArrayImpl in memory of CUDA, which OpenCL can"):
        solver.solve(2 * np.ones(len(b)), np.zeros(len(b)), b)


def test_empty_batches_give_empty_arrays(queue):
    solver = Solver(Forest(np.array([-1, 0])), dtype=np.float32, queue=queue)
    d, u = np.full(2, 3, np.float32), np.ones(2, np.float32)
    none = np.ones((0, 2), np.float32)
    assert solver.solve(d, u, none).shape == solver.factor(d, u).solve(none).shape == (0, 2)
    for solve in (partial(solver.solve, d, u), solver.factor(d, u).solve):
        assert solve(none, out=none) is none
    off, main = np.ones(3, np.float32), np.full(4, 3, np.float32)
    for b, columns in (
        (np.ones((0, 4)), False),
        (np.ones((4, 0)), True),
        (np.ones((0, 1, 4)), False),
    ):
        options = {"columns": columns, "dtype": np.float32, "queue": queue}
        for periodic in (False, True):
            rows = np.ones(4) if periodic else off
            x = solve_tridiagonal(rows, main, rows, b, periodic=periodic, **options)
            assert x.size == 0 and x.dtype == np.float32
    x = solve_tridiagonal(np.ones((0, 3)), np.ones((0, 4)), np.ones((0, 3)), np.ones((5, 0, 4)))
    assert x.shape == (5, 0, 4)
    assert solve_tridiagonal([], [], [], []).shape == (0,)


def test_a_matrix_of_numbers(queue):
    b = np.random.default_rng(5).standard_normal((3, 6)).astype(np.float32)
    ab = np.array([[-1.0] * 6, [2.5] * 6, [-1.0] * 6])
    x = solve_tridiagonal(-1.0, 2.5, -1.0, b, queue=queue)
    assert x.dtype == np.float32 and x.shape == b.shape
    # condition number at most 4.5 / 0.5, with a few roundings
    assert np.abs(x - solve_banded((1, 1), ab, b.T.astype(float)).T).max() < 100 * 6e-8
    assert np.array_equal(solve_tridiagonal(-1, 2.5, -1, b[0], queue=queue, dtype="f4"), x[0])
    y = solve_tridiagonal(-1, 2.5, -1, b.T, columns=True, queue=queue, dtype=np.float32)
    assert np.allclose(y.T, x, atol=1e-6)


def test_b_beyond_float32_is_said(queue):
    b = np.ones((2, 3))
    b[1, 2] = 1e39
    with pytest.raises(InputError, match=r"b\[1, 2\] is 1e\+39; expected at most 3.4e\+38"):
        solve_tridiagonal(1, 3, 1, b, dtype=np.float32, queue=queue)
    solver = Solver(Forest(np.array([-1, 0, 1])), dtype=np.float32, queue=queue)
    with pytest.raises(InputError, match=r"b\[1, 2\] is 1e\+39"):
        solver.solve(np.full(3, 3.0), np.ones(3), b)


def test_switches_and_methods_of_other_types(queue):
    forest, a = Forest(np.array([-1, 0])), np.ones(2, np.float32)
    solver = Solver(forest, dtype=np.float32, queue=queue)
    factors, packed = solver.factor(3 * a, a), solver.to_device_order(a)
    for value in (np.zeros(2), "no", 1, None):
        for call in (
            partial(solver.solve, 3 * a, a, a),
            partial(factors.solve, a),
            partial(factors.enqueue, packed, out=packed),
        ):
            with pytest.raises(InputError, match="overwrite is .*; expected True or False"):
                call(overwrite=value)
        if not isinstance(value, str):
            with pytest.raises(InputError, match="method is .*; expected a text"):
                Solver(forest, value, np.float32, queue=queue)


def test_rows_of_out_that_overlap(queue):
    solver = Solver(Forest(np.array([-1, 0])), dtype=np.float32, queue=queue)
    b, memory = np.ones((3, 2), np.float32), np.zeros(12, np.float32)
    system = np.full(2, 3, np.float32), np.ones(2, np.float32), b
    x = solver.solve(*system)
    for strides in ((4, 4), (0, 4), (4, 0), (8, 0), (-4, 4)):
        rows = as_strided(memory[4:], b.shape, strides)
        with pytest.raises(InputError, match="several values at one place"):
            solver.solve(*system, out=rows)
    for strides in ((8, 4), (4, 12), (12, 4), (-8, 4), (16, 8)):
        rows = as_strided(memory[4:] if strides[0] < 0 else memory, b.shape, strides)
        assert np.array_equal(solver.solve(*system, out=rows), x)


def test_one_device_or_queue(queue):
    with pytest.raises(InputError, match="device together with queue; expected one of them"):
        Solver(Forest(np.array([-1, 0])), dtype="f4", device=queue.device, queue=queue)


def test_wrong_keywords_say_which_was_meant(queue):
    solver = Solver(Forest(np.array([-1, 0])), dtype="f4", queue=queue)
    ones = np.ones(2, np.float32)
    with pytest.raises(TypeError, match="'overwrite_b'; did you mean 'overwrite'"):
        solver.solve(3 * ones, ones, ones, overwrite_b=True)
    with pytest.raises(TypeError, match="did you mean 'cell_offsets'"):
        Forest(np.array([-1]), cell_offset=[0, 1])
    with pytest.raises(InputError, match="did you mean 'columns'"):
        solve_tridiagonal(-1, 3, -1, np.ones((3, 2)), colums=True)
    assert pickle.loads(pickle.dumps(solve_tridiagonal)) is solve_tridiagonal


@pytest.mark.parametrize(
    "dtype", ["nonsense", "f8,(f4", ",", [1, 2], {"a": 1}, object, "b" * 10**5]
)
def test_dtypes_of_nonsense(dtype):
    with pytest.raises(InputError, match="expected float64 or float32") as error:
        Solver(Forest(np.array([-1])), dtype=dtype)
    assert len(str(error.value)) < 200


def test_too_many_rows():
    with pytest.raises(InputError, match="sizes has 2147483648 rows in all; expected at most"):
        Tridiagonal([2**31])


def test_names_of_any_length_are_cut():
    for name in ("x" * 10**5, "x y" * 10**5):
        assert len(str(InputError(f"parameter '{name}' is unknown; expected 'tau'"))) < 200
