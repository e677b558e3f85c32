<%page args="spec"/>\
<%
    from clhines.simulator.mechanisms.emit.exponentials import TESTS
    from clhines.simulator.mechanisms.emit.helpers import weight_slope_coefficients
    w = spec.width
    twice = "2 * " if spec.secondorder else ""
%>\
<%def name="begin(tile)">\
    const int q = get_global_id(0) / ${tile}, k = get_global_id(1) * ${tile} + get_global_id(0) % ${tile};
    if (q >= num_rows || k >= num_nodes) return;
% for name in spec.turn.shifts:
    const int ${name} = ${spec.turn.read(name, "turn")};
% endfor
    const real t_0 = times[4 * step], t_1 = times[4 * step + 1], t_2 = times[4 * step + 2], t_3 = times[4 * step + 3];
    const int i = order[k];
    const uint at = i * num_rows + q;
    __global const int *restrict here = of_node + i * ${max(1, 4 * len(spec.kinds))};
% if spec.lanes:
    const node_series_ series__ = { ${", ".join(spec.series_numbers.arguments)} };
% endif
</%def>\
<%def name="places(kinds, n, stage, ahead)">\
## the instances at the node, loaded before the mechanisms that come earlier have stored anything
% for kind in kinds[n + ahead * (n > 0):n + ahead + 1]:
<%
    numbers = ", ".join(f"here[{4 * kind.number + k}]" for k in range(4))
    at_once = spec.lanes and spec.lanes.inverses  # NVIDIA's GPUs; Oclgrind ends the process by it
    read = f"((__global const int4 *)here)[{kind.number}]" if at_once else f"(int4)({numbers})"
%>\
    const int4 here_${stage}${kind.number} = ${read};  // begin, end, entries
% endfor
</%def>\
<%def name="near(node)">now_of[p] + (ends ? ${twice}gather(changes, OF(${node})) : 0)</%def>\
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
<%def name="each_target(kind, first, each, last)">\
            // phase 1: events
            for (int lane = 0; lane < ${w} && q * ${w} + lane < num_copies; lane++) {
                const int to = ${kind.first_target} + (q * ${w} + lane) * ${kind.count} + j;
                ${first}
                for (int c = incoming[to]; c < incoming[to + 1]; c++)
                    if (delay[c] <= step) {
                        const int of_source = spikes[(size_t)(step - delay[c]) * num_sources + source[c]];
                        const int count = ${spec.spike.read("count", "of_source")};
                        if (count) ${each}
                    }
% if last:
                ${last}
% endif
            }
</%def>\
<%def name="sum_events(kind)">\
            lanes sum = 0;
<% outside = "outside[(size_t)step * num_targets + to]" if spec.outside else "0" %>\
${each_target(kind, f"real events = {outside};", "events += count * weight[c];", "((real *)&sum)[lane] = events;")}\
</%def>\
<%def name="each_detector()">\
        for (int lane = 0; lane < ${w}; lane++)
            for (int k = detector[${w} * at + lane]; k >= 0; k = next_detector[k]) {
                const real of_v = ((const real *)&v)[lane];
                __global uchar *spike = spikes + (size_t)step * num_sources + detected[k];
${caller.body()}\
            }
</%def>\
<%def name="ions_of(kind, block, slot)">\
% for name in kind.read_ions(block):
            const lanes ion_${name} = ${"later" if name in kind.late_ions else slot}_ion_${name};
