<%page args="spec"/>\
<%
    width, vectors = spec.width, spec.vectors
    wide = spec.real + (str(width) if width > 1 else "")
    lanes = width * vectors
%>\
// Many right-hand sides of few cells (Hines 1984), in lanes over the right-hand sides.
// spec: ${spec}
//
// Steps are the nodes of a cell, parents first, one cell after another; `node` has the natural node of
// a step and `parent` the step of its parent, -1 at roots. A parent that is the step before gets the
// contribution of its child in registers, others get it in memory.
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
typedef ${wide} wide;
${part("solver/common/pivot_bounds")}\
#define BAD (${spec.status.write(bad="1")})
#define GROWTH ${spec.growth}   // see STATUS in kernel_spec.py

// One work-item a cell: inverse pivots, the entries u, and l over the pivots, by step.
__kernel void eliminate(${signature(spec, "eliminate")})
{
    const int cell = get_global_id(0);
    if (cell >= num_cells) return;
    const int first = cell_first[cell], end = cell_first[cell + 1];
    for (int i = first; i < end; ++i) inverse[i] = d[node[i]];
    int bad = 0, grown = 0;
    real carry = 0;   // what the step before loses
    for (int i = end - 1; i >= first; --i) {
        const int above = parent[i];
        const real before = inverse[i], pivot = before - carry;
        if (fabs(carry) > GROWTH * fabs(before)) grown = i - first + 1;
        if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST) && !bad) bad = i - first + 1;
        const real one = (real)1 / pivot;
        const real coupling = above < 0 ? (real)0 : u[node[i]];
        const real f = (above < 0 ? (real)0 : ${"coupling" if spec.symmetric else "l[node[i]]"}) * one;
        inverse[i] = one;
        up[i] = coupling;
        factor[i] = f;
        carry = coupling * f;
        if (above != i - 1) {
            if (above >= 0) {
                if (fabs(carry) > GROWTH * fabs(inverse[above])) grown = above - first + 1;
                inverse[above] -= carry;
            }
            carry = 0;
        }
    }
    status[cell] = bad ? bad | BAD : ${"0" if spec.symmetric else "grown"};
}

% if spec.apart:
#define TILE ${spec.tile}

// b of rows to steps, in which the rows lie side by side: a tile at a time, through local memory.
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void bring(${signature(spec, "bring")})
{
    __local real tile[TILE][TILE + 1];
    const int x = get_local_id(0), y = get_local_id(1);
    const int first = (int)get_group_id(0) * TILE, top = (int)get_group_id(1) * TILE;
    if (first + x < size && top + y < rows) tile[y][x] = b[(long)(top + y) * size + node[first + x]];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first + y < size && top + x < rows) values[(long)(first + y) * rows + top + x] = tile[x][y];
}

// And back: x of the rows.
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void give(${signature(spec, "give")})
{
    __local real tile[TILE][TILE + 1];
    const int lane = get_local_id(0), y = get_local_id(1);
    const int first = (int)get_group_id(0) * TILE, top = (int)get_group_id(1) * TILE;
    if (first + y < size && top + lane < rows) tile[y][lane] = values[(long)(first + y) * rows + top + lane];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first + lane < size && top + y < rows) x[(long)(top + y) * size + node[first + lane]] = tile[lane][y];
}

