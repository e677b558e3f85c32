<%page args="spec"/>\
## Part of contraction.mako: write the solution from local memory to x in natural order. my_order and
## num_nodes are from load_natural.mako, out0, ... from segment_outwards.mako.
    barrier(CLK_LOCAL_MEM_FENCE);
% for start in range(0, spec.steps_of_one, spec.batch_of_one):
<%  steps = range(start, min(spec.steps_of_one, start + spec.batch_of_one)) %>\
    {
% for k in steps:
        const int k${k} = lane + ${k} * WORK_GROUP;
% if spec.ptx and k < spec.batch_of_one:
        const int to${k} = out${k};
% else:
        const int to${k} = k${k} < num_nodes ? my_order[k${k}] : 0;
% endif
% endfor
% for k in steps:
        if (k${k} < num_nodes) {
            const real value = B(${spec.place_of(k)});
            x[${spec.index(k) if spec.symmetric or spec.of_pieces else spec.index(k).replace("cell_from", "base")}] = value;
% if spec.flags_infinite:
            if (!isfinite(value)) odd = 1;
% endif
        }
% endfor
    }
% endfor
