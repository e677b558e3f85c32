<%page args="spec"/>\
// The memory floor: read d, u, b, n reals each, and write x: the least traffic that a solve needs.
// spec: ${spec}
${part("solver/common/precision")}\
% if spec.vector_width > 1:
typedef ${spec.real}${spec.vector_width} value;
typedef value __attribute__((aligned(sizeof(real)))) loose_value;   // unaligned; PoCL would call a function for vload

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
// Return d + u * b for the vector that begins at `place`.
static value sum(__global const real *d, __global const real *u, __global const real *b, long place)
{
    return *(__global const loose_value *)(d + place)
        + *(__global const loose_value *)(u + place) * *(__global const loose_value *)(b + place);
}
% endif

// Write x = d + u * b, for n values each.
__kernel void floor_copy(${signature(spec, "floor_copy")})
{
% if spec.vector_width > 1:
    // on a CPU each work-item has one long range, in explicit vectors
    const long items = get_global_size(0), item = get_global_id(0);
    const long whole = n / ${spec.vector_width};
    const long first = whole * item / items, end = whole * (item + 1) / items;
% if spec.streaming:
#if __has_builtin(__builtin_nontemporal_store)
    // bypass the caches; in a separate loop, as compilers would merge both stores
    if (((size_t)x & (sizeof(value) - 1)) == 0)
        for (long i = first; i < end; ++i)
            __builtin_nontemporal_store(sum(d, u, b, i * ${spec.vector_width}),
                                        (__global value *)(x + i * ${spec.vector_width}));
    else
#endif
% endif
        for (long i = first; i < end; ++i)
            *(__global loose_value *)(x + i * ${spec.vector_width}) =
                sum(d, u, b, i * ${spec.vector_width});
    if (item == 0)
        for (long i = whole * ${spec.vector_width}; i < n; ++i) x[i] = d[i] + u[i] * b[i];
% else:
    const long i = get_global_id(0);
    if (i < n) x[i] = d[i] + u[i] * b[i];
% endif
}
