<%page args="spec"/>\
// Write new values into an array: one value everywhere, or one for each place.
// spec: ${spec}
${part("solver/common/precision")}\

// Value j goes to at[j] + offset; source[j] is its number in `values`, or values[0] with `single`.
__kernel void spread(${signature(spec, "spread")})
{
    const int j = get_global_id(0);
    if (j < count) target[at[j] + offset] = values[single ? 0 : source[j]];
}
