<%page args="spec"/>\
## The spikes of a step into the sums of their targets, where one work-item has all cells.

        // delivery of what has spiked in this step; there is no other work-item
        const int found = *spike_count < capacity ? *spike_count : capacity;
        for (; delivered < found; delivered++) {
            const int from = spike_source[delivered], end = first_of[from + 1];
            for (int c = first_of[from]; c < end;) {   // run by run of one delay
                const uint delay = offset[c] / num_targets, base = delay * num_targets;
                const int slot = (step + 1 + delay) % slots;
                __global long *sums = incoming + (long)slot * num_targets;
% if spec.rows:
                __global int *list = touched + stride * slot;
                int count = *list;
% endif
                for (uint at; c < end && (at = offset[c] - base) < (uint)num_targets; c++) {
% if spec.rows:
                    list[1 + count] = at;
                    count += sums[at] == 0 && count < most;
% endif
                    sums[at] += weight_of[c];
                }
% if spec.rows:
                *list = count;
% endif
            }
        }