% endfor
</%def>\
// Steps for copies of a network, forward, and derivatives back. A work-item has a node in ${w} copies; arrays
// have rows of copies: entry (node or instance) * num_rows + row. A slot of `store` has the values at the
// begin of a step: voltages, then states. Systems and their solutions, the voltage changes, are in the
// solver's order.
//
// A launch ends the step from t_0 to t_1 and begins the step from t_1 to t_3, with the middle t_2; `step` is
// the second one. The first launch only begins a step, and the last one only ends one. With `notes` a run writes
// its records and spikes. ``by_x`` is the loss's derivative with respect to x; `slopes` has the derivatives
// with respect to voltages and states, from launch to launch. A detector sends a spike if its `held` is 0. Then
// `held` counts down from `hold`, and stays at least 1 while the voltage is above the threshold.
% if spec.tile > 1:
//
// In forward steps ${spec.tile} nodes that are neighbours in the solver's order have neighbouring work-items, so that
// both orders are read and written in whole sectors. Back, more copies side by side are faster.
% endif
//
// Arguments:
//   order, of_node, place   each work-item's node; each mechanism's first instance and end, and its entries, at a
//                        node; each node's and copy's index in the solver's order
//   parent, child, sibling  each node's neighbours, -1 for none
//   times                each step's t_0 to t_3;  turn: bits for the launch's tasks, ${spec.turn}
//   start                one copy's state at t = 0;  entries: value indices in `packed`, to be put in order
//   now, next            the states' slots;  slot: a slot's length
//   numbers, values      constants that all copies share, and that differ between copies;  tables: rate tables
//   changes              v's changes in the step that ends;  system_d, system_b: the system to solve next
//   column               each recorded entry's column in `rows`, else -1
//   incoming, source, delay, weight   each target's first connection; each connection's source, delay in steps and weight
//   spikes               each source's events in each step, packed: ${spec.spike}
//   detector             each node's first detector, next_detector: the next one; detected: its source; level: mV
//   outside              sums of external events, by step and target
//   by_values            derivatives with respect to parameters; by_weight: to weights; by_sum: to event sums;
//                        by_outside: to external events' sums
//   seeds, tangents      for tangents: which instances a number sets, and all entries' derivatives
// spec: ${spec.real}, ${w} copies in a vector, ${len(spec.kinds)} mechanisms, secondorder ${spec.secondorder}
${part("solver/common/precision")}\
% if w > 1:
typedef ${spec.real}${w} real${w};
typedef real${w} lanes;
${TESTS}\
% else:
typedef real lanes;
% endif

${part("simulator/common/copy_places")}\
% if spec.lanes:
${part("simulator/common/rates")}\
<%
    end = spec.series_numbers.suffix
    first, *others = [f"{float(c)!r}{end}" for c in weight_slope_coefficients(spec.real)[::-1]]
    far = f"dt * fma(b, weight, 1.0{end}) - weight"
%>\
// derivative of (exp(b*dt) - 1) / b, the weight, with respect to b
static real node_weight_slope_(const node_series_ series__, const real b, const real dt, const real weight)
{
    const real z = b * dt;
    if (fabs(z) >= 0.5${end}) return ${f"({far}) * node_inverse_(b)" if spec.ptx else f"({far}) / b"};
    real sum = ${first};
% for number in others:
    sum = fma(sum, z, ${number});
% endfor
    return dt * dt * sum;
}

% endif
% if spec.kernel in ("", "start_copies"):
// Let all copies start from `start`, one copy's state. A work-item per entry in a row of copies.
__kernel void start_copies(${signature(spec, "start_copies")})
{
    const uint q = get_global_id(0), entry = get_global_id(1);
    if (q < num_rows) store[entry * num_rows + q] = (lanes)(start[entry]);
}

% endif
% if spec.kernel in ("", "to_natural"):
// Put some entries' values in order, copy after copy. A work-item per entry in a copy.
__kernel void to_natural(${signature(spec, "to_natural")})
{
    const uint copy = get_global_id(0), k = get_global_id(1);
    if (copy < num_copies)
        natural[(size_t)copy * get_global_size(1) + k] = packed[(size_t)entries[k] * num_rows * ${w} + copy];
}

