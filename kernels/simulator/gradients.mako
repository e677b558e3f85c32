<%page args="spec"/>\
<%
    from clhines.simulator.mechanisms.emit.exponentials import TESTS
    w = spec.width
    at_lane = "[lane]" if w > 1 else ""
%>\
<%def name="begin()">\
    const uint at = get_global_id(0);
    if (at >= (uint)num_nodes * num_rows) return;
    const int i = at / (uint)num_rows, q = at - i * num_rows;
    __global const int *restrict here = of_node + i * ${max(1, len(spec.kinds))};
</%def>\
<%def name="gather(name, source, where)">\
    lanes ${name};
% if w > 1:
    for (int lane = 0; lane < ${w}; lane++) ((real *)&${name})[lane] = ${source}[place[${w} * (${where}) + lane]];
% else:
    ${name} = ${source}[place[${where}]];
% endif
</%def>\
<%def name="scatter(target, value)">\
% if w > 1:
    for (int lane = 0; lane < ${w}; lane++) ${target}[place[${w} * at + lane]] = ((const real *)&${value})[lane];
% else:
    ${target}[place[at]] = ${value};
% endif
</%def>\
// Steps of copies of a network, forward and back. A work-item has a node of ${w} copies; arrays have rows of
// all copies: entry (node or instance) * num_rows + row. A slot of `store` has what a step begins with:
// voltages, states, then the diagonal and the change of voltages of the step.
// spec: ${spec.real}, ${w} copies in a vector, ${len(spec.kinds)} kinds, secondorder ${spec.secondorder}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
% if w > 1:
typedef ${spec.real}${w} real${w};
typedef real${w} lanes;
${TESTS}\
% else:
typedef real lanes;
% endif

${spec.functions}
// phase 3: currents
__kernel void begin_step(${signature(spec, "begin_step")})
{
${begin()}\
    __global lanes *v_of = store + now;
    const lanes v = v_of[at];
    lanes d = ${spec.column("capacitance", "i")} / solved_dt + ${spec.column("constant_d", "i")};
    lanes b = ${spec.column("constant_b", "i")} - ${spec.column("constant_g", "i")} * v;
    if (parent[i] >= 0) b += ${spec.column("u", "i")} * (v - v_of[parent[i] * num_rows + q]);
    for (int c = child[i]; c >= 0; c = sibling[c])
        b += ${spec.column("u", "c")} * (v - v_of[c * num_rows + q]);
% for kind in spec.kinds:
% if kind.gives_current:
    if (here[${kind.number}] >= 0) {
        const int j = here[${kind.number}];
        __global const lanes *states = store + now + ${kind.states_at};
${kind.call("current")}\
        d += ${kind.factor} * g__;
        b -= ${kind.factor} * i__;
    }
% endif
% endfor
    store[now + diagonal_at + at] = d;
${scatter("system_d", "d")}\
${scatter("system_b", "b")}\
}

// phase 5: voltages; phase 7: states
__kernel void end_step(${signature(spec, "end_step")})
{
${begin()}\
${gather("change", "solution", "at")}\
    const lanes v = store[now + at] + ${"2 * " if spec.secondorder else ""}change;
    store[now + diagonal_at + (size_t)num_nodes * num_rows + at] = change;
    store[next + at] = v;
    // phase 9: records
    if (column[i] >= 0) rows[((size_t)row * num_columns + column[i]) * num_rows + q] = v;
% for kind in spec.kinds:
% if kind.num_states:
    if (here[${kind.number}] >= 0) {
        const int j = here[${kind.number}];
        __global const lanes *states = store + now + ${kind.states_at};
        __global lanes *after = store + next + ${kind.states_at};
${kind.call("advance") if kind.has("advance") else ""}\
${kind.kept()}\
    }
% endif
% endfor
}

// Derivatives by voltages and states of the end of a step, taken back through the states.
__kernel void back_states(${signature(spec, "back_states")})
{
${begin()}\
    const lanes v = store[next + at];
    lanes by_v = slopes[at];
    if (column[i] >= 0) by_v += rows[((size_t)row * num_columns + column[i]) * num_rows + q];
% for kind in spec.kinds:
% if kind.has("advance__back"):
    if (here[${kind.number}] >= 0) {
        const int j = here[${kind.number}];
        __global const lanes *states = store + now + ${kind.states_at};
        __global lanes *by_state = slopes + ${kind.states_at};
${kind.call("advance__back")}\
    }
% endif
% endfor
    slopes[at] = by_v;
    const lanes right = ${"2 * " if spec.secondorder else ""}by_v, diagonal = store[now + diagonal_at + at];
${scatter("system_d", "diagonal")}\
${scatter("system_b", "right")}\
}

// And through the solve and the currents, to those of its begin.
__kernel void back_currents(${signature(spec, "back_currents")})
{
${begin()}\
${gather("by_b", "solution", "at")}\
    const lanes v = store[now + at];
    __global const lanes *changes = store + now + diagonal_at + (size_t)num_nodes * num_rows;
    const lanes change = changes[at], by_d = -by_b * change;
    lanes by_v = slopes[at] - ${spec.column("constant_g", "i")} * by_b;
    if (parent[i] >= 0) {
        const uint p = parent[i] * num_rows + q;
${gather("above", "solution", "p")}\
        by_v += ${spec.column("u", "i")} * (by_b - above);
% if spec.matrix:
        by_u[at] += (v - store[now + p]) * (by_b - above) - by_b * changes[p] - above * change;
% endif
    }
    for (int c = child[i]; c >= 0; c = sibling[c]) {
        const uint p = c * num_rows + q;
${gather("below", "solution", "p")}\
        by_v += ${spec.column("u", "c")} * (by_b - below);
    }
% if spec.matrix:
    by_diagonal[at] += by_d;
    by_right[at] += by_b;
    by_conductance[at] -= by_b * v;
% endif
% for kind in spec.kinds:
% if kind.has("current__back"):
    if (here[${kind.number}] >= 0) {
        const int j = here[${kind.number}];
        __global const lanes *states = store + now + ${kind.states_at};
        __global lanes *by_state = slopes + ${kind.states_at};
        const lanes seed_i = -${kind.factor} * by_b, seed_g = ${kind.factor} * by_d;
${kind.call("current__back")}\
    }
% endif
% endfor
    slopes[at] = by_v;
}
