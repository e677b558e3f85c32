<%page args="spec"/>\
## Part of cell.mako, backward sweep: eliminate node `at`, whose values have the index `place`.
##   sum_d, sum_b   in: contributions from node at + 1, if it is a child; out: to the parent
##   waiting        other children have left this node's d and b, less their contributions, in factor and x
##   first          this node is the first child to do so for its parent
##   factor, x      out: l (u if symmetric) and b, both divided by the pivot
##   bad, grown     out: 1 + a node with a bad pivot, or with lost digits
% if not spec.chains:
            const int parent = ${spec.step.read("parent", "code")}, waiting = ${spec.step.read("waiting", "code")}, first = ${spec.step.read("first", "code")};
            const int up = start + parent * stride;
% endif
% if spec.chains:
            const value before = ${spec.value_of("d")};
% elif spec.nodes_ahead > 1:
            const value before = waiting ? load(factor, place) : d_read[k];
% else:
            const value before = load(waiting ? factor : d, place);
% endif
            const value pivot = before - sum_d[lane];
            const value inverse = (real)1 / pivot;
            const value coupling = at ? ${spec.value_of("u")} : (value)(0);
% if spec.symmetric:
            const value f = coupling * inverse;
% else:
            const value f = (at ? ${spec.value_of("l")} : (value)(0)) * inverse;
% endif
            store(factor, place, f);
            sum_d[lane] = coupling * f;
            for (int r = 0; r < RHS; ++r) {
                const long shift = (long)r * num_values;
% if spec.chains:
                const value right = ${spec.value_of("b")};
% elif spec.nodes_ahead > 1:
                const value right = waiting ? ${spec.rhs_of("at", "place")} : b_read[k][r];
% elif spec.rhs_local:
                const value right = waiting ? ${spec.rhs_of("at", "place")} : load(b, place + shift);
% else:
                const value right = load(waiting ? x : b, place + shift);
% endif
                const value g = (right - sum_b[lane][r]) * inverse;
                ${spec.keep_rhs("at", "place", "g")}
                sum_b[lane][r] = coupling * g;
            }
% if spec.vector > 1:
            const ${spec.mask} wrong = ~((pivot > (real)SMALLEST) & (pivot < (real)LARGEST));
            bad[lane] = (wrong & (bad[lane] == 0)) ? (${spec.mask})(at + 1) : bad[lane];
% if not spec.symmetric:
            grown[lane] = pivot < GROWTH * before ? grown[lane] : (${spec.mask})(at + 1);
% endif
% else:
% if spec.symmetric:
            if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST) && bad[lane] == 0)
                bad[lane] = at + 1;
% else:
            if (!(pivot > (real)SMALLEST && pivot < GROWTH * before && pivot < (real)LARGEST)) {   // rare
                if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST)) {
                    if (bad[lane] == 0) bad[lane] = at + 1;
                } else if (pivot > GROWTH * fabs(before)) {
                    grown[lane] = at + 1;
                }
            }
% endif
% endif
% if not spec.chains:

            if (parent != at - 1) {
                const value its_d = load(first ? d : factor, up);
                store(factor, up, its_d - sum_d[lane]);
% if not spec.symmetric and spec.vector > 1:
                grown[lane] = fabs(sum_d[lane]) > GROWTH * fabs(its_d) ? (${spec.mask})(parent + 1) : grown[lane];
% elif not spec.symmetric:
                if (fabs(sum_d[lane]) > GROWTH * fabs(its_d)) grown[lane] = parent + 1;
% endif
                sum_d[lane] = 0;
                for (int r = 0; r < RHS; ++r) {
                    const long shift = (long)r * num_values;
% if spec.rhs_local:
                    const value right = first ? load(b, up + shift) : ${spec.rhs_of("parent", "up")};
% else:
                    const value right = load(first ? b : x, up + shift);
% endif
                    ${spec.keep_rhs("parent", "up", "right - sum_b[lane][r]")}
                    sum_b[lane][r] = 0;
                }
            }
% endif
