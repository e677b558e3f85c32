<%page args="spec"/>\
// Repeat one copy's arrays for all copies of a network, and find nodes in the solver's order.
// spec: ${spec}
// One copy has n values or n nodes. A place is an index in the solver's order: gather[place] is the node, among all
// copies, at each of num_places places, -1 for padding.
${part("solver/common/precision")}\

// Repeat each row of `values` for all copies, in `whole` from `begin` on. A work-group fills one copy's row.
__kernel void tile_values(${signature(spec, "tile_values")})
{
    const long row = get_global_id(1), once = row / copies * n;
    __global real *to = whole + begin + row * n;
    for (int j = get_global_id(0); j < n; j += get_global_size(0)) to[j] = values[once + j];
}

// Set whole[place] to its node's value, 0 for padding. A work-item per place.
__kernel void pack_values(${signature(spec, "pack_values")})
{
    const int i = get_global_id(0);
    if (i >= num_places) return;
    const int node = gather[i];
    whole[i] = node < 0 ? 0 : values[node % n];
}

// Repeat each index row, as tile_values does; they grow by `step` from copy to copy, and -1 stays -1.
__kernel void tile_numbers(${signature(spec, "tile_numbers")})
{
    const long row = get_global_id(1), own = row / copies, once = own * n;
    const int shift = (int)(row - own * copies) * step;
    __global int *to = whole + begin + row * n;
    for (int j = get_global_id(0); j < n; j += get_global_size(0)) {
        const int value = values[once + j];
        to[j] = value < 0 ? value : value + shift;
    }
}

// Set place[node] for each node. A work-item per place.
__kernel void invert_places(${signature(spec, "invert_places")})
{
    const int i = get_global_id(0);
    if (i < num_places && gather[i] >= 0) place[gather[i]] = i;
}

// With the place's node n, set placed[place] to the place of node other[n], -1 for none. A work-item per place.
__kernel void place_others(${signature(spec, "place_others")})
{
    const int i = get_global_id(0);
    if (i >= num_places) return;
    const int node = gather[i], own = node % n;
    const int named = node < 0 ? -1 : other[own];
    placed[i] = named < 0 ? -1 : place[node - own + named];
}

// Active nodes have mechanisms, and are numbered. Set active[place] to the number of the place's node, -1 for none,
// and each active node's place in `ints`, from `begin` on. number[node] is the number of a node in the first copy,
// or -1. A work-item per place.
__kernel void find_places(${signature(spec, "find_places")})
{
    const int i = get_global_id(0);
    if (i >= num_places) return;
    const int node = gather[i], copy = node < 0 ? 0 : node / n;
    const int a = node < 0 ? -1 : number[node - copy * n];
    active[i] = a < 0 ? -1 : copy * num_active + a;
    if (a >= 0) ints[begin + copy * num_active + a] = i;
}
