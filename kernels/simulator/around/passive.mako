<%page args="spec"/>\
// Right-hand side of a backward-Euler step of passive cells: b = capacitance / dt * v + fixed.
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

__kernel void right_hand_side(${signature(spec, "right_hand_side")})
{
    const int i = get_global_id(0);
    if (i < n) b[i] = capacitance_over_dt[i] * v[i] + fixed[i];
}
