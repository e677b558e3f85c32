"""Philox and the normal numbers computed from it."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from mechanism_texts import REALS

from clhines.simulator.mechanisms.emit.noise import normal, normal_source, philox
from clhines.solver.device import program


def test_philox_gives_the_published_numbers():
    """Compare with kat_vectors, the known answers of the authors' Random123."""
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]
    for counter, key, words in (
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (*pi, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ):
        assert " ".join(f"{x:08x}" for x in philox(counter, key)) == words


def test_normal_numbers_are_normal_and_independent():
    n = 200_000
    x = normal(5, np.arange(n), 17)
    assert abs(x.mean()) < 4 / np.sqrt(n)
    assert abs(x.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs((x**3).mean()) < 4 * np.sqrt(15 / n)
    assert abs((x**4).mean() - 2.9) < 4 * np.sqrt(96 / n)
    for other in (normal(6, np.arange(n), 17), normal(5, np.arange(n), 18), np.roll(x, 1)):
        assert abs((x * other).mean()) < 4 / np.sqrt(n)
    assert normal(5, 3, 17) == x[3]
    assert normal(2**63, 2**40, 2**33) != normal(2**63, 2**40, 2**34)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_normal_numbers_of_a_device_are_the_same(queue, needs, dtype):
    needs(queue, dtype)
    real = REALS[np.dtype(dtype).name]
    source = (
        f"typedef {real} real;\n{normal_source(real)}"
        + """
        __kernel void draw(const ulong seed, const ulong step, __global real *out)
        {
            out[get_global_id(0)] = normal(seed, (ulong)get_global_id(0) << 30, step);
        }"""
    )
    built = program.build(queue.context, None, source=source)
    out = cla.zeros(queue, 512, dtype)
    seed, step = 2**64 - 3, 2**33 + 5
    kernel = cl.Kernel(built, "draw")
    kernel(queue, (512,), None, np.uint64(seed), np.uint64(step), out.data)
    expected = normal(seed, np.arange(512, dtype=np.uint64) << np.uint64(30), step)
    if dtype == np.float64:
        assert (out.get() == expected).all()
    np.testing.assert_allclose(out.get(), expected, rtol=2 * np.finfo(dtype).eps)
