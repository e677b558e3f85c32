<%page args="spec"/>\
// Between natural order and device order: packed[i] = natural[gather[i]].
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

// A batch of arrays, one a row: get_global_id(1) is the row.
__kernel void pack(${signature(spec, "pack")})
{
    const long i = get_global_id(0), row = get_global_id(1);
    if (i >= num_packed) return;
    const int from = gather[i];
    packed[row * num_packed + i] = from < 0 ? (real)0 : natural[row * num_nodes + from];
}

__kernel void unpack(${signature(spec, "unpack")})
{
    const long i = get_global_id(0), row = get_global_id(1);
    if (i >= num_packed) return;
    const int to = gather[i];
    if (to >= 0) natural[row * num_nodes + to] = packed[row * num_packed + i];
}