// One work-item a cell and right-hand side.
__kernel void substitute(${signature(spec, "substitute")})
{
    const int row = get_global_id(0), cell = get_global_id(1);
    if (row >= rows) return;
    const int first = cell_first[cell], last = cell_first[cell + 1] - 1;
    real carry = 0, next[${spec.ahead}];
    // backward sweep: ${spec.ahead} values are read before they are needed
    for (int k = 0; k < ${spec.ahead}; ++k) next[k] = last - k >= first ? values[(long)(last - k) * rows + row] : 0;
    for (int i = last; i >= first; i -= ${spec.ahead}) {
        real now[${spec.ahead}];
        for (int k = 0; k < ${spec.ahead}; ++k) {
            const int at = i - ${spec.ahead} - k;
            now[k] = next[k];
            next[k] = at >= first ? values[(long)at * rows + row] : 0;
        }
        for (int k = 0; k < ${spec.ahead}; ++k) {
            const int at = i - k;
            if (at < first) break;
            const int above = parent[at];
            // other children than the next step may have changed it since it was read
            const real right = branches[at] ? values[(long)at * rows + row] : now[k];
            const real g = (right - carry) * inverse[at];
            values[(long)at * rows + row] = g;
            carry = up[at] * g;
            if (above != at - 1) {
                if (above >= 0) values[(long)above * rows + row] -= carry;
                carry = 0;
            }
        }
    }
    // forward sweep
    for (int k = 0; k < ${spec.ahead}; ++k) next[k] = first + k <= last ? values[(long)(first + k) * rows + row] : 0;
    real before = 0;
    for (int i = first; i <= last; i += ${spec.ahead}) {
        real now[${spec.ahead}];
        for (int k = 0; k < ${spec.ahead}; ++k) {
            const int at = i + ${spec.ahead} + k;
            now[k] = next[k];
            next[k] = at <= last ? values[(long)at * rows + row] : 0;
        }
        for (int k = 0; k < ${spec.ahead}; ++k) {
            const int at = i + k;
            if (at > last) break;
            const int above = parent[at];
            const real x_above = above < 0 ? 0 : above == at - 1 ? before : values[(long)above * rows + row];
            before = now[k] - factor[at] * x_above;
            values[(long)at * rows + row] = before;
        }
    }
}
% else:
#define WIDTH ${width}   // right-hand sides in a vector
#define VECTORS ${vectors}   // vectors of a work-item, whose chains of operations fill each other's gaps
#define LANES ${lanes}

// Each work-item has tasks, blocks of ${lanes} right-hand sides of a cell, and room for one in `values`.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void substitute(${signature(spec, "substitute")})
{
    const int item = get_global_id(0), blocks = (rows + LANES - 1) / LANES;
    const long tasks = (long)num_cells * blocks, items = get_global_size(0);
    __global wide *const kept = (__global wide *)values + (long)item * room * VECTORS;
    for (long task = tasks * item / items; task < tasks * (item + 1) / items; ++task) {
        const int cell = (int)(task / blocks), top = (int)(task % blocks) * LANES;
        const int first = cell_first[cell], steps = cell_first[cell + 1] - first;
        long place[LANES];   // the last row stands in for those beyond it
        for (int k = 0; k < LANES; ++k) place[k] = (long)min(top + k, rows - 1) * size;
        for (int i = 0; i < steps; ++i) {
            const int at = node[first + i];
            for (int v = 0; v < VECTORS; ++v)
% if width > 1:
                kept[i * VECTORS + v] = (wide)(${", ".join(f"b[place[v * WIDTH + {k}] + at]" for k in range(width))});
% else:
                kept[i * VECTORS + v] = b[place[v] + at];
% endif
        }
        // backward sweep: from the tips to the root
        wide carry[VECTORS], before[VECTORS];
        for (int v = 0; v < VECTORS; ++v) carry[v] = before[v] = 0;
        for (int i = steps - 1; i >= 0; --i) {
            const int above = parent[first + i] - first;
            const real one = inverse[first + i], coupling = up[first + i];
            for (int v = 0; v < VECTORS; ++v) {
                const wide g = (kept[i * VECTORS + v] - carry[v]) * one;
                kept[i * VECTORS + v] = g;
                carry[v] = coupling * g;
            }
            if (above != i - 1) {
                for (int v = 0; v < VECTORS; ++v) {
                    if (above >= 0) kept[above * VECTORS + v] -= carry[v];
                    carry[v] = 0;
                }
            }
        }
        // forward sweep: from the root to the tips
        for (int i = 0; i < steps; ++i) {
            const int above = parent[first + i] - first;
            const real f = factor[first + i];
            for (int v = 0; v < VECTORS; ++v) {
                const wide x_above = above == i - 1 || above < 0 ? before[v] : kept[above * VECTORS + v];
                before[v] = kept[i * VECTORS + v] - f * x_above;
                kept[i * VECTORS + v] = before[v];
            }
        }
        for (int i = 0; i < steps; ++i) {
            const int at = node[first + i];
            for (int v = 0; v < VECTORS; ++v) {
                const wide found = kept[i * VECTORS + v];
% for k in range(width):
                x[place[v * WIDTH + ${k}] + at] = found${f".s{k:x}" if width > 1 else ""};
% endfor
            }
        }
    }
}
% endif
