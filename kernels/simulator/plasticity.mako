<%page args="spec"/>\
// Apply plasticity rule ${spec.about.name} to the spikes of one step, or to a reward.
// spec: ${spec}
// A trace is stored as its value at the last event (of its source, postsynaptic cell or connection), and that
// event's step; n steps later trace k is multiplied by decay[first_decay[k] + n].
// Weights are sorted by source, or connection j has its weight at place[j]. They are stored in float64 and, for
// delivery, as integers in a common unit. A step lists each source at most once, so no two work-items change the
// same connection. A work-item changes some connections in a row, that is, from a source or to a postsynaptic cell.
//
// Arguments:
//   spike_count, spike_source, spike_step   spike list; marks[turn]: this launch's first one
//   pre_trace, post_trace, synapse_trace    sources', postsynaptic cells' and connections' traces
//   pre_step, post_step, synapse_step       the step of each one's last event
//   first             each row's first connection, and the end
//   cell, source      each connection's postsynaptic cell, -1 if its weight is fixed; each connection's source
//   weight, integer   weights in float64, from `least` to `most`, and as integers in units of 1 / inverse_scale
//   wrong             set to 1 if a weight or a trace is not finite
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF   // the same bits on every device

static double bounded(const double w, const double least, const double most)
{
    return w < least ? least : (w > most ? most : w);   // NaN stays
}

// Return the factor by which trace k has decayed some steps later; 0 beyond the end of its table.
static double left(const double value, const int steps, const int k,
                   __global const int *first_decay, __global const double *decay)
{
    const int n = first_decay[k] + steps;
    return n < first_decay[k + 1] ? value * decay[n] : 0.0;
}
<%def name="decayed(trace, gone)">\
left(${trace.at}, ${gone}, ${trace.number}, first_decay, decay)\
</%def>\
<%def name="connection(event)">\
<% mine = spec.kept_at(event) %>\
            % for t in spec.read(event):
            double ${t.name}_ = ${decayed(t, f"step - {t.side}_step[{t.side}_at]")};
            % endfor
            % if spec.weighs(event):
            double w_ = weight[i];
            % endif
            % if mine:
            const int gone = max(step - synapse_step[i], 0);
            % if spec.growth:
            % for t in mine:
            double ${t.name}_ = ${t.at};
            % endfor
            const int at = min(first_decay[${spec.last}] + gone, first_decay[${spec.last + 1}] - 1);
            w_ = bounded(w_ + ${spec.growth} * decay[at], least, most);
            if (isnan(w_)) wrong[0] = 1;
            % endif
            % for t in mine:
            ${"" if spec.growth else "double "}${t.name}_ = ${decayed(t, "gone")};
            % endfor
            % endif
            % for line in spec.about.printed(event, "synapse", "double"):
            ${line}
            % endfor
            % for t in mine:
            ${t.at} = ${t.name}_;
            if (!isfinite(${t.name}_)) wrong[0] = 1;
            % endfor
            % if mine:
            synapse_step[i] = step;
            % endif
            % if spec.weighs(event):
            weight[i] = w_;
            integer[i] = (long)rint(w_ * inverse_scale);
            if (isnan(w_)) wrong[0] = 1;
            % endif
</%def>\
<%def name="traces(event)">\
            % for t in spec.of_side(event):
            double ${t.name}_ = ${decayed(t, f"step - {event}_step[{event}_at]")};
            % endfor
            % for line in spec.about.printed(event, event, "double"):
            ${line}
            % endfor
            % for t in spec.of_side(event):
            ${t.at} = ${t.name}_;
            if (!isfinite(${t.name}_)) wrong[0] = 1;
            % endfor
            ${event}_step[${event}_at] = step;
</%def>\
<%def name="cells(event)">\
    const int end = min(spike_count[0], capacity);
    for (int k = marks[turn] + get_global_id(1); k < end; k += get_global_size(1)) {
        if (spike_step[k] != step) continue;
        const int ${event}_at = spike_source[k];
% if spec.changes(event):
        const int last = first[${event}_at + 1];
        for (int j = first[${event}_at] + get_global_id(0); j < last; j += get_global_size(0)) {
% if event == "pre":
            const int i = j, post_at = cell[j];
            if (post_at < 0) continue;   // the weight is fixed
% else:
            const int i = place[j], pre_at = source[j];
% endif
${connection(event)}\
        }
% endif
% if spec.of_side(event) and not spec.apart(event):
        if (get_global_id(0) == 0) {
${traces(event)}\
        }
% endif
    }
</%def>\
<%def name="cells_apart(event)">\
    const int end = min(spike_count[0], capacity);
    for (int k = marks[turn] + get_global_id(0); k < end; k += get_global_size(0)) {
        if (spike_step[k] != step) continue;
        const int ${event}_at = spike_source[k];
        {
${traces(event)}\
        }
    }
</%def>\

// Sources' spikes change their connections: forward rows.
__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void pre(${signature(spec, "pre")})
{
${cells("pre")}\
}

// Postsynaptic spikes change the connections to the cells: backward rows.
__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void post(${signature(spec, "post")})
{
${cells("post")}\
}
% if spec.apart("pre"):

// Update sources' traces after connections have read them.
__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void pre_traces(${signature(spec, "pre_traces")})
{
${cells_apart("pre")}\
}
% endif
% if spec.apart("post"):

// Update postsynaptic cells' traces after connections have read them.
__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void post_traces(${signature(spec, "post_traces")})
{
${cells_apart("post")}\
}
% endif
% if "reward" in spec.about.actions:

// A reward changes all connections in step `step`; with n work-items, each changes every n-th connection.
__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void reward(${signature(spec, "reward")})
{
    for (int i = get_global_id(0); i < connections; i += get_global_size(0)) {
        if (cell[i] >= 0) {
${connection("reward")}\
        }
    }
}
% endif
