<%page args="spec, names, at, count, end, outside"/>\
## Read `count` nodes of a cell into registers NAME_`end`[k]. The k-th node is `at`; it is skipped if `outside`.
## codes_ are the codes of the nodes' steps, which chains do not need.
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
