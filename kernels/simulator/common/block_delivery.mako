<%page args="spec"/>\
## Part of blocks.mako, at the end of a step in its loop `s`, where one work-item has all cells: add the weights of this
## step's spikes to their targets' sums. `delivered` counts spikes whose events were delivered before.
// deliver events in whole steps: there is no other work-item
const int sent = min(*grid_count, capacity), words = (num_targets + 31) / 32;
for (; delivered < sent; delivered++) {
    const int source = grid_source[delivered], last = first_of[source + 1];
    for (int c = first_of[source]; c < last;) {   // connections with one delay at a time
        const uint wait = offset[c] / num_targets, base_of = wait * num_targets;
        __global long *sums = incoming + (long)((first_step + s + 1 + wait) % slots) * num_targets;
% if spec.in_rows:
        __global uint *marks = (__global uint *)ints + marked + (first_step + s + 1 + wait) % slots * words;
% endif
        for (uint to; c < last && (to = offset[c] - base_of) < (uint)num_targets; c++) {
            sums[to] += weight_of[c];
% if spec.in_rows:
            marks[to / 32] |= 1u << to % 32;
% endif
        }
    }
}
