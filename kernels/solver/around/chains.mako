<%page args="spec"/>\
// Convert tridiagonal systems in LAPACK's form to Hines matrices of chains; negate rows with d < 0.
// spec: ${spec}
${part("solver/common/precision")}\

// A work-item converts row i of all n rows: from dl, d, du to low, main, up, and its sign, -1 or 1.
// inner[i] is the number of rows before i that are not the first of their system, -1 for first rows.
// With low_inner or up_inner, dl or du only has values for inner rows. num_low, num_main and num_up
// are the lengths of dl, d and du; shorter arrays are repeated.
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

// Multiply right-hand sides or solutions b by the signs, to out; a work-item does one value. Index
// get_global_id(1) is the right-hand side; to_row, to_value, next_row and next_value are strides.
__kernel void rows(${signature(spec, "rows")})
{
    const long i = get_global_id(0), row = get_global_id(1);
    if (i >= n) return;
    out[row * to_row + i * to_value] = sign[i] * b[row * next_row + i % period * next_value];
}
