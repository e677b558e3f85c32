<%page args="spec"/>\
## Part of contraction.mako, phase `reduce`: write the rows for nodes that are not eliminated (kept):
## the reduced system.
    // kept nodes
    if (is_inner && my_round == NONE) {
        const int place = kept[kept_start[get_group_id(0)] + above];
        rest_d[place] = tree_d[lane] - above_d[lane];
        rest_b[place] = tree_b[lane] - above_b[lane];
        rest_u[place] = tree_up[lane];
% if not spec.symmetric:
        rest_l[place] = tree_low[lane];
% endif
    }
    if (lane < block.s7 - block.s6) status[cell_number[block.s6 + lane]] = 0;
