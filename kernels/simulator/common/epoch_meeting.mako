<%page args="spec"/>\
## Part of epoch_by_node.mako, arena_points.mako and arena_points_end.mako: a barrier for n work-groups: a cell's
## if it has several `parts`, or else all. Each runs on a multiprocessor of its own, adds 1 to a counter, which is
## never reset, and waits until the counter reaches the next multiple of n.
<% n = spec.parts if spec.parts > 1 else spec.joins %>\
barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
if (lid == 0) {
    __global ulong *here = arrived${" + number" if spec.parts > 1 else ""};
    ulong before, now;
    __asm__ volatile("membar.gl;" ::: "memory");
    __asm__ volatile("atom.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(here) : "memory");
    do {
        __asm__ volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(now) : "l"(here) : "memory");
    } while (now < (before / ${n} + 1) * ${n});
    __asm__ volatile("membar.gl;" ::: "memory");
}
barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
