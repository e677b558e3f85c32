<%page args="spec"/>\
<%
    w = spec.lanes
    lanes = "real" if w == 1 else f"{spec.real}{w}"
%>\
// Whole epochs of a network: one work-item takes all the steps of a block, ${w} cell(s) of one
// shape, lane by lane. Slots of a block are in the order of elimination: first those whose pivots
// never change, then those with instances below or at them, the root last.
// spec: ${spec.real}, ${w} lanes, ${len(spec.kinds)} kinds, secondorder ${spec.secondorder}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
typedef ${lanes} lanes;

% if any(kind.uses_noise for kind in spec.kinds):
${spec.noise}
% endif
% for k, kind in enumerate(spec.kinds):
// ---- kind ${k}: ${kind.name}

${kind.functions}
${kind.wrappers(k)}
% endfor
__kernel void epoch(
    const int first_step, const int steps, const real dt,
    // by block: first slot, slots, constant slots, first entry of `parent`, first variable slot,
    // first and end of its active slots, first and end of what is recorded of it
    __global const int *restrict blocks,
    // by shape and slot: the parent's slot in the block
    __global const int *restrict parents,
    // by slot and lane; f and inverse are those of the constant slots
    __global const lanes *restrict over_dts, __global const lanes *restrict constant_bs,
    __global lanes *restrict fs, __global lanes *restrict inverses, __global lanes *restrict vs,
    __global lanes *restrict bs,
% if spec.secondorder:
    __global lanes *restrict xs,
% endif
    // by variable slot and lane
    __global const lanes *restrict base_ds, __global const lanes *restrict us,
    __global lanes *restrict ds,
    // by block and lane; -1 for no cell
    __global const int *restrict cells,
    // by active slot: its variable slot in the block
    __global const int *restrict active,
    // by cell
    __global const real *restrict threshold, __global int *restrict failed,
    const int capacity, __global int *restrict spike_source, __global int *restrict spike_step,
    __global int *restrict spike_count,
    const int num_targets, const int slots, const real scale_of_events, const ulong seed,
    __global long *restrict incoming,
    // what is recorded: slot and lane in the block, column
    const int row, const int width, __global const int *restrict record_slot,
    __global const int *restrict record_column, __global real *restrict record_v
% for k, kind in enumerate(spec.kinds):
    // kind ${k}: instances of active slot a in lane l are range[2 * (a * ${w} + l)] and so on
    , const int count_${k}, const int target_${k}, const int number_${k},
    __global const int *restrict range_${k}, __global const real *restrict parameters_${k},
    __global real *restrict states_${k}, __global const real *restrict factor_${k}
% endfor
)
{
    const int block = get_global_id(0);
    __global const int *restrict table = blocks + 9 * block;
    const int n = table[1], num_constant = table[2], root = n - 1;
    const long slot = table[0], variable = table[4];
    __global const int *restrict parent = parents + table[3];
    __global const lanes *restrict over_dt = over_dts + slot;
    __global const lanes *restrict constant_b = constant_bs + slot;
    __global lanes *restrict f = fs + slot;
    __global lanes *restrict inverse = inverses + slot;
    __global lanes *v = vs + slot;
    __global lanes *b = bs + slot;
% if spec.secondorder:
    __global lanes *x = xs + slot;
% else:
    __global lanes *x = v;
% endif
    __global const lanes *restrict base_d = base_ds + variable - num_constant;
    __global const lanes *restrict u = us + variable - num_constant;
    __global lanes *d = ds + variable - num_constant;
    __global const int *restrict cell = cells + ${w} * block;

    for (int i = 0; i < n; i++) b[i] = over_dt[i] * v[i] + constant_b[i];
    for (int step = first_step; step < first_step + steps; step++) {
        const real t_mid = ((real)step + (real)0.5) * dt;
        const long due = (long)(step % slots) * num_targets;
        for (int i = num_constant; i < n; i++) d[i] = base_d[i];

        // instances: events, then currents
        for (int a = table[5]; a < table[6]; a++) {
            const int i = active[a];
            for (int lane = 0; lane < ${w}; lane++) {
                const real v_now = ((__global const real *)(v + i))[lane];
                real diagonal = 0, right = 0;
% for k, kind in enumerate(spec.kinds):
                for (int j = range_${k}[2 * (a * ${w} + lane)];
                     j < range_${k}[2 * (a * ${w} + lane) + 1]; j++) {
% if kind.takes_events:
                    const long weight = incoming[due + target_${k} + j];
                    if (weight != 0) {
                        event_${k}((real)weight * scale_of_events, count_${k}, j, parameters_${k},
                                   states_${k});
                        incoming[due + target_${k} + j] = 0;
                    }
% endif
                    real current, slope;
% if kind.uses_noise:
                    const real noise = normal(seed, (ulong)(number_${k} + j), (ulong)step);
% else:
                    const real noise = 0;
% endif
                    current_${k}(v_now, t_mid, count_${k}, j, parameters_${k}, states_${k}, noise,
                                 &current, &slope);
                    const real factor = ${f"factor_{k}[j]" if kind.density else "1"};
                    diagonal += factor * slope;
                    right += factor * (slope * v_now - current);
                }
% endfor
                ((__global real *)(d + i))[lane] += diagonal;
                ((__global real *)(b + i))[lane] += right;
            }
        }

        // elimination: the constant part moves right-hand sides only
        for (int i = 0; i < num_constant; i++) b[parent[i]] -= f[i] * b[i];
        for (int i = num_constant; i < root; i++) {
            const lanes inv = 1 / d[i], factor = u[i] * inv;
            inverse[i] = inv;
            f[i] = factor;
            d[parent[i]] -= factor * u[i];
            b[parent[i]] -= factor * b[i];
        }

        // substitution, and the right-hand side of the next step
% if spec.secondorder:
        const lanes v_root = v[root];
        x[root] = b[root] / d[root];
        v[root] = 2 * x[root] - v[root];
        b[root] = over_dt[root] * v[root] + constant_b[root];
        for (int i = root - 1; i >= 0; i--) {
            const lanes solved = b[i] * inverse[i] - f[i] * x[parent[i]];
            const lanes after = 2 * solved - v[i];
            x[i] = solved;
            v[i] = after;
            b[i] = over_dt[i] * after + constant_b[i];
        }
% else:
        const lanes v_root = v[root];
        v[root] = b[root] / d[root];
        b[root] = over_dt[root] * v[root] + constant_b[root];
        for (int i = root - 1; i >= 0; i--) {
            const lanes after = b[i] * inverse[i] - f[i] * v[parent[i]];
            v[i] = after;
            b[i] = over_dt[i] * after + constant_b[i];
        }
% endif

        // states, spikes, recording
        for (int a = table[5]; a < table[6]; a++) {
            const int i = active[a];
            for (int lane = 0; lane < ${w}; lane++) {
                const real after = ((__global const real *)(v + i))[lane];
% for k, kind in enumerate(spec.kinds):
% if kind.num_states:
                for (int j = range_${k}[2 * (a * ${w} + lane)];
                     j < range_${k}[2 * (a * ${w} + lane) + 1]; j++)
                    advance_${k}(after, (real)step * dt, dt, count_${k}, j, parameters_${k},
                                 states_${k});
% endif
% endfor
            }
        }
        for (int lane = 0; lane < ${w}; lane++) {
            const int c = cell[lane];
            if (c < 0) continue;
            const real before = ((const real *)&v_root)[lane];
            const real after = ((__global const real *)(v + root))[lane];
            if (before < threshold[c] && threshold[c] <= after) {
                const int place = atomic_inc(spike_count);
                if (place < capacity) {
                    spike_source[place] = c;
                    spike_step[place] = step;
                }
            }
            if (!isfinite(after) && failed[c] == 0) failed[c] = step + 1;
        }
        for (int k = table[7]; k < table[8]; k++) {
            const long at = (long)(row + step - first_step) * width + record_column[k];
            record_v[at] = ((__global const real *)v)[record_slot[k]];
        }
    }
}
