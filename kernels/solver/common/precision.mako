<%page args="spec"/>\
## Part of most templates: the type `real`.
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
