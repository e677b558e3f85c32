<%page args="spec"/>\
// Events of other ranks, by source and time, to the rings of their sources, whose targets look for
// them in the next step. One work-item. What is no array says where regions of `clock` and `ints`
// begin.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

__kernel void take_events(${signature(spec, "take_events")})
{
    if (get_global_id(0) > 0) return;
    for (int k = 0; k < num_taken; k++) {
        const int s = source[k], number = ints[event_count + s];
        clock[ring + ints[ring_first + s] + number % ints[ring_size + s]] = time[k];
        ints[event_count + s] = number + 1;
        ints[event_live + s] = number + 1;
        for (int c = ints[first_fan + s]; c < ints[first_fan + s + 1]; c++)
            ints[stale + ints[fan + c]] = 1;
    }
}
