<%page args="spec"/>\
## Places of the nodes of a lane's segment, in the order of elimination: inner segments side by side, row by row,
## then leaf segments.
// places of the nodes; after the end of a segment the last place, where all values are 0 and x is unchanged
% for j in range(spec.segment):
const int place${j} = length > ${j} ? column + row[${j}] : CAPACITY - 1;
% endfor
% if spec.chip.whole:
const int num_eliminated = is_leaf ? length : length - 1;
% endif
