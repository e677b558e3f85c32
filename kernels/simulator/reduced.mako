<%page args="spec"/>\
// Reduce recorded values to selected rows, membrane currents, linear combinations, extremes, sums or crossings.
// A row of `values` has one step's values: row r begins at entry r * stride + column. Rows first, first + every,
// ... are used, `rows` in number. `kept` gets `width` results for each row, or for all rows. Results do not depend on
// how a run is divided into launches.
// spec: ${spec}
% if "double" in (spec.real, spec.wide):
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
#pragma OPENCL FP_CONTRACT OFF

typedef ${spec.real} real;
typedef ${spec.wide} wide;
% if spec.ptx:
typedef ${spec.real}2 real2;
% endif

// Add by Neumaier's compensated sum; the total is sum + lost.
static void add(real *sum, real *lost, const real value)
{
    const real total = *sum + value;
    *lost += fabs(*sum) >= fabs(value) ? (*sum - total) + value : (value - total) + *sum;
    *sum = total;
}

// Copy the rows that are used. A work-item copies one value.
__kernel void some_rows(${signature(spec, "some_rows")})
{
    const int j = get_global_id(0), r = get_global_id(1);
    if (j < width) kept[(long)r * width + j] = values[(long)(first + r * every) * stride + column + j];
}

// Membrane current of node j: the sum over neighbours of g * (the neighbour's v - node j's v), plus the
// currents from its electrodes. Its neighbours are entries begin[j] to begin[j + 1] in `other` and `own`, columns of
// voltages, and of `g`, uS; its electrodes are entries clamp_begin[j] to clamp_begin[j + 1] in `clamp`, columns of
// `clamps`, which has num_clamps in a row, nA. A work-item computes one current.
__kernel void membrane(${signature(spec, "membrane")})
{
    const int j = get_global_id(0), r = get_global_id(1);
    if (j >= width) return;
    __global const real *v = values + (long)(first + r * every) * stride + column;
    real sum = 0;
    for (int q = begin[j]; q < begin[j + 1]; q++) sum += g[q] * (v[other[q]] - v[own[q]]);
    for (int q = clamp_begin[j]; q < clamp_begin[j + 1]; q++) sum += clamps[(long)r * num_clamps + clamp[q]];
    kept[(long)r * width + j] = sum;
}

// Combination j is the sum over k: weight (k, j) * value k. The terms k are divided into parts: different work-groups
// add up different parts, and add_parts adds these sums. `parts` has the sums, part by part, row by row, from part
// first_part on. Products are summed in ${spec.wide}${", compensated" if spec.compensated else ""}.
% if spec.ptx:
<%
blocks, rows_of_8, halves = range(spec.lanes // 16), range(spec.tile // 8), range(2)
%>\
// A warp computes ${spec.lanes} combinations for ${spec.tile} rows by NVIDIA's matrix instruction for 16 combinations and 8 rows,
// 8 terms at a time. Lane 4 g + t has weights for combinations g and g + 8, and row g's values, for terms 2 t and
// 2 t + 1; it gets sums for combinations g and g + 8 in rows 2 t and 2 t + 1. `matrix` has, for each 8 terms and 16
// combinations, all lanes' weights for their first terms, then for the second ones. A work-group has warps for
// `across` combination columns, which read the same values, times warps for further rows, which read the same
// matrix. The matrix is filled up with 0 to multiples of 8 terms and 16 combinations.
__kernel void combine(${signature(spec, "combine")})
{
    const int lane = get_local_id(0) % ${spec.items}, warp = get_local_id(0) / ${spec.items}, g = lane / 4, t = lane % 4;
    const int deep = get_local_size(0) / (${spec.items} * across);
    const int j = (get_group_id(0) * across + warp % across) * ${spec.lanes};
    const int tiles = (rows + ${spec.tile} * deep - 1) / (${spec.tile} * deep);
    const int part = get_global_id(1) / tiles;
    const int row = ((get_global_id(1) - part * tiles) * deep + warp / across) * ${spec.tile};
    if (j >= padded || row >= rows) return;
    const int begin = part * ${spec.part}, end = min(terms, begin + ${spec.part});
    __global const double2 *weights = (__global const double2 *)matrix + (long)begin * padded / 2 + 4 * j + lane;
% for r in rows_of_8:
    // rows beyond the last one are computed as the last one
    __global const real *value${r} = values + (long)(first + min(row + ${8 * r} + g, rows - 1) * every) * stride + column + 2 * t;
    double ${", ".join(f"sum{e}_{r}_{n} = 0" for e in blocks for n in range(4))};
% endfor
<%def name="add_eight()">\
% for e in blocks:
        if (j + ${16 * e} < padded) {
            const double2 a${e} = weights[${64 * e}], b${e} = weights[${64 * e + spec.items}];
% for r in rows_of_8:
<% sums = [f"sum{e}_{r}_{n}" for n in range(4)] %>\
            __asm__ volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : ${", ".join(f'"+d"({name})' for name in sums)}
                : "d"(a${e}.x), "d"(a${e}.y), "d"(b${e}.x), "d"(b${e}.y), "d"((double)pair${r}.x), "d"((double)pair${r}.y));
% endfor
        }
% endfor
</%def>\
    int k = begin;
#pragma unroll 1
    for (; k + 8 <= end; k += 8, weights += 4 * padded) {
% for r in rows_of_8:
        const real2 pair${r} = ${f"*(__global const real2 *)(value{r} + k)" if spec.pairs else f"(real2)(value{r}[k], value{r}[k + 1])"};
% endfor
${add_eight()}\
    }
    if (k < end) {
        const int left = end - k - 2 * t;
% for r in rows_of_8:
        const real2 pair${r} = (real2)(left > 0 ? value${r}[k] : 0, left > 1 ? value${r}[k + 1] : 0);
% endfor
${add_eight()}\
    }
    __global wide *to = parts + ((long)(first_part + part) * rows + row + 2 * t) * padded + j + g;
% for e in blocks:
    if (j + ${16 * e} < padded) {
% for r in rows_of_8:
% for n in halves:
        if (row + ${8 * r + n} + 2 * t < rows) {
% for h in halves:
            to[${8 * r + n} * padded + ${16 * e + 8 * h}] = sum${e}_${r}_${2 * h + n};
% endfor
        }
% endfor
% endfor
    }
% endfor
}

