<%page args="spec"/>\
## Part of the epoch_*.mako templates: types, random numbers, rate functions, and mechanisms' functions. They come
## before the macros, and are independent of lanes and cells.
${part("solver/common/precision")}\
% if not spec.fused:
#pragma OPENCL FP_CONTRACT OFF
% endif

% if spec.takes_series:
${part("simulator/common/rates")}\
% endif
% if spec.by_node:
${part("simulator/common/table_rows")}\
${part("simulator/common/arena_functions")}\
typedef struct { real ${", ".join(f"n{k}" for k in range(max(1, spec.num_numbers)))}; } numbers_;

% elif spec.advances:
${part("simulator/common/mechanisms")}\
% endif
% if spec.advances:
typedef struct { int ${", ".join(spec.of_launch)}; } launch_;
% endif
% if spec.joined:
typedef struct { int ${", ".join(spec.joined)}; } begins_;
% endif
