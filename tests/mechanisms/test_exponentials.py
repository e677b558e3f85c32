"""Exponentials of vectors."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from mechanism_texts import REALS

from clhines.device import program
from clhines.mechanisms.exponentials import exponentials


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exponentials_of_vectors(queue, needs, dtype):
    """To 1.5 and 3 ulp, against more digits; beyond what the format holds, too."""
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
    halves = np.log(2) * (np.arange(-20, 21) + 0.5)  # where k changes
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
    # Where the device has no subnormal numbers, all of one may be lost.
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
