<%page args="spec"/>\
## Part of epoch_by_node.mako: copy the states of the cell's instances between the lists of nodes and the array mem, by
## the macro MOVE(state in a list, state in mem). A list has a node for each lane in a warp. Its entry in
## node_lists: [0] its mechanisms' bits, [2] its states' first line in node_states, [3] in local memory, [4] its
## instances' first line in node_members. A line has a number for each lane. node_places is negative without a node.
<% W = spec.warp %>\
    for (int q = home.s2 + ${spec.loop.first_list}; q < home.s3; q += ${spec.lanes // W * spec.parts}) {
        if (node_places[q * ${W} + in_warp] < 0) continue;
        __global const int *list = node_lists + q * ${spec.loop.list_width};
        const int bits = list[0];
% if spec.mixed:
        const int own = node_bits[q * ${W} + in_warp];
% endif
        __global const real *p = node_values, *value = p;
        __global const int *member = node_members + (long)list[4] * ${W} + in_warp, *m;
        __global real *first_state = node_states + (long)(home.s4 + list[2]) * ${W} + in_warp, *state;
% if spec.local_lines:
        __local real *first_local = local_states + (unit * ${spec.local_lines} + list[3]) * ${W} + in_warp, *local_state;
% endif
        ${spec.loop.begin}
% for kind in spec.loop.in_lists:
% if kind.lined:
${spec.loop.opening(kind)}\
% for name in kind.in_lines:
                MOVE(${kind.line(name)}, ${kind.places.state(name)});
% endfor
${spec.loop.closing(kind)}\
% else:
            ${spec.loop.skipping(kind)}
% endif
% endfor
    }
