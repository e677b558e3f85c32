<%page args="spec"/>\
<%
    W, kinds = spec.warp, spec.kinds
    densities = [k.name for k in kinds if k.density]
    points = [k.name for k in kinds if not k.density]
%>\
    for (int q = home.s2 + warp; q < home.s3; q += ${spec.lanes // W}) {
        if (node_places[q * ${W} + in_warp] < 0) continue;
        __global const int *list = node_lists + q * ${spec.list_width};
        __global real *state = node_states + (long)(home.s4 + list[2]) * ${W} + in_warp;
% if spec.local_lines:
        __local real *local_state = local_states + (unit * ${spec.local_lines} + list[3]) * ${W} + in_warp;
% endif
        __global const int *member = node_members + (long)list[4] * ${W} + in_warp;
% for k, kind in enumerate(kinds):
<%
    test = (f"list[0] & {hex(1 << densities.index(kind.name))} ? 1 : 0" if kind.density else
            f"list[{5 + points.index(kind.name)}]")
    state = "local_state" if kind.local else "state"
%>\
        for (int n = ${test}; n > 0; --n) {
% if kind.states:
            if (*member >= 0) {
                const int instance = instances[number * ${len(kinds)} + ${k}] + *member;
% for s, _ in enumerate(kind.states):
                MOVE(${state}[${s * W}], ${kind.name}__states[${s} * ${kind.name}__count + instance]);
% endfor
            }
            ${state} += ${len(kind.states) * W};
% endif
            member += ${W};
        }
% endfor
    }
