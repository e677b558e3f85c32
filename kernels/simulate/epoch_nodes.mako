<%page args="spec"/>\
<%
    W = spec.warp
    kinds = spec.kinds
    densities = [k.name for k in kinds if k.density]
    points = [k.name for k in kinds if not k.density]
    shared = 4 if spec.inflow else 3   # lines of values before those of the mechanisms
%>\
        // lists of nodes: the states up to this step, then currents; after the last step no more of these
        const bool opens = step == first_step, closes = step == first_step + num_steps;
        for (int q = home.s2 + lane / ${W}; q < home.s3; q += LANES / ${W}) {
            const int in_warp = lane % ${W}, place = node_places[q * ${W} + in_warp];
            if (place < 0) continue;
            __global const int *list = node_lists + q * ${spec.list_width};
            const int bits = list[0];
            __global const real *value = node_values + (long)list[1] * ${W} + in_warp;
            __global real *state = node_states + (long)(home.s4 + list[2]) * ${W} + in_warp;
            __global const int *member = node_members + (long)list[3] * ${W} + in_warp;
            const real v = V(place), factor = value[0], d = value[${W}];
            const real right = value[${2 * W}] * v${f" + value[{3 * W}]" if spec.inflow else ""};
            real sum_i = 0, sum_g = 0, point_i = 0, point_g = 0;
            value += ${shared * W};
% for k, kind in enumerate(kinds):
<%
    varying = iter(range(len(kind.parameters)))
    params = "".join(f"{x or f'value[{next(varying) * W}]'}, " for x in kind.literals)
    num_varying = sum(not x for x in kind.literals)
    by_value = "".join(f"s_{name}, " for name in kind.states)
    by_address = ", ".join(f"&s_{name}" for name in kind.states)
    test = (f"if (bits & {hex(1 << densities.index(kind.name))})" if kind.density else
            f"for (int n = list[{4 + points.index(kind.name)}]; n > 0; --n)")
    total = "sum" if kind.density else "point"
%>\
            ${test} {
                if (*member >= 0) {
                    const int instance = instances[number * ${len(kinds)} + ${k}] + *member;
% for s, name in enumerate(kind.states):
                    real s_${name} = opens ? ${kind.name}__states[${s} * ${kind.name}__count + instance] : state[${s * W}];
% endfor
% if kind.states:
                    if (!opens) ${kind.name}_advance(v, (real)(step - 1) * dt, dt, ${params}${by_address});
% endif
                    if (!closes) {
% if kind.takes_events:
                        __global long *due = incoming + (long)(step % ring) * num_targets + ${kind.first_target} + instance;
                        const long weight = *due;
                        if (weight) {
                            *due = 0;
                            ${kind.name}_event((real)weight * scale, ${params}${by_address});
                        }
% endif
                        real i, g;
% if kind.uses_noise:
                        const real noise = normal(seed, (ulong)(${kind.number} + instance), (ulong)step);
% endif
                        ${kind.name}_current(v, (step + (real)0.5) * dt, dt, ${params}${by_value}${"noise, " if kind.uses_noise else ""}&i, &g);
                        ${total}_i += i;
                        ${total}_g += g;
                    }
% for s, name in enumerate(kind.states):
                    if (closes) ${kind.name}__states[${s} * ${kind.name}__count + instance] = s_${name};
                    else state[${s * W}] = s_${name};
% endfor
                }
% if num_varying:
                value += ${num_varying * W};
% endif
% if kind.states:
                state += ${len(kind.states) * W};
% endif
                member += ${W};
            }
% endfor
            if (!closes) {
                W(place) = d + (factor * sum_g + point_g);
                A(place) = right + (factor * (sum_g * v - sum_i) + (point_g * v - point_i));
            }
        }
