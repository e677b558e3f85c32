<%page args="spec"/>\
## A step of cells: states of the step before, events and currents; elimination, and the change of v; thresholds.
<% w, flat = spec.lanes, spec.flat %>\
<%def name="voltages(k, W, name)">\
% if W == 1:
            const real ${name} = ((__global const real *)v)[*place];\
% else:
            const real${W} ${name} = run_${k}[q] >= 0
                ? *(__global const loose_real${W} *)((__global const real *)v + run_${k}[q])
                : gather_${W}((__global const real *)v, place);\
% endif
</%def>\
<%def name="after(solved)">\
            const lanes solved = ${solved};
            x[i & ${spec.window - 1}] = solved;
% if not spec.flat:
            const lanes next = v[i] + ${"2 * " if spec.secondorder else ""}solved;
            v[i] = next;
            b[i] = constant_b[i] - constant_g[i] * next;
% endif
</%def>\
        // instances: states after the last step, events, currents
% for k, kind in enumerate(spec.kinds):
<% W, real = kind.width, f"real{kind.width}" %>\
        for (int q = table[${9 + 2 * k}]; q < table[${10 + 2 * k}]; q++) {
            __global ${real} *held = held_${k} + ${kind.num_states} * (long)q;
            __global const int *place = place_${k} + ${W} * (long)q;
${voltages(k, W, "now")}
            // phase 7: states, of the step before
% if kind.num_states:
            if (begun) {
${part("simulator/common/group_advance", 4, k=k, kind=kind, now="now", step="(step - 1)")}\
            }
% endif
            if (closes) continue;
            // phase 1: events
% if kind.takes_events:
${part("simulator/common/group_events", k=k, kind=kind)}\
% endif
            // phase 3: currents
${part("simulator/common/group_current", k=k, kind=kind)}\
% if W == 1:
            ((__global real *)d)[*place] += diagonal;
            ((__global real *)b)[*place] += right;
% else:
            if (run_${k}[q] >= 0) {
                *(__global loose_${real} *)((__global real *)d + run_${k}[q]) += diagonal;
                *(__global loose_${real} *)((__global real *)b + run_${k}[q]) += right;
            } else {
                scatter_${W}((__global real *)d, place, member, diagonal);
                scatter_${W}((__global real *)b, place, member, right);
            }
% endif
        }
% endfor
        if (closes) break;

        // phase 4: solve; elimination, of the change of v: with the currents between neighbours at the step's begin; the
        // constant part moves right-hand sides only
        for (int i = 0; i < num_constant; i++) {
            const int p = parent[i];
            const lanes flow = u[i] * (v[i] - v[p]), right = b[i] + flow;
            b[i] = right;
            b[p] -= flow + u[i] * inverse[i] * right;
        }
        for (int i = num_constant; i < first_root; i++) {
            const int p = parent[i];
            const lanes inv = 1 / d[i], factor = u[i] * inv;
            const lanes flow = u[i] * (v[i] - v[p]), right = b[i] + flow;
            f[i] = factor;
            b[i] = right * inv;
            d[p] -= factor * u[i];
            b[p] -= flow + factor * right;
        }

        // phase 5: voltages; substitution, and what the next step begins with
        for (int i = first_root; i < n; i++) {
            const lanes before = v[i];
${after("b[i] / d[i]")}\
% if flat:
            const lanes next = before + ${"2 * " if spec.secondorder else ""}solved;
% else:
            d[i] = base_d[i];
% endif
% if w > 1:
            if (!EVERY(((before > threshold[i - first_root]) | (next <= threshold[i - first_root]))
                & (fabs(next) < (real)1e6)))
% endif
            spikes(before, next, cell + ${w} * (i - first_root), step, threshold[i - first_root],
                failed, capacity, spike_source, spike_step, spike_count);
        }
        for (int i = first_root - 1; i >= num_constant; i--) {
${after(f"b[i] - f[i] * x[parent[i] & {spec.window - 1}]")}\
% if not flat:
            d[i] = base_d[i];
% endif
        }
        for (int i = num_constant - 1; i >= 0; i--) {
${after(f"inverse[i] * (b[i] - u[i] * x[parent[i] & {spec.window - 1}])")}\
        }
% if flat:
        end_step(n, (__global const real *)constant_g, (__global const real *)constant_b,
            (__global const real *)x, (__global real *)v, (__global real *)b);
        for (int i = num_constant; i < n; i++) d[i] = base_d[i];
% endif

