<%page args="spec"/>\
<%
    W = spec.warp
    kinds = spec.kinds
    densities = [k.name for k in kinds if k.density]
    points = [k.name for k in kinds if not k.density]
    has_member = spec.samples or any(k.takes_events or k.uses_noise or not k.density for k in kinds)
    shared = 4 if spec.inflow else 2   # lines of values before those of the mechanisms
    scalars = [(kind.name, name) for kind, names in zip(kinds, spec.uniform) for name in names]
    def value(kind, name, literal):
        if literal: return literal
        if (kind.name, name) in scalars: return f"scalar[{scalars.index((kind.name, name))}]"
        return f"value[{[n for n, x in zip(kind.parameters, kind.literals) if not x and (kind.name, n) not in scalars].index(name) * W}]"
%>\
        // lists of nodes: the states up to this step, then currents; after the last step no more of these
        const bool opens = step == first_step, closes = step == first_step + num_steps;
        for (int q = home.s2 + warp; q < home.s3; q += ${spec.lanes // W}) {
            const int place = node_places[q * ${W} + in_warp];
            if (place < 0) continue;
            __global const int *list = node_lists + q * ${spec.list_width};
            const int bits = list[0];
            __global const real *value = node_values + (long)list[1] * ${W} + in_warp;
            __global real *state = node_states + (long)(home.s4 + list[2]) * ${W} + in_warp;
% if spec.local_lines:
            __local real *local_state = local_states + (unit * ${spec.local_lines} + list[3]) * ${W} + in_warp;
% endif
% if has_member:
            __global const int *member = node_members + (long)list[4] * ${W} + in_warp;
% endif
% if scalars:
            __global const real *scalar = node_scalars + q * ${len(scalars)};
% endif
            const real v = V(place), factor = value[0], d = value[${W}];
% if spec.inflow:
            const real right = value[${3 * W}] - value[${2 * W}] * v;
% endif
            real sum_i = 0, sum_g = 0, point_i = 0, point_g = 0;
            value += ${shared * W};
% for k, kind in enumerate(kinds):
<%
    params = "".join(f"{value(kind, n, x)}, " for n, x in zip(kind.parameters, kind.literals))
    num_values = sum(not x and (kind.name, n) not in scalars for n, x in zip(kind.parameters, kind.literals))
    by_value = "".join(f"s_{name}, " for name in kind.states)
    by_address = ", ".join(f"&s_{name}" for name in kind.states)
    constants = "".join(f"{kind.name}__c{k}, " for k in range(kind.num_constants))
    test = (f"if (bits & {hex(1 << densities.index(kind.name))})" if kind.density else
            f"for (int n = list[{5 + points.index(kind.name)}]; n > 0; --n)")
    total = "sum" if kind.density else "point"
    always = spec.samples or kind.takes_events or kind.uses_noise or not kind.density   # the instance is needed in each step
    state = "local_state" if kind.local else "state"
    noise = "noise, " if kind.uses_noise else ""
    current = (f"{kind.name}_current(series__, v, (step + (real)0.5) * dt, dt, {params}{constants}{by_value}{noise}"
               "&i, &g);")
%>\
            ${test} {
% if always:
                if (*member >= 0) {
                const int instance = instances[number * ${len(kinds)} + ${k}] + *member;
% endif
% for s, name in enumerate(kind.states):
                real s_${name} = ${state}[${s * W}];
% endfor
                // phase 7: states, of the step before
% if kind.states:
                if (!opens) ${kind.name}_advance(series__, v, (real)(step - 1) * dt, dt, ${params}${constants}${by_address});
% endif
% if kind.states and spec.samples:
                if (!opens) ${spec.sampled_states(kind, "step - 1")}
% endif
                // phase 1: events
% if kind.takes_events:
                if (!closes) {
                    __global long *due = incoming + (long)(step % ring) * num_targets + ${kind.first_target} + instance;
                    const long weight = *due;
                    if (weight) {
                        *due = 0;
                        ${kind.name}_event(series__, (real)weight * scale, ${params}${by_address});
                    }
                }
% endif
                // phase 3: currents
                real i, g;
% if kind.uses_noise:
                const real noise = normal(seed, (ulong)(${kind.number} + instance), (ulong)step);
% endif
                ${current}
                ${total}_i += i;
                ${total}_g += g;
% for s, name in enumerate(kind.states):
                ${state}[${s * W}] = s_${name};
% endfor
% if spec.samples:   # last, as in instances_step
                if (!closes) ${spec.sampled_current(kind, current)}
% endif
% if always:
                }
% endif
% if num_values:
                value += ${num_values * W};
% endif
% if kind.states:
                ${state} += ${len(kind.states) * W};
% endif
% if has_member:
                member += ${W};
% endif
            }
% endfor
            if (!closes) {
                W(place) = d + (factor * sum_g + point_g);
                A(place) = ${"right " if spec.inflow else ""}- (factor * sum_i + point_i);
            }
        }
