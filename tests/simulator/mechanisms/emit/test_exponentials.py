"""Exponentials of vectors."""

from fractions import Fraction
from math import factorial

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from mechanism_texts import REALS

from clhines.simulator.mechanisms.emit.exponentials import exponentials, series
from clhines.simulator.mechanisms.emit.helpers import helpers
from clhines.solver.device import program


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exponentials_of_vectors(queue, needs, dtype):
    """Compare with more digits to 1.5 and 3 ulp, also beyond the range of the format."""
    needs(queue, dtype)
    real, number, width = REALS[dtype], np.dtype(dtype).type, 4
    texts = exponentials(real, width, "a")
    source = f"typedef {real} real;\ntypedef {real}{width} real{width};\n" + "".join(texts.values())
    for name in ("exp", "expm1"):
        source += f"__kernel void {name}_all(__global const real4 *x, __global real4 *y)\n"
        source += f"{{ y[get_global_id(0)] = a_{name}_(x[get_global_id(0)]); }}\n"
    built = program.build(queue.context, None, source=source)
    info = np.finfo(dtype)
    low, high = (-745.0, 709.7) if real == "double" else (-103.0, 88.7)
    rng = np.random.default_rng(3)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, low - 20, high + 20, info.tiny, 1e-9]
    halves = np.log(2) * (np.arange(-20, 21) + 0.5)  # k changes there
    x = [
        edges,
        halves,
        rng.uniform(low, high, 1500),
        rng.uniform(-2, 2, 1500),
        low + rng.random(80),
    ]
    x.append(rng.choice([-1, 1], 300) * 10.0 ** rng.uniform(-30, 0, 300))
    x = np.concatenate(x).astype(dtype)
    x = x[: len(x) // width * width]
    more = np.longdouble if real == "double" else np.float64
    # A device without subnormal numbers may replace them by 0.
    config = queue.device.double_fp_config if real == "double" else queue.device.single_fp_config
    lost = 0 if config & cl.device_fp_config.DENORM else info.tiny
    for name, exact, bound in (("exp", np.exp, 1.5), ("expm1", np.expm1, 3.0)):
        y = cla.empty(queue, len(x), dtype)
        cl.Kernel(built, f"{name}_all")(
            queue, (len(x) // width,), None, cla.to_device(queue, x).data, y.data
        )
        with np.errstate(all="ignore"):
            expected = exact(x.astype(more))
            rounded = expected.astype(number)
            got, fine = y.get(), np.isfinite(rounded)
            np.testing.assert_array_equal(got[~fine], rounded[~fine])
            ulp = np.spacing(np.abs(rounded[fine])).astype(more)
            error = np.abs(got[fine].astype(more) - expected[fine])
        worst = int(np.argmax((error - lost) / ulp))
        assert (error <= bound * ulp + lost).all(), f"{name}({x[fine][worst]!r})"


@pytest.mark.parametrize("ends", [(), (Fraction(-3, 4), Fraction(1, 16))])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_polynomials_of_exponentials(dtype, ends):
    """The polynomial is within a quarter rounding of the series in exact numbers."""
    c = series(REALS[dtype], *ends)
    low, high = ends or (Fraction(-355, 1024), Fraction(355, 1024))
    assert low <= -np.log(2) / 2 and len(c) < {"float64": 13, "float32": 8}[dtype]
    for k in range(41):
        z = low + (high - low) * k / 40
        exact = sum(z**n / factorial(n + 1) for n in range(25))
        result = sum(Fraction(float(np.dtype(dtype).type(x))) * z**n for n, x in enumerate(c))
        # and the coefficients themselves are rounded
        rounded = sum(abs(x * float(z) ** n) for n, x in enumerate(c) if n) / 2
        assert abs(result - exact) < np.finfo(dtype).eps * (0.25 + rounded)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rates_of_vectors(typed_queue, dtype):
    """Compare both formulas of each function, near 0 and elsewhere; neighbours change no number."""
    real, number, width = REALS[dtype], np.dtype(dtype).type, 4
    more = np.longdouble if real == "double" else np.float64
    weight = "x, (real4)(step)"
    calls = {"bernoulli": "x, e", "weight": weight}
    calls["weight_slope"] = f"{weight}, a_weight_({weight})"
    text = f"typedef {real} real;\ntypedef {real}{width} real{width};\n"
    text += helpers(" ".join(f"a_{name}_(" for name in calls), "a", real, width)
    for name, given in calls.items():
        text += f"__kernel void {name}_all(real step, __global const real4 *xs,\n"
        text += "    __global const real4 *es, __global real4 *y)\n{\n"
        text += "    const real4 x = xs[get_global_id(0)], e = es[get_global_id(0)];\n"
        text += f"    y[get_global_id(0)] = a_{name}_({given});\n}}\n"
    built = program.build(typed_queue.context, None, source=text)
    rng, step = np.random.default_rng(5), number(0.03125)
    x = [rng.uniform(-1.2, 1.2, 800), rng.uniform(-80, 40, 800), [0.0, 1.0, -1.0, 1e-20, -1e-20]]
    x = np.concatenate([*x, rng.uniform(-1e-3, 1e-3, 95)]).astype(dtype)
    e = np.exp(x.astype(more)).astype(dtype)

    def computed(name, order):
        y = cla.empty(typed_queue, len(x), dtype)
        given = [cla.to_device(typed_queue, a[order]).data for a in (x, e)]
        kernel = cl.Kernel(built, f"{name}_all")
        kernel(typed_queue, (len(x) // width,), None, step, *given, y.data)
        result = np.empty_like(x)
        result[order] = y.get()
        return result

    wide = x.astype(more)
    z = wide * more(step)
    slope = sum(k * z ** (k - 1) / more(factorial(k + 1)) for k in range(1, 40))
    with np.errstate(invalid="ignore"):
        exact = {
            "bernoulli": np.where(x == 0, 1, wide / np.expm1(wide)),
            "weight": np.where(x == 0, step, np.expm1(z) / wide),
            "weight_slope": more(step) ** 2 * slope,
        }
    # A rounding of e changes x / (e - 1) by e / (e - 1) < 1.6 roundings if |x| > 1; a rounding
    # of b * dt changes its weight by |b * dt| < 2.5 roundings; the rest are single operations. The
    # slope of the weight cancels to a quarter of its terms at b * dt = -3/4.
    for name, expected in exact.items():
        result = computed(name, np.arange(len(x)))
        most = (24 if name == "weight_slope" else 6) * np.finfo(dtype).eps
        assert (np.abs(result - expected) <= most * np.abs(expected)).all(), name
        np.testing.assert_array_equal(computed(name, rng.permutation(len(x))), result)
