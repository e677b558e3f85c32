<%page args="spec"/>\
// Deliver spikes to synapses (Brette and Goodman 2012, section 4 and appendix A).
// spec: ${spec}
// Weights are integers in a common unit, so sums do not depend on their order.
// The spike list: cell spike_source[k] spiked in step spike_step[k]. A launch delivers the entries
// since the last launch that belong to steps first_step to first_step + steps - 1.
// incoming: a ring buffer of slots, each with a sum for every target; a step has the slot (step modulo slots).
// epoch_*.mako, steps.mako and blocks.mako read and clear their step's slot.
% if spec.pulled:
// Algorithm: pull. A work-item has a target and checks whether its sources have spiked.
% else:
// Algorithm: vpo. A work-item has a connection whose source has spiked.
% endif
// Connections are sorted by source, delay and target.
//
// Arguments, besides:
//   spike_count   entry count in the list; at most `capacity` were stored
//   turn          which of the two words in `marks` this launch reads
//   last_step     the step in which the list may have overflowed; -1 if later launches deliver the same entries
//   weight        by connection${", at position[i] for connection i" if spec.pulled else ""}
% if spec.pulled:
//   first         each target's first connection; source, delay: by connection
//   fired         for each source a bit per step in which it has spiked
% else:
//   first         each source's first connection
//   offset        by connection: delay * num_targets + target
// marks: two words for how many entries earlier launches have delivered: a launch reads one and
// writes the other. Then 1 + the step in which the list overflowed.
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
% endif

% if spec.pulled:
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
    if (get_global_id(0) == 0 && get_global_id(1) == 0 && last_step >= 0) {
        marks[1 - turn] = end;
        if (count > capacity && marks[2] == 0) marks[2] = 1 + last_step;
    }
}
% endif
