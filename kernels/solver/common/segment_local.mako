<%page args="spec"/>\
## Part of contraction.mako, step 1 with values in local memory: eliminate all nodes of a leaf segment,
## and all but the last of an inner one. The node of row j is at column + row[j]. Defines sum_d and sum_b,
## the contributions to the parent, and place, my_d, my_b, my_up, my_low of an inner segment's last node.
<%
    M, sym = spec.segment, spec.symmetric
    is_root = "parent == NONE" if spec.phase == "solve" else "whole && parent == NONE" if spec.expands else ""
    if_tied = f"{is_root} ? (real)0 : " if is_root else ""   # the first node of a piece keeps its edge
%>\
    int place = column + row[0];
    real my_up = 0;
% if not sym:
    real my_low = 0;
% endif
% if spec.eliminates:
    uint worst = 0;
    real my_d = 0, sum_d = 0, own = 1;
% else:
    real inverse = 0;   // 1 / pivot at `place`
% endif
% if spec.solves:
    real my_b = 0, sum_b = 0;
% endif
% if not spec.reduces:
% if spec.natural:
    __local real *out = &B(0);   // written to x later
% else:
    __global real *out = ${"inverses" if spec.makes else "x"} + block.s0;
% endif
% endif
    if (length) {
% if spec.eliminates:
        my_d = own = D(place);
% else:
        inverse = D(place);
% endif
% if spec.solves:
        my_b = B(place);
% endif
        my_up = ${if_tied}U(place);
% if not sym:
        my_low = ${if_tied}l[${spec.at("place")}];
% endif
    }
    if (is_inner) {
% for j in range(1, M):
        if (length > ${j}) {
            const int next = column + row[${j}];
            const real up = U(next), next_d = D(next)${", next_b = B(next)" if spec.solves else ""};
            const real low = ${"up" if sym else f"l[{spec.at('next')}]"};
% if spec.eliminates:
            const real inverse = reciprocal(my_d);
            worst = max(worst, ${spec.measure('my_d', 'own')});
% endif
            const real f1 = ${spec.lower("my_up")} * inverse, f2 = up * inverse;
% if spec.eliminates:
            sum_d += my_up * f1;
            my_d = next_d - low * f2;
            own = next_d;
% endif
% if spec.solves:
            const real g = my_b * inverse;
            sum_b += my_up * g;
            my_b = next_b - low * g;
% if not spec.reduces:
            D(place) = f1;
            U(place) = f2;
            B(place) = g;
% endif
% else:
            out[place] = inverse;
% endif
            my_up = -my_up * f2;
% if not sym:
            my_low = -low * f1;
% endif
% if spec.uses:
            inverse = next_d;
% endif
            place = next;
% endfor
        ${"}" * (M - 1)}
    } else if (length) {
% for j in range(M):
% if j:
        if (length > ${j}) {
            const int next = column + row[${j}];
            const real next_d = D(next), next_up = U(next)${", next_b = B(next)" if spec.solves else ""};
% if spec.eliminates:
            my_d = next_d - sum_d;
% if not sym:
            own = next_d;
% endif
% else:
            inverse = next_d;
% endif
% if spec.solves:
            my_b = next_b - sum_b;
% endif
            my_up = next_up;
            place = next;
% if not sym:
            my_low = l[${spec.at("next")}];
% endif
% else:
        {
% endif
% if spec.eliminates:
            const real inverse = reciprocal(my_d);
            worst = max(worst, ${spec.measure('my_d', 'own')});
% endif
            const real f = ${spec.lower("my_up")} * inverse;
% if spec.eliminates:
            sum_d = my_up * f;
% endif
% if spec.solves:
            const real g = my_b * inverse;
            sum_b = my_up * g;
% if not spec.reduces:
            D(place) = f;
            B(place) = g;
% endif
% else:
            out[place] = inverse;
% endif
% endfor
        ${"}" * M}
    }
