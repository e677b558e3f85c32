<%page args="spec"/>\
// Convert between natural order and device order: packed[i] = natural[gather[i]].
// spec: ${spec}
${part("solver/common/precision")}\

// Copy `natural`, rows with num_nodes values, to `packed`, rows with num_packed values, 0 for padding.
// A work-item writes one packed value in row get_global_id(1).
__kernel void pack(${signature(spec, "pack")})
{
    const long i = get_global_id(0), row = get_global_id(1);
    if (i >= num_packed) return;
    const int from = gather[i];
    packed[row * num_packed + i] = from < 0 ? (real)0 : natural[row * num_nodes + from];
}

// Pack d, u and b, one row each, in one launch: the gather table is read once.
__kernel void pack_three(${signature(spec, "pack_three")})
{
    const long i = get_global_id(0);
    if (i >= num_packed) return;
    const int from = gather[i];
    const bool none = from < 0;
    const int at = none ? 0 : from;
    const real one_d = d[at], one_u = u[at], one_b = b[at];   // three reads in flight
    packed_d[i] = none ? (real)0 : one_d;
    packed_u[i] = none ? (real)0 : one_u;
    packed_b[i] = none ? (real)0 : one_b;
}

// Copy `packed` back to `natural`; a work-item reads one packed value in row get_global_id(1).
__kernel void unpack(${signature(spec, "unpack")})
{
    const long i = get_global_id(0), row = get_global_id(1);
    if (i >= num_packed) return;
    const int to = gather[i];
    if (to >= 0) natural[row * num_nodes + to] = packed[row * num_packed + i];
}
