<%page args="spec"/>\
## Places of the nodes of a lane's segment, in the order of elimination; of inner segments side by side by
## row, then of leaf segments.
// places of the nodes; past the end of a segment the last place, where all is 0 and x stays
% for j in range(spec.segment):
const int place${j} = length > ${j} ? column + row[${j}] : CAPACITY - 1;
% endfor
% if spec.chip.whole:
const int num_eliminated = is_leaf ? length : length - 1;
% endif
