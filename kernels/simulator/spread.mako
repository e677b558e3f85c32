<%page args="spec"/>\
// Write new values into an array: the same one everywhere, or several.
// spec: ${spec}
${part("solver/common/precision")}\

// at: place of value j, minus `offset`
// source: its number in `values`; not read if all get the first one
__kernel void spread(${signature(spec, "spread")})
{
    const int j = get_global_id(0);
    if (j < count) target[at[j] + offset] = values[single ? 0 : source[j]];
}
