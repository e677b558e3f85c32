<%page args="spec"/>\
// The memory floor: reads three arrays and writes one, as a solver must at the least.
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
% if spec.vector_width > 1:
typedef ${spec.real}${spec.vector_width} value;
typedef value __attribute__((aligned(sizeof(real)))) loose_value;   // vload is a call in PoCL

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
static void put(__global real *a, value v)
{
% if spec.streaming:
#if __has_builtin(__builtin_nontemporal_store)
    if (((size_t)a & (sizeof(value) - 1)) == 0) {
        __builtin_nontemporal_store(v, (__global value *)a);   // past the caches
        return;
    }
#endif
% endif
    *(__global loose_value *)a = v;
}
% endif

__kernel void floor_copy(const long n, __global const real *restrict d,
                         __global const real *restrict u, __global const real *restrict b,
                         __global real *restrict x)
{
% if spec.vector_width > 1:
    // a CPU: each work-item takes one long stretch, in explicit vectors
    const long items = get_global_size(0), item = get_global_id(0);
    const long whole = n / ${spec.vector_width};
    for (long i = whole * item / items; i < whole * (item + 1) / items; ++i) {
        const long place = i * ${spec.vector_width};
        put(x + place, *(__global const loose_value *)(d + place)
            + *(__global const loose_value *)(u + place)
            * *(__global const loose_value *)(b + place));
    }
    if (item == 0)
        for (long i = whole * ${spec.vector_width}; i < n; ++i) x[i] = d[i] + u[i] * b[i];
% else:
    const long i = get_global_id(0);
    if (i < n) x[i] = d[i] + u[i] * b[i];
% endif
}
