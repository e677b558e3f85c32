<%page args="spec"/>\
<%
    from clhines.simulator.mechanisms.emit.exponentials import TESTS
    w = spec.width
    twice = "2 * " if spec.secondorder else ""
%>\
<%def name="begin(tile)">\
    const int q = get_global_id(0) / ${tile}, k = get_global_id(1) * ${tile} + get_global_id(0) % ${tile};
    if (q >= num_rows || k >= num_nodes) return;
    const int i = order[k];
    const uint at = i * num_rows + q;
    __global const int *restrict here = of_node + i * ${max(1, len(spec.kinds))};
</%def>\
<%def name="times(block)">\
% if block == "advance":
            const real t_begin = t_0, t_now = t_1, t_end = t_1;
% else:
            const real t_begin = t_1, t_now = t_2, t_end = t_3;
% endif
</%def>\
<%def name="load(kind, prefix, owner)">\
% for s in kind.states:
        lanes ${prefix}_${s} = ${kind.state(owner, s)};
% endfor
</%def>\
<%def name="store(kind, prefix, owner)">\
% for s in kind.states:
        ${kind.state(owner, s)} = ${prefix}_${s};
% endfor
</%def>\
// Steps of copies of a network, forward and back. A work-item has a node of ${w} copies; arrays have rows of
// all copies: entry (node or instance) * num_rows + row. A slot of `store` has what a step begins with:
// voltages, then states. Systems, and the changes of voltages that solve them, are in the solver's order.
//
// A launch is between two steps: it ends the one from t_0 to t_1 and begins the one from t_1 to t_3, with
// the middle t_2. At the first step, and at the last one, it does only one of both.
% if spec.tile > 1:
//
// Steps forward give ${spec.tile} nodes that are neighbours in the solver's order to neighbouring work-items, so that
// both orders are read and written in whole sectors. Back, with more to read, more copies side by side win.
% endif
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

static lanes gather(__global const real *source, __global const int *place, const uint at)
{
% if w > 1:
    lanes values;
    for (int lane = 0; lane < ${w}; lane++) ((real *)&values)[lane] = source[place[${w} * at + lane]];
    return values;
% else:
    return source[place[at]];
% endif
}

static void scatter(__global real *target, __global const int *place, const uint at, const lanes values)
{
% if w > 1:
    for (int lane = 0; lane < ${w}; lane++) target[place[${w} * at + lane]] = ((const real *)&values)[lane];
% else:
    target[place[at]] = values;
% endif
}

${spec.functions}
__kernel void take_step(${signature(spec, "take_step")})
{
${begin(spec.tile)}\
    __global const lanes *v_of = store + v_now;
    lanes v = v_of[at];
    if (ends) {
        // phase 5: voltages
        v += ${twice}gather(changes, place, at);
        store[v_next + at] = v;
        // phase 9: records
        if (row >= 0 && column[i] >= 0) rows[((size_t)row * num_columns + column[i]) * num_rows + q] = v;
    }
    lanes d = 0, b = 0;
    if (begins) {
        d = ${spec.column("capacitance", "i")} / solved_dt + ${spec.column("constant_d", "i")};
        b = ${spec.column("constant_b", "i")} - ${spec.column("constant_g", "i")} * v;
<% near = "v_of[p] + (ends ? " + twice + "gather(changes, place, p) : 0)" %>\
        if (parent[i] >= 0) {
            const uint p = parent[i] * num_rows + q;
            b += ${spec.column("u", "i")} * (v - (${near}));
        }
        for (int c = child[i]; c >= 0; c = sibling[c]) {
            const uint p = c * num_rows + q;
            b += ${spec.column("u", "c")} * (v - (${near}));
        }
    }
% for kind in spec.kinds:
% if kind.num_states or kind.gives_current:
    if (here[${kind.number}] >= 0) {
        const int j = here[${kind.number}];
        const uint e = j * num_rows + q;
% if kind.num_states:
        __global const lanes *states = store + now + ${kind.states_at};
${load(kind, "s", "states")}\
        // phase 7: states
        if (ends) {
            __global lanes *after = store + next + ${kind.states_at};
% if kind.has("advance"):
${times("advance")}\
            ${kind.call("advance")}
% endif
${store(kind, "s", "after")}\
        }
% endif
% if kind.gives_current:
        // phase 3: currents
        if (begins) {
${times("current")}\
            ${kind.call("current")}
            d += ${kind.factor} * g_g;
            b -= ${kind.factor} * i_i;
        }
% endif
    }
% endif
% endfor
    if (begins) {
        scatter(system_d, place, at, d);
        scatter(system_b, place, at, b);
    }
}

