<%page args="spec"/>\
## Part of contraction.mako, step 3: solve the roots, or read the solution of the reduced system (kept nodes),
## then solve the other nodes of the contracted tree. r, f1, f2 and g are from tree_rounds.mako.
    // 3. ${"roots" if spec.phase == "solve" else "kept nodes"}, then the rounds in reverse order
    real my_x = 0;
    if (is_inner && my_round == NONE) {
% if spec.uses:
        my_x = (tree_b[lane] - above_b[lane]) * inverse;
% elif spec.phase == "solve":
        const real pivot = tree_d[lane] - above_d[lane];
        bad = note(bad, length, pivot, own);
        my_x = (tree_b[lane] - above_b[lane]) / pivot;
% else:
        if (whole) {
            const real pivot = tree_d[lane] - above_d[lane];
            bad = note(bad, length, pivot, own);
            my_x = (tree_b[lane] - above_b[lane]) / pivot;
        } else {
            my_x = rest_x[kept[kept_start[get_group_id(0)] + above]];
% if not spec.symmetric:
            if (tree_d[lane] - above_d[lane] > GROWTH * fabs(own) && !bad) bad = length;
% endif
% if not spec.derived:
            if (!isfinite(own)) bad = max(bad, length | BAD | CLEAN);
% endif
        }
% endif
        tree_b[lane] = my_x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    do {
        --r;
        if (is_inner && my_round == r) {
            my_x = g - f1 * tree_b[above];
            if (below != NONE) my_x -= f2 * tree_b[below];
            tree_b[lane] = my_x;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (r > 0);
