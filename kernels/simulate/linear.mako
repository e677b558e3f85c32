<%page args="spec"/>\
// Linear equations that voltages are part of, after the solve for the cells alone, whose solution is the
// first row of x; a row follows for each column of unit vectors. spec: ${spec.real}, ${spec.group} work-items
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

// That of a node, or inside of it where another lies around it; `around` is the place of that, or -1.
static real potential(__global const real *restrict v, int at, int around)
{
    return around < 0 ? v[at] : v[at] + v[around];
}

// One work-group per system, whose rows are first[s] to first[s + 1]; entries of row r are begin[r] to
// begin[r + 1]. `place` is that of a row's node, or -1 - k of an unknown, which is mem[k]. Gaussian
// elimination with pivots; `current` then has what flows into nodes, by column and tree.
__kernel void solve_systems(${signature(spec, "solve_systems")})
{
    __local real largest[${spec.group}];
    __local int found[${spec.group}];
    const int me = get_local_id(0), s = get_group_id(0), a = first[s], n = first[s + 1] - a;
    __global real *const matrix = scratch + scratch_first[s];  // a row's last entry is its right side
    for (int r = a + me; r < a + n; r += ${spec.group}) {
        real sum = b[r];
        for (int e = begin[r]; e < begin[r + 1]; e++) {
            const int at = place[entry[e]];
            sum -= explicit_g[e] * (at >= 0 ? potential(v, at, outer[entry[e]]) : mem[-1 - at]);
        }
        force[r] = sum;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int r = a + me; r < a + n; r += ${spec.group}) {
        __global real *const row = matrix + (long)(r - a) * (n + 1);
        for (int j = 0; j < n; j++) row[j] = 0;
        if (place[r] < 0) {
            for (int e = begin[r]; e < begin[r + 1]; e++) row[entry[e] - a] = implicit_g[e];
            row[n] = force[r];
            continue;
        }
        real right = potential(x, place[r], outer[r]);
        row[r - a] = 1;
        for (int k = near[r]; k < a + n && tree[k] == tree[r]; k++) {
            const real across = potential(x + (column[k] + 1) * (long)num_places, place[r], outer[r]);
            right += across * force[k];
            for (int e = begin[k]; e < begin[k + 1]; e++) row[entry[e] - a] += across * implicit_g[e];
        }
        row[n] = right;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    int solvable = 1;
    for (int k = 0; k < n; k++) {
        __global real *const top = matrix + (long)k * (n + 1);
        real most = -1;
        int where = k;
        for (int i = k + me; i < n; i += ${spec.group}) {
            const real value = fabs(matrix[(long)i * (n + 1) + k]);
            if (value > most) most = value, where = i;
        }
        largest[me] = most;
        found[me] = where;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < ${spec.group}; i++)
            if (largest[i] > most || (largest[i] == most && found[i] < where))
                most = largest[i], where = found[i];
        solvable = solvable && most > 0 && most < INFINITY;
        __global real *const pivot = matrix + (long)where * (n + 1);
        for (int j = k + me; j <= n; j += ${spec.group}) {
            const real kept = top[j];
            top[j] = pivot[j];
            pivot[j] = kept;
        }
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
<% wide = min(spec.group, 16) %>\
        for (int i = k + 1 + (me >> ${wide.bit_length() - 1}); i < n; i += ${spec.group // wide}) {
            __global real *restrict const row = matrix + (long)i * (n + 1);
            __global const real *restrict const above = top;
            const real factor = row[k] / above[k];
            for (int j = k + 1 + (me & ${wide - 1}); j <= n; j += ${wide}) row[j] -= factor * above[j];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    for (int k = n - 1; k >= 0; k--) {
        __global real *const row = matrix + (long)k * (n + 1);
        const real change = solvable ? row[n] / row[k] : NAN;
        if (me == 0) z[a + k] = change;
        for (int i = me; i < k; i += ${spec.group})
            matrix[(long)i * (n + 1) + n] -= matrix[(long)i * (n + 1) + k] * change;
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    for (int r = a + me; r < a + n; r += ${spec.group}) {
        if (place[r] < 0) {
            mem[-1 - place[r]] += z[r];
            continue;
        }
        real flow = solvable ? force[r] : NAN;
        for (int e = begin[r]; e < begin[r + 1]; e++) flow -= implicit_g[e] * z[entry[e]];
        current[column[r] * num_trees + tree[r]] = flow;
    }
}

// One work-item per place of the solver's order, of which `tree_of` is the tree in equations, -1 of none.
__kernel void add_currents(${signature(spec, "add_currents")})
{
    const int i = get_global_id(0);
    if (i >= num_places || tree_of[i] < 0) return;
    real change = x[i];
    for (int c = 0; c < num_columns; c++)
        change += x[(c + 1) * (long)num_places + i] * current[c * num_trees + tree_of[i]];
    x[i] = change;
}