// Derivatives by what the later step begins with, taken back through its solve and its currents, and
// then through the states of the earlier step. `now` is the slot of the later step, `next` of the earlier.
__kernel void take_back(${signature(spec, "take_back")})
{
${begin(1)}\
    const lanes v = store[now + at];
    lanes by_v = slopes[at], by_b = 0, by_d = 0;
    if (begins) {
        const lanes change = gather(changes, place, at);
        by_b = gather(solution, place, at);
        by_d = -by_b * change;
        by_v -= ${spec.column("constant_g", "i")} * by_b;
        if (parent[i] >= 0) {
            const uint p = parent[i] * num_rows + q;
            const lanes above = gather(solution, place, p);
            by_v += ${spec.column("u", "i")} * (by_b - above);
% if spec.axial:
            by_u[at] += (v - store[now + p]) * (by_b - above) - by_b * gather(changes, place, p) - above * change;
% endif
        }
        for (int c = child[i]; c >= 0; c = sibling[c])
            by_v += ${spec.column("u", "c")} * (by_b - gather(solution, place, c * num_rows + q));
% if spec.matrix:
        by_diagonal[at] += by_d;
        by_right[at] += by_b;
        by_conductance[at] -= by_b * v;
% endif
    }
    if (ends && column[i] >= 0) by_v += rows[((size_t)row * num_columns + column[i]) * num_rows + q];
% for kind in spec.kinds:
% if kind.has("current__back") or kind.has("advance__back"):
    if (here[${kind.number}] >= 0) {
        const int j = here[${kind.number}];
        const uint e = j * num_rows + q;
        __global lanes *by_state = slopes + ${kind.states_at};
        __global const lanes *later = store + now + ${kind.states_at}, *earlier = store + next + ${kind.states_at};
${load(kind, "by", "by_state")}\
${load(kind, "later", "later")}\
${load(kind, "earlier", "earlier")}\
% for name, place in kind.parameters:
        lanes of_${name} = ${place};
% endfor
% for block, when, slot in (("current", "begins", "later"), ("advance", "ends", "earlier")):
% if kind.has(block + "__back"):
        if (${when}) {
% for s in kind.states:
            const lanes s_${s} = ${slot}_${s};
% endfor
${times(block)}\
% if block == "current":
            const lanes seed_i_i = -${kind.factor} * by_b, seed_g_g = ${kind.factor} * by_d;
% endif
            ${kind.call(block + "__back")}
% for line in kind.pulled(block):
            ${line}
% endfor
        }
% endif
% endfor
${store(kind, "by", "by_state")}\
% for name, place in kind.parameters:
        ${place} = of_${name};
% endfor
    }
% endif
% endfor
    slopes[at] = by_v;
    if (ends) scatter(system_b, place, at, ${twice}by_v);
}
% if spec.directions:
<%
    K = len(spec.directions)
    def of_kind(kind): return spec.directions_of(kind.number)
%>
<%def name="product(kind, block, slot, result)">\
<% found = kind.adjoints(block + "__back") %>\
            for (int r = 0; r < ${K}; r++) {
                lanes sum = ${"adjoint_v_v * by_v[r]" if ("v", "v") in found else "0"};
% for s in kind.states:
% if ("state", s) in found:
                sum += adjoint_state_${s} * T(${slot}, r, e + ${kind.states_at} + ${kind.states.index(s) * kind.count}u * num_rows);
% endif
% endfor
% for r, name, begin in of_kind(kind):
% if ("parameter", name) in found:
                if (r == ${r}) sum += adjoint_parameter_${name} * seeds[e + ${begin}u * num_rows];
% endif
% endfor
                ${result}
            }
</%def>\
// Derivatives of voltages and states by ${K} numbers, forward: `now` and `next` are slots of these and of the states.
// Of each result of a block the derivatives by what it reads are those that a loss would have that is this result.
#define T(slot, r, place) tangents[(slot) * ${K} + (size_t)(r) * num_entries * num_rows + (place)]

__kernel void take_tangents(${signature(spec, "take_tangents")})
{
${begin(1)}\
    const lanes v = store[(ends ? next : now) + at], change = begins ? gather(changes, place, at) : 0;
    lanes by_v[${K}], right[${K}];
    for (int r = 0; r < ${K}; r++) {
        __global const real *x = tangent_changes + r * size;
        by_v[r] = T(now, r, at) + (ends ? ${twice}gather(x, place, at) : 0);
        if (ends) T(next, r, at) = by_v[r];
        if (ends && column[i] >= 0) rows[(((size_t)row * ${K} + r) * num_columns + column[i]) * num_rows + q] = by_v[r];
        right[r] = -${spec.column("constant_g", "i")} * by_v[r];
        if (parent[i] >= 0) {
            const uint p = parent[i] * num_rows + q;
            right[r] += ${spec.column("u", "i")} * (by_v[r] - (T(now, r, p) + (ends ? ${twice}gather(x, place, p) : 0)));
        }
        for (int c = child[i]; c >= 0; c = sibling[c]) {
            const uint p = c * num_rows + q;
            right[r] += ${spec.column("u", "c")} * (by_v[r] - (T(now, r, p) + (ends ? ${twice}gather(x, place, p) : 0)));
        }
    }
% for kind in spec.kinds:
% if kind.has("current__back") or kind.num_states:
    if (here[${kind.number}] >= 0) {
        const int j = here[${kind.number}];
        const uint e = j * num_rows + q;
% if kind.num_states:
        if (ends) {
            __global const lanes *states = store + now + ${kind.states_at};
${load(kind, "s", "states")}\
${times("advance")}\
% for s in kind.states:
<% place = f"T(next, r, e + {kind.states_at} + {kind.states.index(s) * kind.count}u * num_rows)" %>\
% if s in kind.set_states:
        {
            lanes ${", ".join(f"by_{x} = {int(x == s)}" for x in kind.states)};
% if kind.has("advance__back"):
            ${kind.call("advance__back")}
${product(kind, "advance", "now", place + " = sum;")}\
% endif
        }
% else:
            for (int r = 0; r < ${K}; r++) ${place} = ${place.replace("next", "now")};
% endif
% endfor
        }
% endif
% if kind.has("current__back"):
        if (begins) {
            __global const lanes *states = store + (ends ? next : now) + ${kind.states_at};
${load(kind, "s", "states")}\
${times("current")}\
% for result, factor in (("i_i", ""), ("g_g", " * change")):
        {
            const lanes seed_i_i = ${int(result == "i_i")}, seed_g_g = ${int(result == "g_g")};
            ${kind.call("current__back")}
${product(kind, "current", "next", f"right[r] -= {kind.factor} * sum{factor};")}\
        }
% endfor
        }
% endif
    }
% endif
% endfor
    if (begins)
        for (int r = 0; r < ${K}; r++) scatter(system_b + r * size, place, at, right[r]);
}
% endif
