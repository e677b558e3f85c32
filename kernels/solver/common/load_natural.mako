<%page args="spec"/>\
## Part of contraction.mako: copy a block's values in natural order into local memory, in
## device order. Defines num_nodes and my_order, which store_natural.mako needs.
<% sym = spec.symmetric %>\
    // my_order[k], for the block's value k in natural order: ${"its index in device order" if spec.of_pieces else spec.order}
    __global const int *my_order = order + order_start[2 * get_group_id(0)];
% if spec.reorders_cells:
    __global const int *base = cell_base + block.s6;   // per cell: value k's natural index, minus k
% endif
    const int num_nodes = order_start[2 * get_group_id(0) + 1];
% if not spec.reorders_cells:
% if not sym:
    __local real tree_low[WORK_GROUP];
% endif
% else:
    // these reads overlap with reads from `order`
% if sym:
    __local int cell_from[WORK_GROUP];
% else:
    __local real tree_low[WORK_GROUP];
    __local int *cell_from = (__local int *)tree_low;   // tree_low is used later
% endif
    if (lane < block.s7 - block.s6) cell_from[lane] = base[lane];
% endif
% for start in range(0, spec.steps_of_one, spec.batch_of_one):
<%  steps = range(start, min(spec.steps_of_one, start + spec.batch_of_one)) %>\
    {
% for k in steps:
        const int k${k} = lane + ${k} * WORK_GROUP, to${k} = k${k} < num_nodes ? my_order[k${k}] : 0;
% endfor
% if not start and spec.reorders_cells:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
% for k in steps:
        const int from${k} = ${f"k{k} < num_nodes ? {spec.index(k)} : 0" if spec.of_pieces else spec.index(k)};
% endfor
% if not spec.ptx:
        real ${", ".join(f"{a}{k}" for a in spec.local_arrays for k in steps)};
% for k in steps:
        if (k${k} < num_nodes) {
% for a in spec.local_arrays:
            ${a}${k} = ${a}[from${k}];
% endfor
        }
% endfor
% endif
% for k in steps:
        if (k${k} < num_nodes) {
% for a in spec.local_arrays:
% if spec.ptx:
            copy_value(&${a.upper()}(${spec.place_of(k)}), ${a} + from${k});
% else:
            ${a.upper()}(${spec.place_of(k)}) = ${a}${k};
% endif
% endfor
        }
% endfor
    }
% endfor
