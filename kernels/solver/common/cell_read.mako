<%page args="spec, names, at, count, end, outside"/>\
## Part of cell.mako: read the arrays `names` and the step codes of `count` nodes into the registers of
## cell_room.mako. `at` is the expression for the k-th node, which is skipped if `outside`.
        __attribute__((opencl_unroll_hint))
        for (int k = 0; k < ${count}; ++k) {
            const int at = ${at};
            if (${outside}) continue;
            const int place = start + at * stride;
% if not spec.chains:
            codes_${end}[k] = ${spec.code};
% endif
% for n in names:
% if n == "b":
            for (int r = 0; r < RHS; ++r) b_${end}[k][r] = load(b, place + (long)r * num_values);
% elif n == "x":
            for (int r = 0; r < RHS; ++r) {
                const long shift = (long)r * num_values;
                x_${end}[k][r] = ${spec.rhs_of("at", "place")};
            }
% else:
            ${n}_${end}[k] = load(${"factor" if n == "f" else n}, place);
% endif
% endfor
        }
