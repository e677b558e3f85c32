<%page args="spec, kind"/>\
## Part of instances_step.mako and instances_end.mako: record instance j of `kind` (phase 9 in the step before).
{
    const int owner = ints[owner_${kind.number}] + j, first_row = mem_first[owner], end_row = mem_first[owner + 1];
    if (first_row < end_row) {
% for name in kind.states:
        ${kind.places.state(name)} = s_${name};
% endfor
        for (int r = first_row; r < end_row; r++)
            mem_rows[(long)(record_row + step - 1 - first_step) * num_mem + mem_column[r]] = mem[mem_index[r]];
    }
}
