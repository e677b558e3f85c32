<%page args="spec"/>\
## Steps for whole cells with constant factors: mechanisms are only at the roots, other conductances are constant.
## A lane keeps its nodes' v in registers; a step only computes b and the roots' pivots. Some lanes in the group advance
## mechanisms (instances_step.mako) while the others eliminate towards the root. With `splits` (NVIDIA's GPUs) the lanes
## of mechanisms have a loop of their own. Both loops must have equally many barriers (GATHER, twice a step).
<% M, half = spec.segment, spec.secondorder %>\
${part("simulator/common/epoch_title")}\
// f1, f2 and 1 / d are constant during a run; a step only computes b and the root's pivot.
% if spec.sites:
// Lanes from ${spec.lanes * spec.units if spec.chip.apart else 0} on advance mechanisms' states, and store conductance and current in slots. The slots at
// a node are side by side and are added up in this order.
% endif
${part("simulator/common/epoch_functions")}
${part("simulator/common/runaway")}\
${part("simulator/common/epoch_macros")}\
__kernel${spec.required_size}
void advance(${signature(spec, "advance")})
{
${part("simulator/common/epoch_lane")}\

${part("simulator/common/rate_constants")}\
${part("simulator/common/epoch_local")}\
    const int column = is_inner ? lane : lane - inner;
    __local const int *row = rows_here + (is_inner ? 0 : ${M});
% for j in range(M):
    real a${j} = 0${f", v{j} = 0" if half else ""}, e${j} = 0;
% endfor
${part("simulator/common/segment_places", 4)}\
    real tree_f1 = 0, tree_f2 = 0, tree_inverse = 0;   // the root's tree_inverse: its pivot
    if (is_inner) {
        tree_f1 = tree_factors[3 * (mine.s7 + lane)];
        tree_f2 = tree_factors[3 * (mine.s7 + lane) + 1];
        tree_inverse = tree_factors[3 * (mine.s7 + lane) + 2];
    }
% for j in range(M):
    a${j} = length > ${j} ? all_v[mine.s0 + place${j}] : 0;
    e${j} = length > ${j} ? all_f2[mine.s0 + place${j}] : -1;
% endfor
    __local real root_v[UNITS];
    if (is_root) root_v[unit] = a0;
    const real my_threshold = is_root ? mem[detector_threshold + soma_detector[mine.s6]] : (real)0;
${part("simulator/common/epoch_records_begin")}\
    int fault = 0;
% if spec.sites:

${part("simulator/common/instances_begin")}\
    const int my_slots = is_root ? slot_runs[mine.s6 * 2] : 0;
    const int end_slots = is_root ? slot_runs[mine.s6 * 2 + 1] : 0;
% endif
    barrier(CLK_LOCAL_MEM_FENCE);

    int step = first_step;
    // steps of the launch begin here
% if spec.splits:
    if (active >= 0) {   // lanes for the mechanisms
    do {
${part("simulator/common/instances_step")}\
        GATHER();
        GATHER();
    } while (++step < first_step + num_steps);
    } else {   // the cells' lanes
    do {
% else:
    do {
% if spec.sites:
        if (active >= 0) {
${part("simulator/common/instances_step")}\
        }
% endif
% endif

        // segments, towards their last nodes
        real sum_b = 0, my_b = 0;
        real less_b = 0;
% for j in range(M):
% if half:
        v${j} = a${j};
% endif
        a${j} = C(place${j}) * a${j} + ${f"(K(place{j}) - less_b)" if spec.inflow else "-less_b"};
        my_b = length > ${j} ? a${j} : my_b;
        sum_b += F1(place${j}) * a${j};
        less_b = e${j} * a${j};
% endfor
${part("simulator/common/segment_rounds")}\
${part("simulator/common/segment_root")}\
${part("simulator/common/segment_back")}\
${part("simulator/common/epoch_records")}\
    } while (++step < first_step + num_steps);
% if spec.splits:
    }
% endif

% for j in range(M):
    if (length > ${j}) all_v[mine.s0 + place${j}] = a${j};
% endfor
    if (fault > 0 ? failed[mine.s6] <= 0 : fault && !failed[mine.s6]) failed[mine.s6] = fault;
${part("simulator/common/instances_end")}\
}
