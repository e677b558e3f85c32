<%page args="spec"/>\
## Part of blocks.mako: states diffuse along a block's cells, cell by cell, by the functions in
## diffusing_rows.mako: rows in round order, then in reverse order.
__global DiffusingRow *all_rows = (__global DiffusingRow *)(mem + diffusing_numbers);
for (int c = ints[diffusing_block + block]; c < ints[diffusing_block + block + 1]; c++) {
    __global const int *rounds = ints + diffusing_rounds + c * ${spec.rounds};
    for (int r = rounds[0]; r < rounds[${spec.rounds}]; r++) diffusing_row(r, dt, all_rows, mem, ints, at);
    for (int r = rounds[1]; r < rounds[${spec.rounds}]; r++) diffusing_out(r, all_rows, mem, ints, at);
    for (int r = rounds[${spec.rounds - 1}] - 1; r >= rounds[0]; r--) diffusing_back(r, all_rows, mem, ints, at);
}
