<%page args="spec"/>\
## Part of epoch_by_instance.mako, epoch_constant.mako and epoch_by_node.mako: back substitution, in two parts.
## Segments are drawn in epoch_title.mako; x is the change in v, or v itself with constant factors.
## 1. The last nodes of all segments, in reverse elimination order. `above` and `below` are the lanes of a last node's
##    parent and child in the contracted tree when it was eliminated. From their x it gets its own,
##        x = g * tree_inverse - tree_f1 * (above's x) - tree_f2 * (below's x),
##    with g its right-hand side, tree_inverse 1 / pivot, and tree_f1 and tree_f2 the matrix entries with above and
##    below over the pivot, all from segment_rounds.mako. tree_b has its right-hand side before, its x after. `child`
##    is `below`, or a lane that may be read where there is none.
## 2. Each segment by one lane, from its last node to its first: x_j = a_j - w_j * top - e_j * x_(j+1), with the
##    parent's x as top. The change is added to V; with constant factors x stays in the registers a.
% if spec.chip.tree_rounds:
        do {
            --r;
            if (my_round == r) {
% if spec.chip.whole:
                const real above_x = tree_b[above], below_x = below != NONE ? tree_b[child] : (real)0;
                my_x = g * tree_inverse - tree_f1 * above_x - tree_f2 * below_x;
% else:
                my_x = g * tree_inverse - tree_f1 * tree_b[above];
                if (below != NONE) my_x -= tree_f2 * tree_b[below];
% endif
                tree_b[lane] = my_x;
            }
            MEET();
        } while (r > 0);
% endif

        // phase 5: voltages; segments, from their last nodes to the first
        const real top = parent == NONE ? (real)0 : tree_b[parent];
        real x = my_x;
% for j in reversed(range(spec.segment)):
% if spec.constant:
        x = a${j} * INVERSE(place${j}) - F1(place${j}) * top - e${j} * x;
        a${j} = ${f"2 * x - v{j}" if spec.secondorder else "x"};
% else:
        x = a${j} - w${j} * top - e${j} * x;
        if (length > ${j}) V(place${j}) += ${"2 * x" if spec.secondorder else "x"};
% if spec.by_node and spec.arena.ions and spec.arena.second_order_currents:   # which takes currents of ions to the middle of the step
        if (length > ${j}) A(place${j}) = x;
% endif
% endif
% endfor
