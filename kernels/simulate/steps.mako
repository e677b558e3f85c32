<%page args="spec"/>\
// The end of one step of a network and the begin of the next, around the solve between them.
// One work-item a place of the solver's order; instances of a node one after another.
// spec: ${spec.real}, ${len(spec.kinds)} kinds, secondorder ${spec.secondorder}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

% if any(kind.uses_noise for kind in spec.kinds):
${spec.noise}
% endif
% for k, kind in enumerate(spec.kinds):
// ---- kind ${k}: ${kind.name}

${kind.source}
${kind.wrappers(k)}
% endfor
// finish: take the solution x of the step that begins at t_done, advance the states, find spikes.
// begin: run event actions, then make d and b of the step whose currents are those of time t_mid.
// Parameters by place: `active`, the number of a node that has instances or is a soma, else -1, to b;
// by number of the active node: base_d and `cell`, -1 where it is no soma; by cell: threshold and
// failed; spikes found; events, of which those of this step are at `row`; of each kind, where
// instances of active node a are first[a] to first[a + 1].
__kernel void between_solves(${signature(spec, "between_solves")})
{
    const int i = get_global_id(0);
    if (i >= num_places) return;
    const int a = active[i];
    real v_now = v[i];
    if (finish) {
        const real before = v_now;
        v_now = ${"2 * x[i] - before" if spec.secondorder else "x[i]"};
        v[i] = v_now;
        if (a >= 0) {
% for k, kind in enumerate(spec.kinds):
% if kind.num_states:
            for (int j = first_${k}[a]; j < first_${k}[a + 1]; j++)
                advance_${k}(v_now, t_done, dt, count_${k}, j, parameters_${k}, states_${k});
% endif
% endfor
            const int c = cell[a];
            if (c >= 0) {
                if (before <= threshold[c] && v_now > threshold[c]) {
                    const int place = atomic_inc(spike_count);
                    if (place < capacity) {
                        spike_source[place] = c;
                        spike_step[place] = done;
                    }
                }
                if (!isfinite(v_now) && failed[c] == 0) failed[c] = done + 1;
            }
        }
    }
    if (!begin) return;
    real right = over_dt[i] * v_now + constant_b[i];
    if (a >= 0) {
        real diagonal = base_d[a];
% for k, kind in enumerate(spec.kinds):
        for (int j = first_${k}[a]; j < first_${k}[a + 1]; j++) {
% if kind.takes_events:
            const long weight = incoming[row + target_${k} + j];
            if (weight != 0) {
                event_${k}((real)weight * scale_of_events, count_${k}, j, parameters_${k},
                           states_${k});
                incoming[row + target_${k} + j] = 0;
            }
% endif
            real current, slope;
            const real noise = ${f"normal(seed, (ulong)(number_{k} + j), (ulong)next)" if kind.uses_noise else "0"};
            current_${k}(v_now, t_mid, dt, count_${k}, j, parameters_${k}, states_${k}, noise, &current,
                         &slope);
% if kind.density:
            diagonal += factor_${k}[j] * slope;
            right += factor_${k}[j] * (slope * v_now - current);
% else:
            diagonal += slope;
            right += slope * v_now - current;
% endif
        }
% endfor
        d[i] = diagonal;
    }
    b[i] = right;
}
