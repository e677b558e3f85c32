<%page args="spec"/>\
<%
    width, vectors = spec.width, spec.vectors
    wide = spec.real + (str(width) if width > 1 else "")
    lanes = width * vectors
%>\
// Hines solver (Hines 1984) for few cells with many right-hand sides, a lane per right-hand side.
// spec: ${spec}
//
// A step handles one node; steps are numbered parents first, cell after cell. node[i] is step i's
// natural index, parent[i] its parent's step, -1 at roots. A contribution to step i - 1 stays in
// registers; others go through memory.
//
// Arguments; b and x have `rows` rows of `size` values in natural order:
${part("solver/common/arguments")}\
//   cell_first             each cell's first step, and the end
//   inverse, up, factor    per step: 1 / pivot, u, and l / pivot
//   branches               whether a step has children other than the next step
//   values                 scratch for one task per work-item, of `room` steps
// `substitute` sets the sign bit in a cell's status if a value in x is not finite.
${part("solver/common/precision")}\
typedef ${wide} wide;
${part("solver/common/bad_pivots", growth=True)}\
#define NOT_FINITE ((int)(${spec.not_finite}))   // its sign bit

// A work-group per cell computes inverse pivots, u, and l over the pivots. All work-items bring the
// values into step order, then one work-item eliminates.
__kernel __attribute__((reqd_work_group_size(${spec.group}, 1, 1)))
void eliminate(${signature(spec, "eliminate")})
{
    const int cell = get_group_id(0), first = cell_first[cell], end = cell_first[cell + 1];
    for (int i = first + (int)get_local_id(0); i < end; i += ${spec.group}) {
        const bool root = parent[i] < 0;
        inverse[i] = d[node[i]];
        up[i] = root ? (real)0 : u[node[i]];
        factor[i] = root ? (real)0 : l[node[i]];
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0)) return;
    int bad = 0, grown = 0;
    real carry = 0;   // contribution to the step before
    for (int i = end - 1; i >= first; --i) {
        const int above = parent[i];
        const real before = inverse[i], pivot = before - carry;
        if (fabs(carry) > GROWTH * fabs(before)) grown = i - first + 1;
        if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST) && !bad) bad = i - first + 1;
        const real one = (real)1 / pivot, coupling = up[i];
        const real f = factor[i] * one;
        inverse[i] = one;
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
    // BAD and the first bad step's number in the cell, from 1; else a step's number where digits are lost; else 0
    status[cell] = bad ? bad | BAD : grown;
}

% if spec.apart:
#define AHEAD ${spec.ahead}   // steps that are read together: all reads are in flight at once

// One work-item per cell and right-hand side.
__kernel __attribute__((reqd_work_group_size(${spec.group}, 1, 1)))
void substitute(${signature(spec, "substitute")})
{
    const int row = get_global_id(0), cell = get_global_id(1);
    if (row >= rows) return;
    const int first = cell_first[cell], end = cell_first[cell + 1];
    b += (long)row * size;
    x += (long)row * size;
% if not spec.chains:
    // x at nodes with several children begins with b, from which contributions are subtracted
    for (int i = first; i < end; ++i)
        if (branches[i]) x[node[i]] = b[node[i]];
% endif
    // backward sweep: from the tips to the root
    real carry = 0;
    for (int top = end - 1; top >= first; top -= AHEAD) {
        real right[AHEAD], one[AHEAD], coupling[AHEAD];
        int place[AHEAD];
        for (int k = 0; k < AHEAD; ++k) {
            const int i = max(top - k, first);
            place[k] = node[i];
            right[k] = b[place[k]];
            one[k] = inverse[i];
            coupling[k] = up[i];
        }
        for (int k = 0; k < AHEAD; ++k) {
            if (top - k < first) break;
% if not spec.chains:
            const int above = parent[top - k];
            if (branches[top - k]) right[k] = x[place[k]];
% endif
            const real g = (right[k] - carry) * one[k];
            x[place[k]] = g;
            carry = coupling[k] * g;
% if not spec.chains:
            if (above != top - k - 1) {
                if (above >= 0) x[node[above]] -= carry;
                carry = 0;
            }
% endif
        }
    }
    // forward sweep: from the root to the tips
    real before = 0;
    bool finite = true;
    for (int top = first; top < end; top += AHEAD) {
        real g[AHEAD], f[AHEAD];
        int place[AHEAD];
        for (int k = 0; k < AHEAD; ++k) {
            const int i = min(top + k, end - 1);
            place[k] = node[i];
            g[k] = x[place[k]];
            f[k] = factor[i];
        }
        for (int k = 0; k < AHEAD; ++k) {
            if (top + k >= end) break;
% if not spec.chains:
            const int above = parent[top + k];
            if (above >= 0 && above != top + k - 1) before = x[node[above]];
% endif
            before = g[k] - f[k] * before;
            x[place[k]] = before;
            finite = finite && isfinite(before);
        }
    }
    if (!finite) atomic_or(&status[cell], NOT_FINITE);   // rare
}
% else:
#define WIDTH ${width}   // right-hand sides in a vector
#define VECTORS ${vectors}   // vectors per work-item: independent operations hide each other's latency
#define LANES ${lanes}

// A task is a cell with ${lanes} right-hand sides. Each work-item has several, and scratch for one in `values`.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void substitute(${signature(spec, "substitute")})
{
    const int item = get_global_id(0), blocks = (rows + LANES - 1) / LANES;
    const long tasks = (long)num_cells * blocks, items = get_global_size(0);
    __global wide *const kept = (__global wide *)values + (long)item * room * VECTORS;
    for (long task = tasks * item / items; task < tasks * (item + 1) / items; ++task) {
        const int cell = (int)(task / blocks), top = (int)(task - (long)cell * blocks) * LANES;
        const int first = cell_first[cell], steps = cell_first[cell + 1] - first;
        long place[LANES];   // lanes beyond the last row repeat it
        for (int k = 0; k < LANES; ++k) place[k] = (long)min(top + k, rows - 1) * size;
        for (int i = 0; i < steps; ++i) {
            const int at = node[first + i];
            for (int k = 0; k < LANES; ++k) ((__global real *)kept)[i * LANES + k] = b[place[k] + at];
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
        wide most = 0;   // not finite if a value is not
        for (int i = 0; i < steps; ++i) {
            const int at = node[first + i];
            for (int v = 0; v < VECTORS; ++v) {
                const wide found = kept[i * VECTORS + v];
                most += found * 0;
% for k in range(width):
                x[place[v * WIDTH + ${k}] + at] = found${f".s{k:x}" if width > 1 else ""};
% endfor
            }
        }
        if (${"any(most != 0)" if width > 1 else "most != 0"}) atomic_or(&status[cell], NOT_FINITE);   // rare: NaN
    }
}
% endif
