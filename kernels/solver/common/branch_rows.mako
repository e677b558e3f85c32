<%page args="spec"/>\
## Part of fine.mako and levels.mako: read AHEAD nodes of a branch, from node j towards the root. Node j
## is at root + j * width.
real row_d[AHEAD], row_u[AHEAD], row_b[RHS * AHEAD];
% if not spec.symmetric:
real row_l[AHEAD];
% endif
__attribute__((opencl_unroll_hint))
for (int s = 0; s < AHEAD; ++s) {   // all reads are in flight together
    const int place = root + (j - s) * width;
    if (j - s >= 0) {
        row_d[s] = d[place];
        row_u[s] = u[place];
% if not spec.symmetric:
        row_l[s] = l[place];
% endif
        for (int r = 0; r < RHS; ++r) row_b[RHS * s + r] = b[place + (long)r * num_values];
    }
}
