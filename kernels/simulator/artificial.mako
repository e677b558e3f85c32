<%page args="spec"/>\
// Advance artificial cells (instances without a node) over all steps in a launch. The other cells advance
// afterwards, and find all their due events.
// spec: ${spec.real}, ${len(spec.kinds)} mechanisms${", in one work-group" if spec.together else ""}
//
// Arguments:
${part("simulator/common/run_arguments")}\
//   first_time        index in step_begin of the launch's first step; record_row: the first step's record row
//   loose_targets     artificial cells that receive events, layer after layer: an event that is due in the step in
//                     which it is sent goes from one layer to a later one
//   first_of_layer    each layer's first entry in loose_targets, and the end
//   loose_sources     the artificial cells' numbers among all event sources
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

typedef ${spec.real} real;
${part("simulator/common/arena_functions")}\
% if spec.together:
// One work-group advances the layers one after another, in each step; a work-item advances every n-th target in a layer.
__kernel void artificial(${signature(spec, "artificial")})
{
    const int first = get_local_id(0), stride = get_local_size(0);
    for (int step = 0; step < num_steps; step++) {
        const instant t_begin = step_begin[first_time + step], t_mid = t_begin + half_dt;
        for (int layer = 0; layer < num_layers; layer++) {
            // phase 1: events
            for (int n = first_of_layer[layer] + first; n < first_of_layer[layer + 1]; n += stride) {
                const int target = loose_targets[n];
${part("simulator/common/at_target", 16, kinds=spec.net_kinds)}\
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
        for (int e = first; e < num_emitters; e += stride)
            ints[event_count + loose_sources[e]] = ints[event_live + loose_sources[e]];
% if spec.played:
        const instant t_end = t_mid + half_dt;
        // phase 2: played values
        for (int p = ints[first_played + num_active] + first; p < num_played; p += stride)
            play(p, t_mid, ints[played_continuous + p] ? t_end : t_mid, mem, clock, ints, at);
% endif
        barrier(CLK_GLOBAL_MEM_FENCE);
        // phase 9: records
        for (int r = mem_first[num_active] + first; r < num_mem; r += stride)
            mem_rows[(long)(record_row + step) * num_mem + mem_column[r]] = mem[mem_index[r]];
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
% else:
// A work-item advances one artificial cell over all steps. An event from one artificial cell to another is due after the
// launch.
__kernel void artificial(${signature(spec, "artificial")})
{
    const int n = get_global_id(0);
    if (n >= first_of_layer[num_layers]) return;
    const int target = loose_targets[n];
    for (int step = 0; step < num_steps; step++) {
        const instant t_begin = step_begin[first_time + step], t_mid = t_begin + half_dt;
        // phase 1: events
${part("simulator/common/at_target", 8, kinds=spec.net_kinds)}\
    }
}
% endif
