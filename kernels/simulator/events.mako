<%page args="spec"/>\
// Add events that the user sends to the ring buffer of incoming events, before the steps in which they are due.
// A work-item adds entry k, with k from `first` to first + count - 1: weight[k] to target[k], due in step[k]. `incoming`
// has num_targets sums for each of `slots` steps. No two entries in a launch have the same target and step.

__kernel void add_events(${signature(spec, "add_events")})
{
    const int k = first + (int)get_global_id(0);
    if (k >= first + count) return;
    incoming[(long)(step[k] % slots) * num_targets + target[k]] += weight[k];
}
