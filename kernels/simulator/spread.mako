<%page args="spec"/>\
// Write new values into `count` entries of the array `target`: one value for all, or one for each.
// spec: ${spec}
${part("solver/common/precision")}\

// Entry at[j] + offset gets values[source[j]] or, if `single`, values[0]. A work-item per entry.
__kernel void spread(${signature(spec, "spread")})
{
    const int j = get_global_id(0);
    if (j < count) target[at[j] + offset] = values[single ? 0 : source[j]];
}
