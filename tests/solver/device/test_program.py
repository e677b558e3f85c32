"""Kernels build without messages of the compiler."""

import logging
import warnings
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pyopencl.elementwise
import pytest
from foreign_kernels import refuse_foreign_kernels
from processes import run_python
from solvers import make_solver
from systems import make_system

from bench.made import chain
from clhines import Forest
from clhines.solver.device import pocl, program
from clhines.solver.device.arrays import set_zero
from clhines.solver.device.devices import is_cpu
from clhines.solver.device.timing import FloorSpec

WIDE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
static double8 sum(double8 a, double8 b) { return a + b; }
kernel void add(global double8 *a) { a[0] = sum(a[0], a[1]); }  // %s
"""
BUILD = """
import sys, time, pyopencl as cl
from types import SimpleNamespace
from clhines.solver.device import devices, program
device = devices.choose(sys.argv[1])
program.build(cl.Context([device]), SimpleNamespace(template="wide"), sys.argv[2] % time.time())
"""


@pytest.mark.parametrize("config", ["flat", "contraction"])
def test_solves_need_no_kernels_of_pyopencl(fast_queue, monkeypatch, config):
    """PyOpenCL's kernels would be built at the first solve, with a warning on some devices."""
    refuse_foreign_kernels(monkeypatch)
    solver = make_solver(fast_queue, Forest.from_parents([chain(5), chain(9)]), config, np.float32)
    system = make_system(solver.forest, np.float32)
    system.assert_solved(solver.solve(**system.arrays))
    packed = [solver.to_device_order(system.arrays[name]) for name in "dub"]
    solver.enqueue(*packed, out=packed[2], overwrite=True)
    system.assert_solved(solver.from_device_order(packed[2]).get())
    factors = solver.factor(system.d, system.u)
    system.assert_solved(factors.solve(system.b))


def test_zeros_are_set_in_all_of_an_array_alone(fast_queue, monkeypatch):
    monkeypatch.setattr("clhines.solver.device.arrays._MOST_FILLED", 24)  # several fills
    whole = cla.to_device(fast_queue, np.arange(1, 11, dtype=np.int32))
    set_zero(whole[2:9], fast_queue)
    assert whole.get().tolist() == [1, 2, *[0] * 7, 10]
    monkeypatch.setattr("clhines.solver.device.arrays._FAR", 4096)  # fills of parts of the buffer
    whole = cla.to_device(fast_queue, np.ones(3000, np.int32))
    set_zero(whole[1020:2998], fast_queue)
    assert np.flatnonzero(whole.get()).tolist() == [*range(1020), 2998, 2999]


def test_what_a_compiler_says_goes_to_the_log(fast_queue, caplog, monkeypatch):
    """The compiler's messages go to the log, not to stderr or into a warning."""
    caplog.set_level(logging.DEBUG, "clhines")
    build = cl.Program.build

    def chatting(self, *args, **kwargs):
        warnings.warn("Non-empty compiler output", cl.CompilerWarning, stacklevel=2)
        return build(self, *args, **kwargs)

    monkeypatch.setattr(cl.Program, "build", chatting)
    monkeypatch.setattr(cl.Program, "get_build_info", lambda *_: " a remark \n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = "kernel void nothing(global int *a) { a[0] = 1; }"
        program.build(fast_queue.context, SimpleNamespace(template="nothing"), source)
    assert "the compiler says: a remark" in caplog.messages


def test_the_first_launch_of_a_kernel_is_a_phase(fast_queue, monkeypatch):
    """PoCL compiles there."""
    phases = []
    monkeypatch.setattr(program, "phase", phases.append)
    program.forget()
    kernel = program.kernel_of(fast_queue.context, FloorSpec("float", 1), "floor_copy")
    arrays = [cla.zeros(fast_queue, 8, np.float32) for _ in range(4)]
    for _ in range(2):
        kernel(fast_queue, (1,), (1,), 8, *(a.data for a in arrays)).wait()
    is_pocl = "Portable Computing" in fast_queue.device.platform.name
    assert phases[0].startswith("building kernels")
    assert phases[1:] == ["compiling kernels"] * is_pocl


def test_vectors_wider_than_the_registers_are_no_remark(fast_queue):
    device = fast_queue.device
    registers = pocl.register_bytes(device)
    if registers is None or registers >= 64 or not is_cpu(device):
        pytest.skip("not PoCL, or a processor with registers of 64 bytes")
    assert pocl.warns_of_vectors(device, WIDE)
    assert pocl.warns_of_vectors(device, "float16 a;")
    assert not pocl.warns_of_vectors(device, "double2 a; int doubles8; float4 b;")
    done = run_python("-c", BUILD, device.name.strip(), WIDE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
