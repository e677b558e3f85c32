<%page args="spec"/>\
## Part of cell.mako, forward sweep: solve node `at`, whose values have the index `place`. `above` has x of node at - 1.
% if not spec.chains:
            const int up = start + parent * stride;
% endif
            for (int r = 0; r < RHS; ++r) {
                const long shift = (long)r * num_values;
% if not spec.chains:
                if (parent != at - 1) above[lane][r] = ${spec.rhs_of("parent", "up")};
% endif
                above[lane][r] = ${"x_read[k][r]" if spec.nodes_ahead > 1 else spec.rhs_of("at", "place")} - f * above[lane][r];
% if spec.rhs_local:
                ${spec.keep_rhs("at", "place", "above[lane][r]")}
% endif
                store(x, place + shift, above[lane][r]);
            }
