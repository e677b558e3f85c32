<%page args="spec"/>\
// Refinement: the float64 residual of a float32 solution, and what is added to the solution.
// spec: ${spec}
// A work-group takes one chunk of the nodes of one cell; get_group_id(1) is the right-hand side.
// All values are in natural order. chunks: first node, end, cell, and what is added to a node to
// get its number in the tables of the distinct trees: parent, child_start and child.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
#define GROUP ${spec.work_group}

// Largest of all lanes' error and of their size, in most[0] and most[GROUP]; every lane comes here.
static void largest_of_all(__local double *most, const int lane, const double error,
                           const double size)
{
    most[lane] = error;
    most[GROUP + lane] = size;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int away = GROUP / 2; away; away /= 2) {
        if (lane < away) {
            most[lane] = fmax(most[lane], most[lane + away]);
            most[GROUP + lane] = fmax(most[GROUP + lane], most[GROUP + lane + away]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// Subtract from sum[0], with what the roundings of such sums lose in sum[1], so that rows with
// thousands of children are no less exact than others; sum[2] adds up the magnitudes.
static void subtract(double *sum, const double term)
{
    const double next = sum[0] - term, taken = next - sum[0];
    sum[1] += (sum[0] - (next - taken)) - (term + taken);
    sum[0] = next;
    sum[2] += fabs(term);
}

// d, u or l in float32. What a root couples to is nothing; first_bad becomes the first node whose
// value is finite, yet beyond float32 (or, of d, too small for its inverse).
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void narrow(${signature(spec, "narrow")})
{
    chunks += 4 * get_group_id(0);
    const int first = chunks[0], end = chunks[1], shift = chunks[3];
    for (int i = first + (int)get_local_id(0); i < end; i += GROUP) {
        const double value = is_diagonal || parent[i + shift] >= 0 ? wide[i] : 0.0;
        const double size = fabs(value);
        if ((size > FLT_MAX && size <= DBL_MAX) || (is_diagonal && size > 0 && size < FLT_MIN))
            atomic_min(first_bad, i);
        narrowed[i] = (float)value;
    }
}

#define Y(node) (x[node] + scale * dx[node])

// The residual r of y = x + scale * dx, and of each chunk the largest componentwise backward error
// |r| / (|A| |y| + |b|) (infinite where a value is not finite) and the largest |r|.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void residual(${signature(spec, "residual")})
{
    __local double most[2 * GROUP];
    const int chunk = get_group_id(0), row = get_group_id(1), lane = get_local_id(0);
    chunks += 4 * (long)chunk;
    const int first = chunks[0], end = chunks[1], cell = chunks[2], shift = chunks[3];
    const double scale = scales[(long)row * num_cells + cell];
    const long begin = (long)row * num_nodes;
    b += (long)(first_row + row) * num_nodes;
    x += begin;
    dx += begin;
    r += begin;
    double worst = 0, largest = 0;
    for (int i = first + lane; i < end; i += GROUP) {
        const int t = i + shift, above = parent[t];
        double sum[3] = {b[i], 0, fabs(b[i])};
        subtract(sum, d[i] * Y(i));
        if (above >= 0) subtract(sum, ${"u" if spec.symmetric else "l"}[i] * Y(above - shift));
        for (int k = child_start[t]; k < child_start[t + 1]; ++k) {
            const int below = child[k] - shift;
            subtract(sum, u[below] * Y(below));
        }
        const double gap = sum[0] + sum[1];
        const double error = gap == 0 ? 0.0 : fabs(gap) / sum[2];
        r[i] = gap;
        worst = fmax(worst, sum[2] <= DBL_MAX ? error : INFINITY);
        largest = fmax(largest, fabs(gap));
    }
    largest_of_all(most, lane, worst, largest);
    if (lane == 0) {
        chunk_most += 2 * ((long)row * num_chunks + chunk);
        chunk_most[0] = most[0];
        chunk_most[1] = most[GROUP];
    }
}

// Where the error of a cell has fallen, x becomes y, and the residual in float32, scaled by a power
// of two, is what is solved for next; it is zero where the cell is left as it is from now on.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void update(${signature(spec, "update")})
{
    __local double most[2 * GROUP];
    const int chunk = get_group_id(0), row = get_group_id(1), lane = get_local_id(0);
    chunks += 4 * (long)chunk;
    const int first = chunks[0], end = chunks[1], cell = chunks[2];
    const long at = (long)row * num_cells + cell, begin = (long)row * num_nodes;
    const int first_chunk = cell_chunks[cell];
    double worst = 0, largest = 0;
    chunk_most += 2 * (long)row * num_chunks;
    for (int k = first_chunk + lane; k < cell_chunks[cell + 1]; k += GROUP) {
        worst = fmax(worst, chunk_most[2 * (long)k]);
        largest = fmax(largest, chunk_most[2 * (long)k + 1]);
    }
    largest_of_all(most, lane, worst, largest);
    const double error = most[0], old = errors[at], scale = scales[at];
    largest = most[GROUP];
    const bool solved = isfinite(error), better = error < old || isinf(old);
    const bool more = solved && error > goal && (error <= old / 2 || isinf(old));
    const int exponent = largest > 0 && isfinite(largest) ? clamp(ilogb(largest), -1000, 1000) : 0;
    x += begin;
    dx += begin;
    r += begin;
    rounded += begin;
    for (int i = first + lane; i < end; i += GROUP) {
        if (better) x[i] = solved ? x[i] + scale * dx[i] : NAN;
        rounded[i] = more ? (float)ldexp(r[i], -exponent) : 0.0f;
    }
    if (chunk == first_chunk && lane == 0) {
        new_errors[at] = better ? error : old;
        new_scales[at] = ldexp(1.0, exponent);
        active[at] = more;
    }
}
