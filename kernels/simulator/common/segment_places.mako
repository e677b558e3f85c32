<%page args="spec"/>\
## Part of epoch_by_instance.mako, epoch_constant.mako and epoch_by_node.mako: a lane's segment's node places
## (indices in a cell's arrays by node), in elimination order. The arrays have the first nodes of all inner
## segments side by side, then their second ones, and so on; then likewise leaf segments, from their tips.
// the nodes' places; after a segment's end the last place, where all values are 0 and x does not change
% for j in range(spec.segment):
const int place${j} = length > ${j} ? column + row[${j}] : CAPACITY - 1;
% endfor
% if spec.chip.whole:
const int num_eliminated = is_leaf ? length : length - 1;
% endif
