"""Programs for PoCL declare only the functions that they call."""

import numpy as np
import pyopencl.array as cla
import pytest

from clhines import BuildError
from clhines.solver.device import declarations, program

HEADER = """// a comment
#ifndef _OPENCL_H_
#define _OPENCL_H_

#include "opencl-c-base.h"
#if defined(A) && \\
    defined(B)
int __ovld unused(int,
    int);
#endif
#define __ovld __attribute__((overloadable))
/* Returns
 * unused(2); */
float __ovld __cnfn used(float);
double __ovld __cnfn used(double,
    int);
#ifdef cl_khr_fp64
double __ovld __cnfn unused(double);
#elif defined(cl_khr_fp16)
half __ovld __cnfn unused(half);
#endif //cl_khr_fp64
#ifdef cl_khr_fp16
#ifdef A
half __ovld __cnfn unused(half);
#endif
half __ovld __cnfn used(half);
#endif
uint4 __ovld __cnfn convert_uint4_sat(int4);
uint4 __ovld __cnfn convert_uint4(int4);
#endif //_OPENCL_H_
"""
ALWAYS = ["#define __ovld __attribute__((overloadable))"]
USED = [
    "float __ovld __cnfn used(float);",
    "double __ovld __cnfn used(double,     int);",
    "#ifdef cl_khr_fp16",
    "half __ovld __cnfn used(half);",
    "#endif",
]


@pytest.fixture
def header(tmp_path):
    path = tmp_path / "opencl-c.h"
    path.write_text(HEADER, "utf-8")
    return path


@pytest.mark.parametrize(
    "source, lines",
    [
        ("", []),
        ("used(1.0f)", USED),
        ("usedx(1.0f) + xused(2) // us ed", []),
        ("convert_uint4(x)", ["uint4 __ovld __cnfn convert_uint4(int4);"]),
    ],
)
def test_functions_that_a_source_names_are_declared(header, source, lines):
    """All overloads of a function stay or go, and empty conditionals go."""
    assert declarations.declarations(header, source).splitlines() == ALWAYS + lines


class Source:
    """A spec with a source that is not a template."""

    template = "a source"


SOURCE = """#define TO_INT convert_int
__kernel void f(__global float *x, __global int *n) {
    const size_t i = get_global_id(0);
    n[i] = TO_INT(x[i]);
    x[i] = fma(x[i], 2.0f, rsqrt(16.0f));
    barrier(CLK_GLOBAL_MEM_FENCE);
    atomic_add(n + i, 1);
}
"""


def run(queue, source):
    x = np.arange(8, dtype=np.float32)
    on_device, n = cla.to_device(queue, x), cla.to_device(queue, np.zeros(8, np.int32))
    built = program.build(queue.context, Source(), source)
    built.f(queue, (8,), (8,), on_device.data, n.data)
    np.testing.assert_array_equal(n.get(), np.arange(8) + 1)
    np.testing.assert_allclose(on_device.get(), 2 * x + 0.25, rtol=1e-6)


@pytest.mark.core
def test_a_program_runs_with_few_declarations(queue):
    text, options = declarations.minimal(queue.device, SOURCE)
    assert text.endswith(SOURCE) and len(text.splitlines()) < 500
    is_pocl = "Portable Computing" in queue.device.platform.name
    assert options == (["-D_OPENCL_H_"] if is_pocl else [])
    run(queue, SOURCE)


def test_a_source_that_puts_names_together_has_all(queue):
    source = SOURCE.replace("TO_INT convert_int", "TO(type) convert_##type").replace(
        "TO_INT", "TO(int)"
    )
    assert declarations.minimal(queue.device, source) == (source, [])
    run(queue, source)


def test_a_program_that_lacks_a_declaration_is_built_with_all(queue, monkeypatch):
    """Build with all declarations after a build with none fails."""
    monkeypatch.setattr(declarations, "minimal", lambda _, text: (text, ["-D_OPENCL_H_"]))
    run(queue, SOURCE + "// all\n")


def test_errors_name_lines_of_the_source(queue):
    text = "\n\n__kernel void f(__global int *x) { *x = unknown_name; }\n"
    with pytest.raises(BuildError, match=r"(?s):3:\d+: .*unknown_name.*\n +3  .*unknown_name"):
        program.build(queue.context, Source(), text)
