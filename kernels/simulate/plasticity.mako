<%page args="spec"/>\
// Pair rule of spike-timing-dependent plasticity, on the spikes of one step.
// spec: ${spec}
// A trace is 1 more after every spike of its cell and decays between them; kept are its value and
// the step at the last spike, decay[n] is what is left after n steps. Weights lie in the order of
// the (forward) rows, or where place says, in float64 and, for delivery, as integers of a common unit.
// A source is in the list once a step at most, so no two work-items meet at one connection.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF   // the same bits on every device

static double left(const double value, const int steps, const int length,
                   __global const double *restrict decay)
{
    return steps < length ? value * decay[steps] : 0.0;
}

// Presynaptic spikes: forward rows; a connection loses by the trace of its postsynaptic cell.
// cell: postsynaptic, -1 where the weight is fixed
__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void pre(${signature(spec, "pre")})
{
    const int end = min(spike_count[0], capacity);
    for (int k = marks[turn] + get_global_id(1); k < end; k += get_global_size(1)) {
        if (spike_step[k] != step) continue;
        const int source = spike_source[k];
        for (int i = first[source] + get_global_id(0); i < first[source + 1]; i += get_global_size(0)) {
            const int post = cell[i];
            if (post < 0) continue;
            const int at = ${"place[i]" if spec.indexed else "i"};
            const double trace = left(other[post], step - other_step[post], decay_length, decay);
            const double w = fmin(fmax(weight[at] - amount * trace, least), most);
            weight[at] = w;
            integer[at] = (long)rint(w * inverse_scale);
        }
        if (get_global_id(0) == 0) {
            own[source] = left(own[source], step - own_step[source], own_length, own_decay) + 1.0;
            own_step[source] = step;
        }
    }
}

// Postsynaptic spikes: backward rows; a connection gains by the trace of its source.
__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void post(${signature(spec, "post")})
{
    const int end = min(spike_count[0], capacity);
    for (int k = marks[turn] + get_global_id(1); k < end; k += get_global_size(1)) {
        if (spike_step[k] != step) continue;
        const int cell = spike_source[k];
        for (int j = first[cell] + get_global_id(0); j < first[cell + 1]; j += get_global_size(0)) {
            const int i = place[j], pre = source[j];
            const double trace = left(other[pre], step - other_step[pre], decay_length, decay);
            const double w = fmin(fmax(weight[i] + amount * trace, least), most);
            weight[i] = w;
            integer[i] = (long)rint(w * inverse_scale);
        }
        if (get_global_id(0) == 0) {
            own[cell] = left(own[cell], step - own_step[cell], own_length, own_decay) + 1.0;
            own_step[cell] = step;
        }
    }
}
