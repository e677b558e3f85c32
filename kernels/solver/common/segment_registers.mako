<%page args="spec"/>\
## Part of contraction.mako, step 1 with values in registers; see segment_local.mako.
<% M, sym = spec.segment, spec.symmetric %>\
    // Node j's registers, in elimination order: top, rhs, next, back are first its d, b, u and l, then
    // the coefficients of x = rhs - top * (the parent's x) - next * (the next node's x).
    // After the last eliminated node top = rhs = 0 and next = -1, so that x does not change.
    const int eliminated = is_leaf ? length : length - 1;
    real my_d = 0, sum_d = 0, my_b = 0, sum_b = 0, my_up = 0, less_d = 0, less_b = 0, own = 1;
% if not sym:
    real my_low = 0;
% endif
    uint worst = 0;
% for j in range(M):
    real top_${j} = 0, rhs_${j} = 0, next_${j} = -1${"" if sym else f", back_{j} = 0"};
% endfor
% for j in range(M):
    const int p${j} = column + row[${j}];
    if (${j} < length) {
        const int here = ${spec.at(f"p{j}")};
        top_${j} = d[here];
        rhs_${j} = b[here];
        next_${j} = u[here];
% if not sym:
        back_${j} = l[here];
% endif
    }
% endfor
    // the edge to the segment's parent is at an inner segment's first node, at a leaf's last node
    if (is_inner && parent != NONE) {
        my_up = next_0;
% if not sym:
        my_low = back_0;
% endif
    }
% for j in range(M):
    if (${j} < longest) {
        const bool goes = ${j} < eliminated, ends = is_leaf && length == ${j + 1};
        const real pivot = top_${j} - less_d, right = rhs_${j} - less_b;
<%      after = j + 1 if j + 1 < M else None %>\
        const real from_next = ${f"next_{after}" if after else "(real)0"};
% if sym:
        const real tie = ends ? (real)0 : is_leaf ? next_${j} : from_next, tie_back = tie;
        my_up = ends && parent != NONE ? next_${j} : my_up;
        const real low = my_up;
% else:
        const real tie = ends ? (real)0 : is_leaf ? back_${j} : from_next;
        const real tie_back = ends ? (real)0 : is_leaf ? next_${j} : ${f"back_{after}" if after else "(real)0"};
        my_up = ends && parent != NONE ? next_${j} : my_up;
        my_low = ends && parent != NONE ? back_${j} : my_low;
        const real low = my_low;
% endif
        if (${j} < length) {
            my_d = pivot;
            my_b = right;
            own = top_${j};
        }
        const real inverse = reciprocal(pivot);
        if (goes) worst = max(worst, ${spec.measure("pivot", f"top_{j}")});
        top_${j} = goes ? low * inverse : (real)0;
        rhs_${j} = goes ? right * inverse : (real)0;
        next_${j} = goes ? tie * inverse : (real)-1;
        if (goes) {
            sum_d += my_up * top_${j};
            sum_b += my_up * rhs_${j};
            less_d = tie_back * next_${j};
            less_b = tie_back * rhs_${j};
% if not sym:
            my_low = -tie_back * top_${j};
% endif
            my_up = -my_up * next_${j};
        }
    }
% endfor
