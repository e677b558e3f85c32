<%page args="spec"/>\
<%! import textwrap %>\
## A step of cells of one node, row by row: events, currents, the change of v, thresholds, and states.
<% w, mask = spec.lanes, f"{'long' if spec.real == 'double' else 'int'}{spec.lanes}" %>\
<%def name="groups(k, kind, end)">\
% if spec.rows[k]:
            {
                const int q = table[${9 + 2 * k}] + i;
% else:
            for (int q = next_${k}; q < ${end}; q++) {
% endif
                __global real${kind.width} *held = held_${k} + ${kind.num_states} * (long)q;
% if kind.width == 1:
                __global const int *place = place_${k} + q;
% endif
${textwrap.indent(capture(caller.body), "    ")}\
            }
</%def>\
        if (closes) break;
% if any(kind.takes_events for kind in spec.kinds):

        // phase 1: events
% if spec.alone:
        __global int *list = touched + stride * (step % slots);
        const int listed = step < first_step + slots ? most : *list;
        *list = 0;
        for (int e = 1; e <= listed && listed < most; e++) {
            __global long *sum = incoming + due + list[e];
            const real weight = (real)*sum * scale_of_events;
            if (*sum == 0) continue;
            *sum = 0;
% for k, kind in enumerate(spec.kinds):
% if kind.takes_events:
            if (list[e] >= target_${k} && list[e] < target_${k} + count_${k}) {
                const int j = list[e] - target_${k};
                const uint at = ${"j" if spec.rows[k] else f"position_{k}[j]"}, q = at / ${kind.width};
                event_${k}(weight, at % ${kind.width}, parameters_${k},
                    (__global const real *)(${kind.numbers(k)[0]}),
                    (__global real *)(held_${k} + ${kind.num_states} * (long)q));
            }
% endif
% endfor
        }
% endif
% for k, kind in enumerate(spec.kinds):
% if kind.takes_events:
        for (int q = table[${9 + 2 * k}]; q < table[${10 + 2 * k}]; q++) {
% if spec.alone:
            if (listed < most) break;
% endif
            __global real${kind.width} *held = held_${k} + ${kind.num_states} * (long)q;
${part("simulator/common/group_events", k=k, kind=kind)}\
        }
% endif
% endfor
% endif

        // row by row: currents, the change of v, and states after the step
% for k, one in enumerate(spec.rows):
% if not one:
        int next_${k} = table[${9 + 2 * k}];
% endif
% endfor
        for (int i = 0; i < n; i++) {
            // phase 3: currents
            const lanes before = v[i];
            lanes left = base_d[i * each], rest = constant_b[i * each] - constant_g[i * each] * before;
% for k, kind in enumerate(spec.kinds):
% if not spec.rows[k]:
            int end_${k} = next_${k};
            while (end_${k} < table[${10 + 2 * k}]
                && ${"place" if kind.width == 1 else "run"}_${k}[end_${k}] < ${w} * (i + 1)) end_${k}++;
% endif
<%call expr="groups(k, kind, f'end_{k}')">\
            const real${kind.width} now = ${"((__global const real *)v)[*place]" if kind.width == 1 else "before"};
${part("simulator/common/group_current", k=k, kind=kind)}\
% if kind.width == 1:
            ((real *)&left)[*place - ${w} * i] += diagonal;
            ((real *)&rest)[*place - ${w} * i] += right;
% elif spec.rows[k]:
            left += diagonal;
            rest += right;
% else:
            const ${mask} own = convert_${mask}(*(__global const loose_int${w} *)member) >= 0;
            left += own ? diagonal : (lanes)0;
            rest += own ? right : (lanes)0;
% endif
</%call>\
% endfor
            // phase 4: solve; phase 5: voltages
            const lanes next = before + ${"2 * " if spec.secondorder else ""}(rest / left);
            v[i] = next;
            if (!EVERY((next <= threshold[i * each]) & (fabs(next) < (real)1e6))) {
% if spec.prefetch:
                const int known = *spike_count;
% endif
                spikes(before, next, cell + ${w} * i, step, threshold[i * each],
                    failed, capacity, spike_source, spike_step, spike_count);
% if spec.prefetch:
                for (int k = known; k < *spike_count && k < capacity; k++)   // for their delivery
                    for (int c = first_of[spike_source[k]]; c < first_of[spike_source[k] + 1]; c += 8) {
                        __builtin_prefetch((const void *)(size_t)(weight_of + c));
                        __builtin_prefetch((const void *)(size_t)(offset + c));
                    }
% endif
            }
% for k, kind in enumerate(spec.kinds):
            // phase 7: states
% if kind.num_states:
<%call expr="groups(k, kind, f'end_{k}')">\
${part("simulator/common/group_advance", k=k, kind=kind, now="((__global const real *)v)[*place]" if kind.width == 1 else "next", step="step")}\
</%call>\
% endif
% if not spec.rows[k]:
            next_${k} = end_${k};
% endif
% endfor
        }

