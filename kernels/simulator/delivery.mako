<%page args="spec"/>\
<%
    staged, pulled = spec.staged, spec.pulled
    several = spec.lanes < spec.work_group   # both are powers of two
%>\
// Deliver spikes to synapses (Brette and Goodman 2012, section 4 and appendix A).
// spec: ${spec}
// Weights are integers in a common unit, so sums do not depend on their order.
// The spike list: cell spike_source[k] spiked in step spike_step[k]. A launch delivers the entries
// since the last launch that belong to steps first_step to first_step + steps - 1.
// incoming: a ring buffer of slots, each with a sum for every target; a step has the slot (step modulo slots).
// epoch_*.mako, steps.mako and blocks.mako read and clear their step's slot.
% if pulled:
// Algorithm: pull. A work-item has a target and checks whether its sources have spiked.
% elif staged:
// Algorithm: ${"vssn" if several else "vsn"}. A work-group sums for a target range in local memory, ${"several spikes" if several else "one spike"} at a time.
% else:
// Algorithm: vpo. A work-item has a connection whose source has spiked.
% endif
// Connections are sorted by source, delay and target.
//
// Arguments, besides:
//   spike_count   entry count in the list; at most `capacity` were stored
//   turn          which of the two words in `marks` this launch reads
//   last_step     the step in which the list may have overflowed; -1 if later launches deliver the same entries
//   weight        by connection${", at position[i] for connection i" if pulled else ""}
% if pulled:
//   first         each target's first connection; source, delay: by connection
//   fired         for each source a bit per step in which it has spiked
% elif staged:
//   first         each chunk's first connection; a chunk has one source, one delay, a range of ${spec.columns} targets
//   delays        the different delays, steps; target: by connection
% else:
//   first         each source's first connection
//   offset        by connection: delay * num_targets + target
% endif
% if not pulled:
// marks: two words for how many entries earlier launches have delivered: a launch reads one and
// writes the other. Then 1 + the step in which the list overflowed.
% endif
% if not pulled:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
% endif

% if pulled:
// Set a bit per source and step for each spike; at most ${spec.flag_bits} steps per launch.
__kernel void flag(${signature(spec, "flag")})
{
    const int count = spike_count[0], end = min(count, capacity);
    for (int k = marks[turn] + get_global_id(0); k < end; k += get_global_size(0)) {
        const int bit = spike_step[k] - first_step;
        if (bit >= 0 && bit < steps) atomic_or(fired + spike_source[k], (int)(1u << bit));
    }
    if (get_global_id(0) == 0) {
        if (last_step >= 0) marks[1 - turn] = end;
        if (last_step >= 0 && count > capacity && marks[2] == 0) marks[2] = 1 + last_step;
    }
}

// A work-item has a target and adds the weights on its connections whose sources have spiked, in order.
__kernel void pull(${signature(spec, "pull")})
{
    for (int target = get_global_id(0); target < num_targets; target += get_global_size(0))
        for (int i = first[target]; i < first[target + 1]; ++i) {
            uint bits = (uint)fired[source[i]];
            for (int slot = (first_step + 1 + delay[i]) % slots; bits; bits >>= 1) {
                if (bits & 1) incoming[(long)slot * num_targets + target] += weight[position[i]];
                slot = slot + 1 < slots ? slot + 1 : 0;
            }
        }
}

// Clear all sources' bits after a delivery. A work-item clears some sources.
__kernel void clear(${signature(spec, "clear")})
{
    for (int k = get_global_id(0); k < num_sources; k += get_global_size(0)) fired[k] = 0;
}
% else:
// Add the weights of connections whose sources have spiked to their targets' sums.
__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void deliver(${signature(spec, "deliver")})
{
    const int count = spike_count[0], end = min(count, capacity), begin = marks[turn];
% if staged:
    // A work-group sums for ${spec.columns} targets with one delay in local memory, then adds the sums.
    // Groups along the dimensions: targets, steps, delays.
    __local long stage[${spec.columns}];
    const int lane = get_local_id(0), num_delays = get_num_groups(2), num_blocks = get_num_groups(0);
    const int column = get_group_id(0) * ${spec.columns};   // first target
    const int width = min(${spec.columns}, num_targets - column);
    const int delay = delays[get_group_id(2)];
    int step = first_step + get_group_id(1);
    do {
        for (int c = lane; c < width; c += ${spec.work_group}) stage[c] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
% if several:
        // ${spec.work_group // spec.lanes} spikes at once, ${spec.lanes} work-items each
        for (int k = begin + (int)((uint)lane / ${spec.lanes}); k < end; k += ${spec.work_group // spec.lanes}) {
% else:
        for (int k = begin; k < end; ++k) {
% endif
            if (spike_step[k] != step) continue;
            const long row = (long)spike_source[k] * num_delays + get_group_id(2);
            const long chunk = row * num_blocks + get_group_id(0);
            const int stop = first[chunk + 1];
            for (int i = first[chunk] + ${f"(lane & {spec.lanes - 1})" if several else "lane"}; i < stop; i += ${spec.lanes})
                atom_add((volatile __local long *)stage + (target[i] - column), weight[i]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const long slot = (long)((step + 1 + delay) % slots) * num_targets + column;
        for (int c = lane; c < width; c += ${spec.work_group})
% if spec.exclusive:
            if (stage[c]) incoming[slot + c] += stage[c];   // one delay: no other work-group adds here
% else:
            if (stage[c]) atom_add(incoming + slot + c, stage[c]);
% endif
        step += get_num_groups(1);
    } while (step < first_step + steps);
% else:
    // Work-items share each spiking source's connections.
    const uint size = (uint)slots * num_targets;
    for (int k = begin + get_global_id(1); k < end; k += get_global_size(1)) {
        const int step = spike_step[k], from = spike_source[k];
        if (step < first_step || step >= first_step + steps) continue;
        const uint start = (uint)((step + 1) % slots) * num_targets;
        const int stop = first[from + 1];
        for (int i = first[from] + get_global_id(0); i < stop; i += get_global_size(0)) {
            const uint place = start + offset[i];
            atom_add(incoming + (place < size ? place : place - size), weight[i]);
        }
    }
% endif
    if (get_global_id(0) == 0 && get_global_id(1) == 0 && get_global_id(2) == 0 && last_step >= 0) {
        marks[1 - turn] = end;
        if (count > capacity && marks[2] == 0) marks[2] = 1 + last_step;
    }
}
% endif