% endif
${spec.functions}
% if spec.kernel in ("", "take_step"):
// End a step and begin the next one, each work-item for a node; set up the system to solve before the next launch.
__kernel void take_step(${signature(spec, "take_step")})
{
${begin(spec.tile)}\
    __global const lanes *now_of = store + now * slot;
    __global lanes *next_of = store + next * slot;
    lanes v = now_of[at];
    if (ends) {
        // phase 5: voltages
        v += ${twice}gather(changes, OF(i));
        next_of[at] = v;
        // phase 9: records
        if (notes && column[i] >= 0) ${spec.row("i")} = v;
    }
    lanes d = 0, b = 0;
    if (begins) {
        d = ${spec.column("capacitance", "i")} / solved_dt + ${spec.column("constant_d", "i")};
        b = ${spec.column("constant_b", "i")} - ${spec.column("constant_g", "i")} * v;
        if (parent[i] >= 0) {
            const uint p = parent[i] * num_rows + q;
            b += ${spec.column("u", "i")} * (v - (${near("parent[i]")}));
        }
        for (int c = child[i]; c >= 0; c = sibling[c]) {
            const uint p = c * num_rows + q;
            b += ${spec.column("u", "c")} * (v - (${near("c")}));
        }
    }
% for name, place in spec.ion_places:
    lanes ion_${name} = now_of[${place} + at];
% endfor
% for kinds, stage in spec.rounds:
% if stage == "begins":
% for name, first in spec.recorded_ions:
    if (ends && notes && column[${first} + i] >= 0) ${spec.row(f"{first} + i")} = ion_${name};  // phase 9: records
% endfor
    if (begins) {
% for ion in spec.ions:
<% e, inside, outside, current = ion.names %>\
        ion_${current} = 0;
% if ion.nernst is not None:
        const lanes potential_${e} = ${ion.nernst} * log(ion_${outside} / ion_${inside});
        const lanes limited_${e} = ion_${outside} > 0 ? potential_${e} : (lanes)-1e6f;
        ion_${e} = ${ion.follows} > 0 ? (ion_${inside} > 0 ? limited_${e} : (lanes)1e6f) : ion_${e};
% endif
% endfor
    }
% endif
<% used = [kind for kind in kinds if kind.states or kind.gives_current or kind.has("advance")] %>\
% for n, kind in enumerate(used):
${places(used, n, stage, 2)}\
    ${kind.each(stage)}
% if kind.states:
        __global const lanes *states = ${"(ends ? next_of : now_of)" if stage == "begins" else "now_of"};
${load(kind, "s", "states")}\
% endif
% if stage != "begins":
        // phase 7: states
        if (ends) {
% if kind.has("advance"):
${times("advance")}\
            ${kind.call("advance")}
% endif
% for s in kind.recorded:
            if (notes && column[${kind.entry(s)}] >= 0) ${spec.row(kind.entry(s))} = s_${s};  // phase 9: records
% endfor
        }
% endif
% if stage != "ends" and kind.receives:
        if (delivers) {
${sum_events(kind)}\
${times("receive")}\
            ${kind.call("receive")}
        }
% endif
% if kind.gives_current and stage != "ends":
        // phase 3: currents
        if (begins) {
${times("current")}\
            ${kind.call("current")}
            d += ${kind.factor} * g_g;
            b -= ${kind.factor} * i_i;
% for line in kind.adds_current():
            ${line}
% endfor
        }
% endif
% if kind.states and (stage != "begins" or kind.receives or kind.written("current", "state")):
${store(kind, "s", "next_of")}\
% endif
    }
% endfor
% endfor
% for name, place in spec.ion_places:
    next_of[${place} + at] = ion_${name};
% endfor
% if spec.events:
    // phase 8: thresholds
    if (ends && notes) {
<%call expr="each_detector()">\
                const int before = held[k], above = of_v > level[k], sends = above && before == 0;
                *spike = sends | (before == 0) << ${spec.spike.shifts["slope"]};
                held[k] = sends ? hold[k] : max(before - 1, above);
</%call>\
    }
% endif
    if (begins) {
        scatter(system_d, OF(i), d);
        scatter(system_b, OF(i), b);
    }
}

