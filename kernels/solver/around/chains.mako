<%page args="spec"/>\
// Convert tridiagonal systems in LAPACK's form to Hines matrices whose cells are chains: row i is a
// node with the parent i - 1. Rows with d < 0 are multiplied by -1.
// spec: ${spec}
${part("solver/common/precision")}\

// Read the diagonals dl, d, du; write the matrix low (l), main (d), up (u), and each row's sign, -1 or
// 1. Outputs have n values, one per row of all systems; a work-item converts row i. Inputs have
// num_low, num_main and num_up values; shorter ones are repeated. An inner row is not its system's
// first: inner[i] counts the inner rows before row i, or is -1 for a first row. If low_inner or
// up_inner is set, dl or du only has values for inner rows.
__kernel void matrix(${signature(spec, "matrix")})
{
    const int i = get_global_id(0);
    if (i >= n) return;
    const int at = inner[i];
    const real one = d[i % num_main];
    const real own = one < 0 ? (real)-1 : (real)1;
    sign[i] = own;
    main[i] = own * one;
    real below = 0, above = 0;
    if (at >= 0) {
        below = own * dl[(low_inner ? at : i) % num_low];
        above = du[(up_inner ? at : i - 1) % num_up];
        if (d[(i - 1) % num_main] < 0) above = -above;
    }
    low[i] = below;
    up[i] = above;
}

// Write out = sign * b for right-hand sides or solutions; a work-item does row i of one right-hand
// side, get_global_id(1). next_row and next_value are b's strides, to_row and to_value are out's, to
// the next right-hand side and to the next row. b has `period` rows, and repeats up to n.
__kernel void rows(${signature(spec, "rows")})
{
    const long i = get_global_id(0), row = get_global_id(1);
    if (i >= n) return;
    out[row * to_row + i * to_value] = sign[i] * b[row * next_row + i % period * next_value];
}
