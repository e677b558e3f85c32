<%page args="spec"/>\
// New values of an array, where they lie: from one value, or from as many as `source` numbers.
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

// at: where value j goes, less `offset`
// source: which of `values` that is; not read where all get the first
__kernel void spread(${signature(spec, "spread")})
{
    const int j = get_global_id(0);
    if (j < count) target[at[j] + offset] = values[single ? 0 : source[j]];
}
