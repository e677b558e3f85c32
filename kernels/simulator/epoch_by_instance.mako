<%page args="spec"/>\
## Steps of whole cells, mechanisms instance by instance. First all lanes in the group advance instances, and store
## conductance and current in slots; then a lane per segment adds up its nodes' slots, eliminates d and b, and
## solves. All nodes' voltages and constants are in local memory, segments side by side (segment_places.mako).
<% M = spec.segment %>\
${part("simulator/common/epoch_title")}\
% if spec.sites:
// All lanes advance mechanisms' states, and store conductance and current in slots. A node's slots
// are side by side and are added up in this order, so results do not depend on which lane has an instance.
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
    real a${j} = 0, w${j} = 0, e${j} = 0;
% endfor
% if spec.sites:
    bool has_more = false;   // whether a node has more than one slot
% for j in range(M):
    const int s${j} = length > ${j} ? slot_runs[mine.s0 + column + row[${j}]] : ${spec.slots};   // ${spec.slot_run}
    has_more |= ${spec.slot_run.read("number", f"s{j}")} > 1;
% endfor
% endif
${part("simulator/common/segment_places", 4)}\
    const real my_tie = used ? all_up[mine.s7 + lane] : (real)0;   // u for the edge to the parent segment
    // tied: the node next to the parent segment; top_place: place of the parent segment's last node
    const int tied = !used ? NONE : is_leaf ? length - 1 : 0;
    const int tied_place = used ? column + row[is_leaf ? length - 1 : 0] : CAPACITY - 1;
    const int over = parent == NONE ? 1 : ${spec.link.read("length", "links[2 * (mine.s2 + parent)]")};
    const int top_place = parent == NONE ? tied_place : parent + rows_here[over - 1];
    const real my_threshold = is_root ? mem[detector_threshold + soma_detector[mine.s6]] : (real)0;
${part("simulator/common/epoch_records_begin")}\
    int fault = 0;
% if spec.sites:

${part("simulator/common/instances_begin")}\
% endif
    barrier(CLK_LOCAL_MEM_FENCE);

    int step = first_step;
    // the launch's steps begin here
    do {
% if spec.sites:
        if (active >= 0) {
${part("simulator/common/instances_step")}\
        }
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
${part("simulator/common/segment_sweep")}\
${part("simulator/common/segment_rounds")}\
${part("simulator/common/segment_root")}\
${part("simulator/common/segment_back")}\
${part("simulator/common/epoch_records")}\
        barrier(CLK_LOCAL_MEM_FENCE);
${part("simulator/common/epoch_whole_rows", meet="barrier(CLK_LOCAL_MEM_FENCE)")}\
    } while (++step < first_step + num_steps);

    for (int k = lane; present && k < mine.s1; k += LANES) all_v[mine.s0 + k] = V(k);
    if (fault > 0 ? failed[mine.s6] <= 0 : fault && !failed[mine.s6]) failed[mine.s6] = fault;
${part("simulator/common/instances_end")}\
}
