<%page args="spec"/>\
## Part of the epoch_*.mako templates: a work-item's lane and cell, and where the cell's values begin: `mine`, its row
## in the table `units`. epoch_title.mako describes mine.s0 to mine.s7, and the lane's packed words from the tables
## `links` (`me`) and `children` (`family`). Lanes after the last cell are not `present`, but reach every barrier. If
## the kernel advances instance by instance (`by_place`), the lane's segment is unpacked here; epoch_by_node.mako does
## so in each step, since its mechanisms need registers.
% for name in spec.of_launch if spec.advances else ():
    const int ${name} = launch.${name};
% endfor
% for name in spec.joined:
    __global const int *restrict ${name} = tables + begins.${name};
% endfor
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
    const int8 mine = present ? vload8(number, units) : (int8)(0);
% if spec.by_place:
    const int counts = mine.s3;
    const bool used = lane < (${spec.lane_counts.read("lanes", "counts")});
    const int2 me = used ? vload2(mine.s2 + lane, links) : (int2)(${spec.link.write(parent="NONE")}, ${spec.at_elimination.write(round="NONE")});
    const int family = lane < (${spec.lane_counts.read("inner_lanes", "counts")}) ? children[mine.s2 + lane] : 0;
${part("simulator/common/segment_lane", 4)}\
% endif
