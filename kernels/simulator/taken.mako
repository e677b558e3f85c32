<%page args="spec"/>\
// Append other ranks' events, sorted by source and time, to their sources' ring buffers. A work-group has a
// source; its work-items mark the source's targets as `stale`, so that these look for events in the next step.
// The buffer `time` has the events' times, ms, then their different sources, then each source's first event.
// `clock` and `ints` are arrays with named regions; the other arguments are the regions' offsets.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

__kernel void take_events(${signature(spec, "take_events")})
{
    __global const int *source = (__global const int *)(time + num_times);
    __global const int *first = source + get_num_groups(0);
    const int g = get_group_id(0), s = source[g];
    if (get_local_id(0) == 0) {
        int number = ints[event_count + s];
        for (int k = first[g]; k < first[g + 1]; k++, number++)
            clock[ring + ints[ring_first + s] + number % ints[ring_size + s]] = time[k];
        ints[event_count + s] = number;
        ints[event_live + s] = number;
    }
    for (int c = ints[first_fan + s] + get_local_id(0); c < ints[first_fan + s + 1];
         c += get_local_size(0))
        ints[stale + ints[fan + c]] = 1;
}
