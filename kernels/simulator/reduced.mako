<%page args="spec"/>\
// From rows of recorded values to what is kept of them: some rows, currents of membranes, linear
// combinations, extremes, sums and crossings. One work-item a value, column and row; or a column,
// where it goes through the rows in their order: results do not depend on how a run is divided.
// values: row r of a record begins at r * stride + column. first, every: the rows that are taken.
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
#pragma OPENCL FP_CONTRACT OFF

typedef ${spec.real} real;

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

// Combination j: the sum over k of matrix[k * width + j] times value k.
__kernel void combine(${signature(spec, "combine")})
{
    const int j = get_global_id(0), r = get_global_id(1);
    if (j >= width) return;
    __global const real *value = values + (long)(first + r * every) * stride + column;
    real sum = 0, lost = 0;
    for (int k = 0; k < terms; k++) add(&sum, &lost, matrix[(long)k * width + j] * value[k]);
    kept[(long)r * width + j] = sum + lost;
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
