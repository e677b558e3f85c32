<%page args="spec"/>\
// One row of what is recorded: some values of an array.
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

__kernel void record(const int row, const int width, __global const int *restrict index,
                     __global const real *restrict source, __global real *restrict values)
{
    const int j = get_global_id(0);
    if (j < width) values[(long)row * width + j] = source[index[j]];
}
