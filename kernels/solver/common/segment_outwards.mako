<%page args="spec"/>\
## Part of contraction.mako, step 3: back substitution in each segment, with the factors that step 1 has
## left in B, D and U (with `direct` in the registers rhs, top and next). Node k of a lane's segment is at
## column + row[k].
##   leaf, from the root's end to the tip:         x = B - D * x_before, first the parent's x
##   inner, from the last node to the root's end:  x = B - D * top - U * x_before, first my_x of the last node
## where top is the x of the segment's parent.
<% M = spec.segment %>\
<%def name="nodes(count, inner)">\
% for j in range((count - 1) // 4 * 4, -1, -4):
<%  steps = [k for k in range(j + 3, j - 1, -1) if k < count] %>\
        if (longest > ${j + inner}) {
% for k in steps:
            const int p${k} = column + row[${k}];
            real g${k} = 0, f${k} = 0${f", e{k} = 0" if inner else ""};
            if (length > ${k + inner}) {
                g${k} = B(p${k});
                f${k} = D(p${k});
% if inner:
                e${k} = U(p${k});
% endif
            }
% endfor
% for k in steps:
            if (length > ${k + inner}) out[p${k}] = my_x = g${k} - f${k} * ${f"top - e{k} * " if inner else ""}my_x;
% endfor
        }
% endfor
</%def>\
% if spec.natural and spec.ptx and not spec.direct:
    // where store_natural finds the solution, read before the sweep
% for k in range(min(spec.steps_of_one, spec.batch_of_one)):
    const int out${k} = lane + ${k} * WORK_GROUP < num_nodes ? my_order[lane + ${k} * WORK_GROUP] : 0;
% endfor
% endif
    // the segments' nodes, four at a time, all lanes at the same row
    const real top = parent == NONE ? (real)0 : tree_b[parent];
% if spec.direct:
% for j in reversed(range(M)):
    if (${j} < longest) {
        my_x = rhs_${j} - top_${j} * top - next_${j} * my_x;
        if (${j} < length) {
            x[${spec.at(f"p{j}")}] = my_x;
% if spec.flags_infinite:
            if (!isfinite(my_x)) odd = 1;
% endif
        }
    }
% endfor
% else:
    if (is_inner) {
        out[place] = my_x;
${nodes(M - 1, 1)}\
    } else if (length) {
        my_x = top;
${nodes(M, 0)}\
    }
% endif
