<%page args="spec"/>\
// One row of what is recorded: some values of an array.
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

__kernel void record(${signature(spec, "record")})
{
    const int j = get_global_id(0);
    if (j < width) values[(long)row * width + j] = source[index[j]];
}
