<%page args="spec"/>\
// Refinement: the float64 residual of a float32 solution, and what is added to the solution.
// spec: ${spec}
// A work-group takes one chunk of the nodes of one cell; get_group_id(1) is the right-hand side.
// All values are in natural order. chunks: first node, end, cell, and what is added to a node to
// get its number in the tables of the distinct trees: parent, child_start and child.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
#define GROUP ${spec.work_group}

// Largest of all lanes' values, in both components; every lane comes here.
static double2 largest_of_all(__local double2 *most, const int lane, const double2 mine)
{
    most[lane] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int away = GROUP / 2; away; away /= 2) {
        if (lane < away) most[lane] = fmax(most[lane], most[lane + away]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return most[0];
}

// Subtract from x, with what the roundings of such sums lose in y, so that rows with thousands of
// children are no less exact than others; z adds up the magnitudes.
static double3 subtract(const double3 sum, const double term)
{
    const double next = sum.x - term, taken = next - sum.x;
    const double lost = (sum.x - (next - taken)) - (term + taken);
    return (double3)(next, sum.y + lost, sum.z + fabs(term));
}

// d, u or l in float32. What a root couples to is nothing; first_bad becomes the first node whose
// value is finite, yet beyond float32 (or, of d, too small for its inverse).
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void narrow(const int is_diagonal, __global const int4 *restrict chunks,
            __global const int *restrict parent, __global const double *restrict wide,
            __global float *restrict narrowed, volatile __global int *restrict first_bad)
{
    const int4 here = chunks[get_group_id(0)];
    for (int i = here.x + (int)get_local_id(0); i < here.y; i += GROUP) {
        const double value = is_diagonal || parent[i + here.w] >= 0 ? wide[i] : 0.0;
        const double size = fabs(value);
        if ((size > FLT_MAX && size <= DBL_MAX) || (is_diagonal && size > 0 && size < FLT_MIN))
            atomic_min(first_bad, i);
        narrowed[i] = (float)value;
    }
}

#define Y(node) (x[node] + scale * dx[node])

// The residual r of y = x + scale * dx, and of each chunk the largest row-wise backward error
// |r| / (|A| |y| + |b|) (infinite where a value is not finite) and the largest |r|.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void residual(const int num_nodes, const int num_cells, const int num_chunks, const int first_row,
              __global const int4 *restrict chunks, __global const int *restrict parent,
              __global const int *restrict child_start, __global const int *restrict child,
              __global const double *restrict d, __global const double *restrict u,
% if not spec.symmetric:
              __global const double *restrict l,
% endif
              __global const double *restrict b, __global const double *restrict x,
              __global const float *restrict dx, __global const double *restrict scales,
              __global double *restrict r, __global double2 *restrict chunk_most)
{
    __local double2 most[GROUP];
    const int chunk = get_group_id(0), row = get_group_id(1), lane = get_local_id(0);
    const int4 here = chunks[chunk];
    const double scale = scales[(long)row * num_cells + here.z];
    const long begin = (long)row * num_nodes;
    b += (long)(first_row + row) * num_nodes;
    x += begin;
    dx += begin;
    r += begin;
    double2 worst = 0;
    for (int i = here.x + lane; i < here.y; i += GROUP) {
        const int t = i + here.w, above = parent[t];
        double3 sum = (double3)(b[i], 0, fabs(b[i]));
        sum = subtract(sum, d[i] * Y(i));
        if (above >= 0) sum = subtract(sum, ${"u" if spec.symmetric else "l"}[i] * Y(above - here.w));
        for (int k = child_start[t]; k < child_start[t + 1]; ++k) {
            const int below = child[k] - here.w;
            sum = subtract(sum, u[below] * Y(below));
        }
        const double gap = sum.x + sum.y;
        const double error = gap == 0 ? 0.0 : fabs(gap) / sum.z;
        r[i] = gap;
        worst = fmax(worst, (double2)(sum.z <= DBL_MAX ? error : INFINITY, fabs(gap)));
    }
    worst = largest_of_all(most, lane, worst);
    if (lane == 0) chunk_most[(long)row * num_chunks + chunk] = worst;
}

// Where the error of a cell has fallen, x becomes y, and the residual in float32, scaled by a power
// of two, is what is solved for next; it is zero where the cell is left as it is from now on.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void update(const int num_nodes, const int num_cells, const int num_chunks, const double goal,
            __global const int4 *restrict chunks, __global const int *restrict cell_chunks,
            __global const double2 *restrict chunk_most, __global const double *restrict r,
            __global const float *restrict dx, __global const double *restrict errors,
            __global const double *restrict scales, __global double *restrict new_errors,
            __global double *restrict new_scales, __global int *restrict active,
            __global double *restrict x, __global float *restrict rounded)
{
    __local double2 most[GROUP];
    const int chunk = get_group_id(0), row = get_group_id(1), lane = get_local_id(0);
    const int4 here = chunks[chunk];
    const long cell = (long)row * num_cells + here.z, begin = (long)row * num_nodes;
    const int first = cell_chunks[here.z];
    double2 worst = 0;
    for (int k = first + lane; k < cell_chunks[here.z + 1]; k += GROUP)
        worst = fmax(worst, chunk_most[(long)row * num_chunks + k]);
    worst = largest_of_all(most, lane, worst);
    const double error = worst.x, old = errors[cell], scale = scales[cell];
    const bool solved = isfinite(error), better = error < old || isinf(old);
    const bool more = solved && error > goal && (error <= old / 2 || isinf(old));
    const int exponent = worst.y > 0 && isfinite(worst.y) ? clamp(ilogb(worst.y), -1000, 1000) : 0;
    x += begin;
    dx += begin;
    r += begin;
    rounded += begin;
    for (int i = here.x + lane; i < here.y; i += GROUP) {
        if (better) x[i] = solved ? x[i] + scale * dx[i] : NAN;
        rounded[i] = more ? (float)ldexp(r[i], -exponent) : 0.0f;
    }
    if (chunk == first && lane == 0) {
        new_errors[cell] = better ? error : old;
        new_scales[cell] = ldexp(1.0, exponent);
        active[cell] = more;
    }
}