% endif
% if spec.kernel in ("", "take_back"):
// Take derivatives with respect to the values as the later step begins back through its solve, its currents
// and its events, then through the earlier step's states. `now` is the later step's slot, `next` the
// earlier step's.
__kernel void take_back(${signature(spec, "take_back")})
{
${begin(1)}\
    __global const lanes *later_of = store + now * slot, *earlier_of = store + next * slot;
    const lanes v = later_of[at];
    lanes by_v = slopes[at], by_b = 0, by_d = 0;
    if (begins) {
        const lanes change = gather(changes, OF(i));
        by_b = gather(solution, OF(i));
        by_d = -by_b * change;
        by_v -= ${spec.column("constant_g", "i")} * by_b;
        if (parent[i] >= 0) {
            const uint p = parent[i] * num_rows + q;
            const lanes above = gather(solution, OF(parent[i]));
            by_v += ${spec.column("u", "i")} * (by_b - above);
% if spec.axial:
            by_u[at] += (v - later_of[p]) * (by_b - above) - by_b * gather(changes, OF(parent[i])) - above * change;
% endif
        }
        for (int c = child[i]; c >= 0; c = sibling[c])
            by_v += ${spec.column("u", "c")} * (by_b - gather(solution, OF(c)));
% if spec.matrix:
% if spec.diagonal:
        by_diagonal[at] += by_d;
% endif
        by_right[at] += by_b;
        by_conductance[at] ${"-= by_b * v" if spec.diagonal else "+= by_d - by_b * v"};
% endif
    }
    if (ends && column[i] >= 0) by_v += ${spec.row("i")};
% for name, place in spec.ion_places:
    lanes by_ion_${name} = slopes[${place} + at];
    const lanes later_ion_${name} = later_of[${place} + at], earlier_ion_${name} = earlier_of[${place} + at];
% endfor
% for kinds, stage in spec.rounds[::-1]:
<% used = [kind for kind in kinds[::-1] if kind.blocks_back(stage)] %>\
% for n, kind in enumerate(used):
${places(used, n, stage, 0)}\
    ${kind.each(stage)}
${load(kind, "by_state", "slopes")}\
${load(kind, "later_state", "later_of")}\
${load(kind, "earlier_state", "earlier_of")}\
% for name, place in kind.parameters:
        lanes by_parameter_${name} = ${place};
% endfor
% for block, when, slot in kind.blocks_back(stage):
        if (${when}) {
% if block == "advance":
% for s in kind.recorded:
            if (column[${kind.entry(s)}] >= 0) by_state_${s} += ${spec.row(kind.entry(s))};
% endfor
% endif
% if kind.has(block + "__back"):
% for s in kind.states:
            const lanes s_${s} = ${slot}_state_${s};
% endfor
${ions_of(kind, block + "__back", slot)}\
% if block == "receive":
${sum_events(kind)}\
% endif
${times(block)}\
% for name, value in kind.seeds(block):
            const lanes seed_${name} = ${value};
% endfor
            ${kind.call(block + "__back")}
% if block == "receive":
<%
    last = "by_outside[(size_t)step * num_targets + to] = by;" * spec.outside
    last += " by_sum[(size_t)(step % num_slots) * num_targets + to] = by;" * spec.surrogate
%>\
${each_target(kind, "const real by = ((const real *)&adjoint_weight_" + kind.weight + ")[lane];", "by_weight[c] += count * by;", last)}\
% endif
% endif
% for line in kind.pulled(block):
            ${line}
% endfor
        }
% endfor
${store(kind, "by_state", "slopes")}\
% for name, place in kind.parameters:
        ${place} = by_parameter_${name};
% endfor
    }
% endfor
% if stage == "begins":
    if (begins) {
% for ion in spec.ions:
<% e, inside, outside, current = ion.names %>\
% if ion.nernst is not None:
        const lanes seed_${e} = ${ion.follows} > 0 ? ${ion.nernst} * by_ion_${e} : (lanes)0;
        const lanes defined_${e} = later_ion_${inside} > 0 ? (later_ion_${outside} > 0 ? (lanes)1 : (lanes)0) : (lanes)0;
        by_ion_${e} = ${ion.follows} > 0 ? (lanes)0 : by_ion_${e};
        by_ion_${inside} -= defined_${e} > 0 ? seed_${e} / later_ion_${inside} : (lanes)0;
        by_ion_${outside} += defined_${e} > 0 ? seed_${e} / later_ion_${outside} : (lanes)0;
% endif
        by_ion_${current} = 0;
% endfor
    }
