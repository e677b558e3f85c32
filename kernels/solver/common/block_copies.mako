<%page args="spec"/>\
## Part of contraction.mako: functions that copy into local memory without registers, by PTX.
% if spec.copies_bulk:
static void copy_bulk(__local real *to, __global const real *from, int bytes, __local ulong *arrived)
{
    __asm__ volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"((uint)(size_t)to), "l"(from), "r"(bytes), "r"((uint)(size_t)arrived) : "memory");
}

% elif not spec.direct and spec.ptx and spec.natural:
static void copy_value(__local real *to, __global const real *from)
{
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], ${8 if spec.real == "double" else 4};"
                     :: "r"((uint)(size_t)to), "l"(from) : "memory");
}

% elif not spec.direct and spec.ptx:
static void copy_chunk(__local chunk *to, __global const chunk *from)
{
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"((uint)(size_t)to), "l"(from) : "memory");
}

% endif
