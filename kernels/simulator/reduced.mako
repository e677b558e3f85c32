<%page args="spec"/>\
// Reduce recorded values to selected rows, membrane currents, linear combinations, extremes, sums or crossings.
// A row of `values` has the values of one step: row r begins at entry r * stride + column. Rows first, first + every,
// ... are used, `rows` in number. `kept` gets `width` results for each row, or for all rows. Results do not depend on
// the division of a run into launches.
// spec: ${spec}
% if "double" in (spec.real, spec.wide):
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
#pragma OPENCL FP_CONTRACT OFF

typedef ${spec.real} real;
typedef ${spec.wide} wide;

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

// Membrane current of node j: the sum over neighbours of g * (v of the neighbour - v of j), plus the
// currents of its electrodes. Its neighbours are entries begin[j] to begin[j + 1] of `other` and `own`, columns of
// voltages, and of `g`, uS; its electrodes are entries clamp_begin[j] to clamp_begin[j + 1] of `clamp`, columns of
// `clamps`, which has num_clamps in a row, nA. A work-item computes ${spec.tile} rows.
__kernel void membrane(${signature(spec, "membrane")})
{
    const int j = get_global_id(0), row = get_global_id(1) * ${spec.tile};
    if (j >= width) return;
% for r in range(spec.tile):
    // rows beyond the last one are computed as the last one
    const long from${r} = first + min(row${f" + {r}" if r else ""}, rows - 1) * every;
    __global const real *v${r} = values + from${r} * stride + column;
    real sum${r} = 0;
% endfor
    for (int q = begin[j]; q < begin[j + 1]; q++) {
        const int there = other[q], here = own[q];
        const real conductance = g[q];
% for r in range(spec.tile):
        sum${r} += conductance * (v${r}[there] - v${r}[here]);
% endfor
    }
    for (int q = clamp_begin[j]; q < clamp_begin[j + 1]; q++) {
% for r in range(spec.tile):
        sum${r} += clamps[(long)min(row + ${r}, rows - 1) * num_clamps + clamp[q]];
% endfor
    }
% for r in range(spec.tile):
    ${f"if (row + {r} < rows) " if r else ""}kept[(long)(row${f" + {r}" if r else ""}) * width + j] = sum${r};
% endfor
}

<%
several, n = spec.lanes > 1, str(spec.lanes)
lane, read = ("wide", "(wide)") if not several else (spec.wide + n, f"convert_{spec.wide}{n}")
at = "matrix[(long)k * padded + j]"
weights = f"*(__global const {spec.real}{n} *)(&{at})" if several else at
lost = spec.compensated
%>\
// Combination j is the sum over k of matrix[k * padded + j] * value k. The terms k are divided into parts:
// different work-groups add up different parts, and add_parts adds these sums.
// A work-item computes ${spec.lanes} combinations of ${spec.tile} rows. A work-group has work-items for `across` (a power of
// two) columns of combinations, which read the same values, times `deep` rows, which read the same matrix.
// Products are summed in ${spec.wide}${", compensated" if lost else ""}. `parts` has the sums, part by part, row by row.
__kernel void combine(${signature(spec, "combine")})
{
    const int lid = get_local_id(0), deep = get_local_size(0) / across;
    const int j = (get_group_id(0) * across + (lid & (across - 1))) * ${spec.lanes};
    const int tiles = (rows + ${spec.tile} * deep - 1) / (${spec.tile} * deep);
    const int part = get_global_id(1) / tiles;
    const int row = ((get_global_id(1) - part * tiles) * deep + lid / across) * ${spec.tile};
    if (j >= padded || row >= rows) return;
    const int begin = part * ${spec.part}, end = min(terms, begin + ${spec.part});
% for r in range(spec.tile):
    // rows beyond the last one are computed as the last one
    __global const real *value${r} = values + (long)(first + min(row + ${r}, rows - 1) * every) * stride + column;
    ${lane} sum${r} = 0${f", lost{r} = 0" if lost else ""};
% endfor
    for (int k = begin; k < end; k++) {
        const ${lane} weight = ${read}(${weights});
% for r in range(spec.tile):
% if lost:
        add(&sum${r}, &lost${r}, weight * value${r}[k]);
% else:
        sum${r} += weight * (${lane})(value${r}[k]);
% endif
% endfor
    }
    __global wide *to = parts + ((long)part * rows + row) * padded + j;
% for r in range(spec.tile):
    if (row + ${r} < rows) *(__global ${lane} *)(to + ${r} * padded) = sum${r}${f" + lost{r}" if lost else ""};
% endfor
}

// Add up the num_parts parts of each combination. A work-item adds up one combination of one row.
__kernel void add_parts(${signature(spec, "add_parts")})
{
    const int j = get_global_id(0), r = get_global_id(1);
    if (j >= width) return;
    wide sum = 0${", lost = 0" if lost else ""};
    for (int part = 0; part < num_parts; part++) {
        const wide one = parts[((long)part * rows + r) * padded + j];
        ${"add(&sum, &lost, one)" if lost else "sum += one"};
    }
    kept[(long)r * width + j] = (real)(sum${" + lost" if lost else ""});
}

// Update `kept`, the largest value of each column in the rows so far, or the smallest if `largest` is 0. A work-item
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

// Update `kept`: the sum of each column over the rows so far, then the compensations of these sums. A work-item per
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
// crossings so far, and `row_of` the rows of the first `room` crossings. A work-item per column.
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
