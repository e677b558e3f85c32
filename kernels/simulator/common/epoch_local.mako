<%page args="spec"/>\
<%
    M, I = spec.segment, spec.dense   # nodes of a segment; of the tree's last part, solved by its inverse
    held, tree = len(spec.chip.held), 4 if spec.chip.eliminates else 2
%>\
## Part of the epoch_*.mako templates: declare and read the values that stay on the chip during a launch. Ends with a
## barrier.
## - arrays by node for each cell (`held`; in global memory if a cell is too large)
## - row_start: where the j-th nodes of all segments begin in these arrays
## - arrays by lane for the tree of segments; with `dense`, the lanes in the tree's last rounds get ranks and their
##   inverse matrix
    // cells' values that stay on the chip during the launch
% if not spec.far:
    __local real all_held[UNITS * ${held} * CAPACITY];
% endif
    __local int row_start[UNITS * ${2 * M}];
% if spec.potentials:   # sums of last columns, twice, their ties, and mailboxes
    __local real all_tree[UNITS * ${spec.chip.column_reals} * LANES];
% else:
    __local real all_tree[UNITS * ${tree} * LANES], all_lost[UNITS * LANES];
% endif
% if spec.chip.eliminates and not spec.potentials:
    __local real all_lost_d[UNITS * LANES], all_tree_up[UNITS * LANES];
% endif
    const int at = ${"0" if spec.chip.alone else "min(unit, UNITS - 1)"};
% if spec.far:   # the cells exceed local memory
    __global real *held = far_held + (long)${'get_group_id(0)' if spec.parts > 1 else 'number'} * ${held} * CAPACITY;
% else:
    __local real *held = all_held + at * ${held} * CAPACITY;
% endif
    __local int *rows_here = row_start + at * ${2 * M};
% if spec.potentials:
    __local real *tree = all_tree + at * ${spec.chip.column_reals} * LANES;
% else:
    __local real *tree_b = all_tree + at * ${tree} * LANES;
    __local real *above_b = tree_b + LANES;
    __local real *lost_b = all_lost + at * LANES;
% endif
% if spec.diffusing_rows:
    __local DiffusingRow all_diffusing[UNITS * ${spec.diffusing_rows}], *diffusing = all_diffusing + at * ${spec.diffusing_rows};
% endif
% if I:
    // the tree's late nodes, ranked by lane: nodes in rounds from ${spec.before} on, and the root
    const bool is_late = is_inner && my_round >= ${spec.before};
    __local int all_late[UNITS * LANES], root_rank[UNITS];
    if (unit < UNITS) all_late[lid] = is_late;
    barrier(CLK_LOCAL_MEM_FENCE);
    int rank = 0;
    for (int k = 0; is_late && k < lane; ++k) rank += all_late[unit * LANES + k];
    if (is_root) root_rank[at] = rank;
% endif
% if I and spec.advances:
    __local real all_inverse_tree[UNITS * ${I * I}], all_late_b[UNITS * ${I}], root_x[UNITS];
    __local real *inverse_tree = all_inverse_tree + at * ${I * I}, *late_b = all_late_b + at * ${I};
    for (int k = lane; present && k < ${I * I}; k += LANES)
        inverse_tree[k] = tree_inverses[(long)number * ${I * I} + k];
    for (int k = lane; present && k < ${I}; k += LANES) late_b[k] = 0;
% endif
% if spec.chip.eliminates and not spec.potentials:
    __local real *tree_d = above_b + LANES, *above_d = tree_d + LANES;
    __local real *lost_d = all_lost_d + at * LANES, *tree_up = all_tree_up + at * LANES;
% endif
    for (int k = lane; present && k < ${2 * M}; k += LANES) rows_here[k] = rows[mine.s4 + k];
    for (int k = lane; present && k < ${"CAPACITY" if spec.advances else "mine.s1"}; k += LANES) {
% for name in spec.chip.held:
        ${name.upper()}(k) = ${spec.chip.begin_of(name)};
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE${" | CLK_GLOBAL_MEM_FENCE" if spec.far else ""});

