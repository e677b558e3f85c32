<%page args="spec"/>\
## Part of epoch_by_instance.mako and epoch_by_node.mako: eliminate the segments (drawn in
## epoch_title.mako) towards their last nodes, in registers:
## all nodes in a leaf segment, all but an inner one's last. a, w and e get the coefficients of
##     x[j] = a[j] - w[j] * (the parent's x) - e[j] * (the next node's x),
## my_d, my_b and my_up the last node's row, sum_d and sum_b the contribution to the parent. After the end of
## a segment a = w = 0 and e = -1: x is passed on. Reads d, b, v and ties at all nodes in the cell. x is the change
## in v, so currents between neighbours follow from differences of v.
<% M = spec.segment %>\

        // phase 4: solve; segments, towards their last nodes
        // current from the parent
        real sum_b = my_tie * (V(tied_place) - V(top_place)), my_b = 0;
% if spec.by_node:
        if (used) A(tied_place) += sum_b;
% endif
        real sum_d = 0, my_d = 1, my_up = is_leaf ? (real)0 : my_tie;
        real less_d = 0;
        real less_b = 0;
        real old_root = 0;
        // the nodes' d and b before the elimination
% for j in range(M):
% if spec.by_node:
        w${j} = W(place${j});
        a${j} = A(place${j});
% else:
        w${j} = D(place${j});
        a${j} = ${f"K(place{j}) - G(place{j}) * V(place{j}) + " if spec.inflow else ""}(tied == ${j} ? sum_b : 0);
% endif
% if spec.has_slots:
        w${j} += slot_g[${spec.slot_run.read("first", f"s{j}")}];
        a${j} += slot_h[${spec.slot_run.read("first", f"s{j}")}];
% endif
% endfor
% if spec.has_slots:
        if (has_more) {
% for j in range(M):
            for (int q = (${spec.slot_run.read("first", f"s{j}")}) + 1, end = q - 1 + (${spec.slot_run.read("number", f"s{j}")}); q < end; ++q) {
                w${j} += slot_g[q];
                a${j} += slot_h[q];
            }
% endfor
        }
% endif
        old_root = V(place0);
% for j in range(M):
        {   // from the last node on x is only passed on
            const bool goes = ${j} < num_eliminated;
            const real tie = ${f"length > {j} ? tie_of[place{j}] : (real)0" if spec.by_node else f"TIE(place{j})"};
% if j + 1 < M:   # the last node's tie is 0
            const real flow = tie * (V(place${j}) - V(place${j + 1}));
            const real d = w${j} - less_d, b = a${j} + flow - less_b;
% else:
            const real d = w${j} - less_d, b = a${j} - less_b;
% endif
            my_d = length > ${j} ? d : my_d;
            my_b = length > ${j} ? b : my_b;
            my_up = is_leaf && length == ${j + 1} ? my_tie : my_up;
% if spec.ptx and spec.real == "double":   # as `reciprocal`; the next pivot waits for no product
            real y;
            __asm__("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(d));
            const real rest = fma(-d, y, (real)1), more = fma(rest, rest, rest), square = tie * tie * y;
            const real up = goes ? my_up : (real)0, inverse = goes ? fma(y, more, y) : (real)0;
            less_d = fma(square, more, square);
% else:
            const real up = goes ? my_up : (real)0, inverse = goes ? reciprocal(d) : (real)0;
% endif
            const real f1 = up * inverse, f2 = tie * inverse;
            sum_d += up * f1;
            sum_b += f1 * b;
% if not (spec.ptx and spec.real == "double"):
            less_d = tie * f2;
% endif
            less_b = f2 * b${" + flow" if j + 1 < M else ""};
            my_up = goes ? -f2 * my_up : my_up;   // not -my_up * f2, which Intel's optimiser compiles wrongly
            a${j} = b * inverse;
            w${j} = f1;
            e${j} = goes ? f2 : (real)-1;
        }
% endfor
