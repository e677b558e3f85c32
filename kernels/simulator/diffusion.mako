<%page args="spec"/>\
// phase 7: states
// Assemble the linear systems for states that diffuse along cells, and write their solutions back.
// spec: ${spec.real}
${part("solver/common/precision")}\

// A row is a diffusing state at one node; rows are in the solver's order. A work-item per row. `value`, `volume` and
// `diffusion` are indices in mem: the state, its volume, and its diffusion coefficient times cross section;
// -1 for padding. `above`, `below` and `beside` have the rows of the node's parent, first child and next sibling, -1 for
// none. `up` and `down` are the geometry factors for the link with the parent, for the parent's row and for this row. The
// system is written to d, u, l and b.
__kernel void assemble(${signature(spec, "assemble")})
{
    const int i = get_global_id(0);
    if (i >= num_places || value[i] < 0) return;
    const real own = mem[volume[i]], flow = mem[diffusion[i]];
    real diagonal = 1 / dt;
    if (above[i] >= 0) {
        const int p = above[i];
        const real mean = (flow + mem[diffusion[p]]) / 2;
        u[i] = -up[i] * mean / mem[volume[p]];
        l[i] = -down[i] * mean / own;
        diagonal -= l[i];
    }
    for (int c = below[i]; c >= 0; c = beside[c])
        diagonal += up[c] * ((mem[diffusion[c]] + flow) / 2) / own;
    d[i] = diagonal;
    b[i] = mem[value[i]] / dt;
}

// Store the systems' solution in the states. A work-item per row.
__kernel void put_back(${signature(spec, "put_back")})
{
    const int i = get_global_id(0);
    if (i < num_places && value[i] >= 0) mem[value[i]] = x[i];
}
