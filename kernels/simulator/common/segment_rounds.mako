<%page args="spec"/>\
## Part of the epoch_*.mako templates: contract the tree of the segments' last nodes (drawn in epoch_title.mako).
## 1. Each lane leaves its segment's contribution to the parent segment in a mailbox, a local variable; the parent's
##    lane adds up its mailboxes.
## 2. Rounds: the lanes in a round eliminate their segments' last nodes, and update the present parent and child of
##    each. Nodes in a round are not neighbours, so no two lanes write the same value.
## At the end the root has its row, and every other lane has
##     x = g * tree_inverse - tree_f1 * (above's x) - tree_f2 * (below's x).
## Values by lane: tree_d - above_d and tree_b - above_b are the current pivot and right-hand side, tree_up is the
## matrix entry with the current parent.
<% I, eliminates, solves, whole = spec.dense, spec.chip.eliminates, spec.advances, spec.chip.whole %>\
        if (used) {
% if eliminates:
            lost_d[mailbox] = sum_d;
% endif
% if solves:
            lost_b[mailbox] = sum_b;
% endif
        }
        MEET();

        // the tree of last nodes, in rounds
        if (is_inner) {
            for (int k = ${spec.family.read("first_mailbox", "family")}; k < (${spec.family.read("first_mailbox", "family")}) + (${spec.family.read("number", "family")}); ++k) {
% if eliminates:
                my_d -= lost_d[k];
% endif
% if solves:
                my_b -= lost_b[k];
% endif
            }
% if eliminates:
            tree_d[lane] = my_d;
            above_d[lane] = 0;
            tree_up[lane] = my_up;
% endif
% if solves:
            tree_b[lane] = my_b;
            above_b[lane] = 0;
% endif
        }
        MEET();
% if eliminates:
        real tree_f1 = 0, tree_f2 = 0, tree_inverse = 0;
% endif
% if solves:
        real g = 0;
% endif
% if spec.chip.tree_rounds:
        int r = 0;
        do {
            if (my_round == r) {
% if whole:   # all reads come before the writes, so that they are in flight together
                const real up = tree_up[lane], next = below != NONE ? tree_up[child] : (real)0;
                const real above_now = tree_d[above], above_right = tree_b[above];
                const real below_now = above_d[child], below_right = above_b[child];
                g = tree_b[lane] - above_b[lane];
                tree_inverse = reciprocal(tree_d[lane] - above_d[lane]);
                tree_f1 = up * tree_inverse;
                tree_f2 = next * tree_inverse;
                tree_d[above] = above_now - up * tree_f1;
                tree_b[above] = above_right - tree_f1 * g;
                if (below != NONE) {
                    tree_up[below] = -up * tree_f2;
                    above_d[below] = below_now + next * tree_f2;
                    above_b[below] = below_right + tree_f2 * g;
                }
% elif eliminates:   # row sums, see `epoch_factors`
                const real up = tree_up[lane], next = below != NONE ? tree_up[below] : (real)0;
                const real row_sum = tree_d[lane] - above_d[lane];
                tree_inverse = reciprocal(row_sum - up - next);
                tree_f1 = up * tree_inverse;
                tree_d[above] -= tree_f1 * row_sum;
                if (below != NONE) {
                    tree_f2 = next * tree_inverse;
                    tree_up[below] = -up * tree_f2;
                    above_d[below] += tree_f2 * row_sum;
                }
% endif
% if solves and not whole:
                g = tree_b[lane] - above_b[lane];
                tree_b[above] -= tree_f1 * g;
                if (below != NONE) above_b[below] += tree_f2 * g;
% endif
            }
            MEET();
        } while (++r < ${spec.chip.last_round});
% endif
% if I and solves:
        // solve for the late nodes (in the last rounds) by their inverse matrix; subtract from the root's b
        const real my_rest = is_late ? tree_b[lane] - above_b[lane] : (real)0;
        if (is_late) late_b[rank] = is_root ? (real)0 : my_rest;
        MEET();
        if (is_late) {
            real ${", ".join(f"part{k} = 0" for k in range(4))};
% for j in range(I):
            part${j % 4} += inverse_tree[${j * I} + rank] * late_b[${j}];
% endfor
            g = (part0 + part1) + (part2 + part3);
            if (is_root) g += my_rest;
        }
% endif