% for name, first in spec.recorded_ions:
    if (ends && column[${first} + i] >= 0) by_ion_${name} += ${spec.row(f"{first} + i")};
% endfor
% endif
% endfor
% for name, place in spec.ion_places:
    slopes[${place} + at] = by_ion_${name};
% endfor
% if spec.surrogate:
    // phase 8: thresholds
    if (ends) {
<%call expr="each_detector()">\
                if (!(${spec.spike.read("slope", "*spike")})) continue;
                real by_spike = 0;
                for (int o = outgoing[detected[k]]; o < outgoing[detected[k] + 1]; o++)
                    by_spike += by_sum[(size_t)((step + delay[sent[o]]) % num_slots) * num_targets + target[o]] * weight[sent[o]];
                const real share = 1 / (1 + exp(-clamp((of_v - level[k]) / surrogate_width, (real)-500, (real)500)));
                ((real *)&by_v)[lane] += share * (1 - share) / surrogate_width * by_spike;
</%call>\
    }
% endif
    slopes[at] = by_v;
    if (ends) scatter(system_b, OF(i), ${twice}by_v);
}
% endif
% if spec.directions and spec.kernel in ("", "take_tangents"):
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
                sum += adjoint_state_${s} * T(${slot}, r, e + ${kind.states.index(s)}u * num_rows);
% endif
% endfor
% for r, name, begin in of_kind(kind):
% if ("parameter", name) in found:
                if (r == ${r}) sum += adjoint_parameter_${name} * seeds[(${begin}u + j) * num_rows + q];
% endif
% endfor
                ${result}
            }
</%def>\
// Derivatives of voltages and states with respect to ${K} numbers, forward; `now` and `next` are the slots for
// both steps. The derivatives of a block's result are its adjoints, with a seed of 1 for this result.
#define T(of, r, place) tangents[(of) * slot * ${K} + (size_t)(r) * num_entries * num_rows + (place)]

__kernel void take_tangents(${signature(spec, "take_tangents")})
{
${begin(1)}\
    const lanes v = store[(ends ? next : now) * slot + at], change = begins ? gather(changes, OF(i)) : 0;
    lanes by_v[${K}], right[${K}];
    for (int r = 0; r < ${K}; r++) {
        __global const real *x = tangent_changes + r * size;
        by_v[r] = T(now, r, at) + (ends ? ${twice}gather(x, OF(i)) : 0);
        if (ends) T(next, r, at) = by_v[r];
        if (ends && column[i] >= 0) rows[(((size_t)step * ${K} + r) * num_columns + column[i]) * num_rows + q] = by_v[r];
        right[r] = -${spec.column("constant_g", "i")} * by_v[r];
        if (parent[i] >= 0) {
            const uint p = parent[i] * num_rows + q;
            right[r] += ${spec.column("u", "i")} * (by_v[r] - (T(now, r, p) + (ends ? ${twice}gather(x, OF(parent[i])) : 0)));
        }
        for (int c = child[i]; c >= 0; c = sibling[c]) {
            const uint p = c * num_rows + q;
            right[r] += ${spec.column("u", "c")} * (by_v[r] - (T(now, r, p) + (ends ? ${twice}gather(x, OF(c)) : 0)));
        }
    }
<% used = [kind for kind in spec.kinds if kind.has("current__back") or kind.states] %>\
% for n, kind in enumerate(used):
${places(used, n, "", 0)}\
    ${kind.each("")}
% if kind.states:
        if (ends) {
            __global const lanes *states = store + now * slot;
${load(kind, "s", "states")}\
${times("advance")}\
% for s in kind.states:
<% place = f"T(next, r, e + {kind.states.index(s)}u * num_rows)" %>\
% if s in kind.written("advance", "state"):
        {
            lanes ${", ".join(f"by_state_{x} = {int(x == s)}" for x in kind.states)};
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
            __global const lanes *states = store + (ends ? next : now) * slot;
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
% endfor
    if (begins)
        for (int r = 0; r < ${K}; r++) scatter(system_b + r * size, OF(i), right[r]);
}
% endif
