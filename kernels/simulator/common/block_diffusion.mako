<%page args="spec"/>\
## What diffuses along the cells of a block, row by row: children come after their parents.
{
    const int first_row = ints[diffusing_block + block], last_row = ints[diffusing_block + block + 1] - 1;
    for (int r = first_row; r <= last_row; r++) diffusing_row(r, dt, mem, ints, at);
    for (int r = last_row; r >= first_row; r--) diffusing_out(r, mem, ints, at);
    for (int r = first_row; r <= last_row; r++) diffusing_back(r, mem, ints, at);
}