% else:
<%
several, n = spec.lanes > 1, str(spec.lanes)
lane = spec.wide + n if several else "wide"
entry = "matrix[(long)k * padded + j]"
weights = f"*(__global const {lane} *)(&{entry})" if several else entry
lost = spec.compensated
%>\
// A work-item computes ${spec.lanes} combinations for ${spec.tile} rows. A work-group has work-items for `across` columns of
// combinations, which read the same values, times `deep` rows, which read the same matrix. Weight (k, j) is
// matrix[k * padded + j].
__kernel void combine(${signature(spec, "combine")})
{
    const int lid = get_local_id(0), deep = get_local_size(0) / across, line = lid / across;
    const int j = (get_group_id(0) * across + lid - line * across) * ${spec.lanes};
    const int tiles = (rows + ${spec.tile} * deep - 1) / (${spec.tile} * deep);
    const int part = get_global_id(1) / tiles;
    const int row = ((get_global_id(1) - part * tiles) * deep + line) * ${spec.tile};
    if (j >= padded || row >= rows) return;
    const int begin = part * ${spec.part}, end = min(terms, begin + ${spec.part});
% for r in range(spec.tile):
    // rows beyond the last one are computed as the last one
    __global const real *value${r} = values + (long)(first + min(row + ${r}, rows - 1) * every) * stride + column;
    ${lane} sum${r} = 0${f", lost{r} = 0" if lost else ""};
% endfor
    for (int k = begin; k < end; k++) {
        const ${lane} weight = ${weights};
% for r in range(spec.tile):
% if lost:
        add(&sum${r}, &lost${r}, weight * value${r}[k]);
% else:
        sum${r} += weight * (${lane})(value${r}[k]);
% endif
% endfor
    }
    __global wide *to = parts + ((long)(first_part + part) * rows + row) * padded + j;
% for r in range(spec.tile):
    if (row + ${r} < rows) *(__global ${lane} *)(to + ${r} * padded) = sum${r}${f" + lost{r}" if lost else ""};
% endfor
}

% endif
// Add up each combination's num_parts parts. A work-item adds up one combination in one row.
__kernel void add_parts(${signature(spec, "add_parts")})
{
    const int j = get_global_id(0), r = get_global_id(1);
    if (j >= width) return;
    wide sum = 0${", lost = 0" if spec.compensated else ""};
#pragma unroll 8
    for (int part = 0; part < num_parts; part++) {
        const wide one = parts[((long)part * rows + r) * padded + j];
        ${"add(&sum, &lost, one)" if spec.compensated else "sum += one"};
    }
    kept[(long)r * width + j] = (real)(sum${" + lost" if spec.compensated else ""});
}

// Update `kept`, each column's largest value in the rows so far, or the smallest if `largest` is 0. A work-item
// per column.
__kernel void extreme(${signature(spec, "extreme")})
{
    const int j = get_global_id(0);
    if (j >= width) return;
    real most = kept[j];
    for (int r = 0; r < rows; r++) {
        const real value = values[(long)r * stride + column + j];
        if (largest ? value > most : value < most) most = value;
    }
    kept[j] = most;
}

// Update `kept`: each column's sum over the rows so far, then these sums' compensations. A work-item per
// column.
__kernel void total(${signature(spec, "total")})
{
    const int j = get_global_id(0);
    if (j >= width) return;
    real sum = kept[j], lost = kept[width + j];
    for (int r = 0; r < rows; r++) add(&sum, &lost, values[(long)r * stride + column + j]);
    kept[j] = sum;
    kept[width + j] = lost;
}

// Find where columns cross the threshold upwards. For each column, `kept` has the last value, `count` the number of
// crossings so far, and `row_of` the first `room` crossings' rows. A work-item per column.
__kernel void crossings(${signature(spec, "crossings")})
{
    const int j = get_global_id(0);
    if (j >= width) return;
    real before = kept[j];
    int found = count[j];
    for (int r = 0; r < rows; r++) {
        const real value = values[(long)r * stride + column + j];
        if (before < threshold && threshold <= value) {
            if (found < room) row_of[(long)found * width + j] = r;
            found++;
        }
        before = value;
    }
    kept[j] = before;
    count[j] = found;
}
