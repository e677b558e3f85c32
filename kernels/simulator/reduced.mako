<%page args="spec"/>\
// From rows of recorded values to what is kept of them: some rows, currents of membranes, linear
// combinations, extremes, sums and crossings. One work-item a value, column and row; or a column,
// where it goes through the rows in their order: results do not depend on how a run is divided.
// values: row r of a record begins at r * stride + column. first, every: the rows that are taken.
// spec: ${spec}
% if "double" in (spec.real, spec.wide):
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
#pragma OPENCL FP_CONTRACT OFF

typedef ${spec.real} real;
typedef ${spec.wide} wide;

// Neumaier's sum: sum + lost is the total.
static void add(real *sum, real *lost, const real value)
{
    const real total = *sum + value;
    *lost += fabs(*sum) >= fabs(value) ? (*sum - total) + value : (value - total) + *sum;
    *sum = total;
}

__kernel void some_rows(${signature(spec, "some_rows")})
{
    const int j = get_global_id(0), r = get_global_id(1);
    if (j < width) kept[(long)r * width + j] = values[(long)(first + r * every) * stride + column + j];
}

// Node j: g * (v of another node - its own) summed over its neighbours, and the currents of its
// electrodes, of which there are num_clamps in a row of clamps.
__kernel void membrane(${signature(spec, "membrane")})
{
    const int j = get_global_id(0), r = get_global_id(1);
    if (j >= width) return;
    const long from = first + r * every;
    __global const real *v = values + from * stride + column;
    real sum = 0;
    for (int q = begin[j]; q < begin[j + 1]; q++) sum += g[q] * (v[other[q]] - v[own[q]]);
    for (int q = clamp_begin[j]; q < clamp_begin[j + 1]; q++)
        sum += clamps[from * num_clamps + clamp[q]];
    kept[(long)r * width + j] = sum;
}

<%
several, n = spec.lanes > 1, str(spec.lanes)
lane, read = ("wide", "(wide)") if not several else (spec.wide + n, f"convert_{spec.wide}{n}")
at = "matrix[(long)k * padded + j]"
weights = f"*(__global const {spec.real}{n} *)(&{at})" if several else at
lost = spec.compensated
%>\
// Combination j: the sum over k of matrix[k * padded + j] times value k, of one part of the terms.
// A work-item has ${spec.lanes} combinations of ${spec.tile} rows; parts lie row by row, part by part.
// Products are summed up in ${spec.wide}${", with what roundings lose" if lost else ""}.
__kernel void combine(${signature(spec, "combine")})
{
    const int j = get_global_id(0) * ${spec.lanes}, tiles = (rows + ${spec.tile - 1}) / ${spec.tile};
    const int item = get_global_id(1), part = item / tiles, row = (item - part * tiles) * ${spec.tile};
    if (j >= padded) return;
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

// The sum of the parts of each combination.
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

// kept: the sums, then what their roundings have lost.
__kernel void total(${signature(spec, "total")})
{
    const int j = get_global_id(0);
    if (j >= width) return;
    real sum = kept[j], lost = kept[width + j];
    for (int r = 0; r < rows; r++) add(&sum, &lost, values[(long)r * stride + column + j]);
    kept[j] = sum;
    kept[width + j] = lost;
}

// kept: the last values. count: crossings from below so far, the first `room` of which have their
// rows in row_of.
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
