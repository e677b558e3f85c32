<%page args="spec"/>\
// One row of the currents of some instances in a step, enqueued before it: from the voltages at its
// begin, and states after its events, which act on a copy of them here.
// spec: ${spec.real}, ${spec.kind.name}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

${spec.noise}
${spec.kind.source}
${spec.kind.wrappers(0)}
// Instance index[q]: its voltage is in row `before` of v, its events at `events` in incoming.
__kernel void currents(${signature(spec, "currents")})
{
    const int q = get_global_id(0);
    if (q >= width) return;
    const int j = index[q];
    for (int s = 0; s < ${spec.kind.num_states}; s++) copy[s * count + j] = states[s * count + j];
% if spec.kind.takes_events:
    const long weight = incoming[events + target + j];
    if (weight != 0) event_0((real)weight * scale_of_events, count, j, parameters, copy);
% endif
    real current, slope;
    const real noise = ${"normal(seed, (ulong)(number + j), (ulong)step)" if spec.kind.uses_noise else "0"};
    current_0(v[(long)before * stride + column + q], t_mid, dt, count, j, parameters, copy, noise,
              &current, &slope);
    values[(long)row * width + q] = current;
}
