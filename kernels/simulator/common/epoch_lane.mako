<%page args="spec"/>\
## The lane and the cell of a work-item, and where the cell's numbers begin (`mine`, from the table of units). Lanes
## after the last cell are not `present`, but reach every barrier. Kernels of `by_place` unpack the lane's segment here.
## epoch_by_node.mako unpacks it in each step, since its mechanisms need the registers.
% if spec.chip.alone:   # constants, which need no register
    const int lid = get_local_id(0), unit = 0, lane = lid;
% else:
    const int lid = get_local_id(0), unit = lid / LANES, lane = lid - unit * LANES;
% endif
% if spec.parts > 1:   # work-groups of a cell
    const int number = get_group_id(0) / ${spec.parts}, part = get_group_id(0) - number * ${spec.parts};
% else:
    const int number = get_group_id(0) * UNITS + unit;   // the cell's number in the plan
% endif
    const bool present = ${"true" if spec.chip.alone else "unit < UNITS && number < num_units"};
    // start of the values, their number, first lane, ${spec.lane_counts}, rows, rounds, cell, root slots
    const int8 mine = present ? vload8(number, units) : (int8)(0);
% if spec.by_place:
    const int counts = mine.s3;
    const bool used = lane < (${spec.lane_counts.read("lanes", "counts")});
    const int2 me = used ? vload2(mine.s2 + lane, links) : (int2)(${spec.link.write(parent="NONE")}, ${spec.at_elimination.write(round="NONE")});
    const int family = lane < (${spec.lane_counts.read("inner_lanes", "counts")}) ? children[mine.s2 + lane] : 0;
${part("simulator/common/segment_lane", 4)}\
% endif
