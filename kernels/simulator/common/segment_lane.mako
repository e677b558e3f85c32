<%page args="spec"/>\
## Part of epoch_lane.mako and epoch_by_node.mako: unpack a lane's segment from `counts` and `me`: its
## length, its parent's lane, the mailbox for its contribution to the parent, its round, and the lanes above and
## below it at its elimination. Inner segments have a cell's first lanes and form its tree; leaf segments have the
## other lanes.
const int inner = ${spec.lane_counts.read("inner_lanes", "counts")};
const bool is_inner = lane < inner, is_leaf = used && !is_inner;
const int length = ${spec.link.read("length", "me.x")};
const int parent = ${spec.link.read("parent", "me.x", "NONE")}, mailbox = ${spec.link.read("mailbox", "me.x", "NONE")};
const int my_round = is_inner ? ${spec.at_elimination.read("round", "me.y", "NONE")} : NONE - 1;
const int above = ${spec.at_elimination.read("parent", "me.y", "NONE")}, below = is_inner ? ${spec.at_elimination.read("child", "me.y", "NONE")} : NONE;
const bool is_root = is_inner && my_round == NONE;
% if spec.chip.whole:
const int child = below != NONE ? below : 0;   // valid to read
% endif
