<%page args="spec"/>\
## Part of contraction.mako, step 2, with its formulas. In its round my_round a lane eliminates its node v
## between the parent a, `above`, and the child c, `below`, or NONE. above_d and above_b collect what
## parents subtract from a child, because two lanes may not write the same value.
<% sym = spec.symmetric %>\
    // 2. rounds: nodes without a common neighbour are eliminated together
% if spec.eliminates:
% if spec.direct:
    __local int cell_bad[WORK_GROUP];   // each cell's status
% else:
    __local int *cell_bad = (__local int *)lost_d;   // each cell's status
% endif
    if (lane < block.s7 - block.s6) cell_bad[lane] = 0;
% endif
% if spec.flags_infinite:
    __local int odd;   // whether any value of x is not finite
    if (lane == 0) odd = 0;
% endif
% if spec.solves:
    real f1 = 0, f2 = 0, g = 0;
% endif
    int r = 0;
    do {   // at least once: PoCL takes far longer to build loops that may not reach a barrier
        if (is_inner && my_round == r) {
            const int other = below == NONE ? lane : below;
            const real up = tree_up[lane], next = tree_up[other];
% if spec.eliminates:
            const real pivot = tree_d[lane] - above_d[lane], inverse = reciprocal(pivot);
            const real next_d = above_d[other], its_d = tree_d[above];
% endif
% if spec.solves:
            const real rest = tree_b[lane] - above_b[lane];
            const real next_b = above_b[other], its_b = tree_b[above];
% endif
% if spec.eliminates:
            if (${spec.measure('pivot', 'own')} >= GOOD) bad = note(bad, length, pivot, own);
% endif
            ${"const real " if spec.makes else ""}f1 = ${"up" if sym else "tree_low[lane]"} * inverse;
% if spec.eliminates:
            tree_d[above] = its_d - up * f1;
% if not sym:
            if (fabs(up * f1) > GROWTH * fabs(its_d) && !bad) bad = length;
% endif
% endif
% if spec.solves:
            g = rest * inverse;
            tree_b[above] = its_b - up * g;
% else:
            out[place] = inverse;
% endif
            if (below != NONE) {
                const real low = ${"next" if sym else "tree_low[below]"};
                ${"const real " if spec.makes else ""}f2 = next * inverse;
                tree_up[below] = -up * f2;
% if not sym:
                tree_low[below] = -low * f1;
% endif
% if spec.eliminates:
                above_d[below] = next_d + low * f2;
% endif
% if spec.solves:
                above_b[below] = next_b + low * g;
% endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (++r < block.s5);
