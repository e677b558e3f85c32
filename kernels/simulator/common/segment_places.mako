<%page args="spec"/>\
## Part of epoch_by_instance.mako, epoch_constant.mako and epoch_by_node.mako: places of the nodes of a lane's segment
## (indices in the arrays by node of a cell), in the order of elimination. The arrays have the first nodes of all inner
## segments side by side, then their second ones, and so on; then likewise leaf segments, from their tips.
// places of the nodes; after the end of a segment the last place, where all values are 0 and x does not change
% for j in range(spec.segment):
const int place${j} = length > ${j} ? column + row[${j}] : CAPACITY - 1;
% endfor
% if spec.chip.whole:
const int num_eliminated = is_leaf ? length : length - 1;
% endif
