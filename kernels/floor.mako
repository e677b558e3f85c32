<%page args="spec"/>\
// The memory floor: reads three arrays and writes one, as a solver must at the least.
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

__kernel void floor_copy(const long n, __global const real *restrict d,
                         __global const real *restrict u, __global const real *restrict b,
                         __global real *restrict x)
{
% if spec.vector_width > 1:
    // a CPU: each work-item takes one long stretch, in explicit vectors
    const long items = get_global_size(0), item = get_global_id(0);
    const long whole = n / ${spec.vector_width};
    for (long i = whole * item / items; i < whole * (item + 1) / items; ++i)
        vstore${spec.vector_width}(
            vload${spec.vector_width}(i, d) + vload${spec.vector_width}(i, u)
                * vload${spec.vector_width}(i, b), i, x);
    if (item == 0)
        for (long i = whole * ${spec.vector_width}; i < n; ++i) x[i] = d[i] + u[i] * b[i];
% else:
    const long i = get_global_id(0);
    if (i < n) x[i] = d[i] + u[i] * b[i];
% endif
}
