<%page args="spec"/>\
## Part of epoch_functions.mako: interpolation in rate function tables: a row number with a fraction, and loads of
## two or four numbers of a row at once. A row's numbers are side by side, at a multiple of their size.
typedef ${spec.real}2 real2;
typedef ${spec.real}4 real4;

// where a table is looked up: the row before, and the fraction from it to the next row; NaN stays NaN
typedef struct { int row; real share; } node_row_;

// find where a table is looked up at xi, in units of rows; n is the last row
static node_row_ node_row_of_(const real xi, const int n)
{
    const real place = xi <= 0 ? 0 : (xi >= n ? (real)n : xi);
    node_row_ at;
    at.row = max(0, min((int)place, n - 1));
    at.share = place - at.row;
    return at;
}

static real node_between_(const real share, const real low, const real high)
{
    return low + share * (high - low);
}

// load numbers from a table row; no kernel writes tables
static real node_load1_(__global const real *row) { return *row; }

% if spec.ptx:
<% letter, bits = ("d", 64) if spec.real == "double" else ("f", 32) %>\
static real2 node_load2_(__global const real *row)
{
    real2 x;
    __asm__("ld.global.nc.v2.f${bits} {%0, %1}, [%2];" : "=${letter}"(x.s0), "=${letter}"(x.s1) : "l"(row));
    return x;
}

static real4 node_load4_(__global const real *row)
{
% if bits == 64:
    return (real4)(node_load2_(row), node_load2_(row + 2));
% else:
    real4 x;
    __asm__("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
            : "=f"(x.s0), "=f"(x.s1), "=f"(x.s2), "=f"(x.s3) : "l"(row));
    return x;
% endif
}
% else:
static real2 node_load2_(__global const real *row) { return vload2(0, row); }

static real4 node_load4_(__global const real *row) { return vload4(0, row); }
% endif

