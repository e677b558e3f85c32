<%page args="spec"/>\
<%! from textwrap import indent %>\
<%
    W = spec.vector_width
    local = spec.capacity > 0 and spec.rhs == 1
    word = "long" if spec.real == "double" else "int"
    width = str(W) if W > 1 else ""
    lanes = [f".s{c}" for c in "0123456789abcdef"[:W]] if W > 1 else [""]
%>\
<%
    def take(array, row=None):   # row of a vector, for right-hand side `row`
        if spec.natural:
            return f"gathered({array}{f' + {row} * stride' if row else ''}, from, home)"
        return f"load({array}, place{f' + {row} * stride' if row else ''})"
    def give(stored, row, name):
        if spec.natural:
            return f"scatter(x + {row} * stride, from, {name});"
        return f"{stored}(x, place + {row} * stride, {name});"
    from_nodes = "const places from = indices(gather, place);"
%>\
<%def name="row(kind)">\
% if spec.prefetch and not spec.natural:
            fetch(d + place + AHEAD);
            fetch(u + place + AHEAD);
            fetch(b + place + AHEAD);
% endif
% if spec.natural:
            ${from_nodes}
% endif
% if spec.symmetric:
            value pivot = ${take("d")} - sum_d;
% else:
            const value its_d = ${take("d")};
            value pivot = its_d - sum_d;
% endif
% if kind == "ragged":
            pivot = active ? pivot : (value)(1);
% endif
            const value inverse = (real)1 / pivot;
% if kind == "top":
            const value coupling = inner ? ${take("u")} : (value)(0);
% else:
            const value coupling = ${take("u")};
% endif
% if spec.symmetric:
            const value f = coupling * inverse;
% elif kind == "top":
            const value f = (inner ? ${take("l")} : (value)(0)) * inverse;
% else:
            const value f = ${take("l")} * inverse;
% endif
            sum_d = ${"active ? coupling * f : child_d" if kind == "ragged" else "coupling * f"};
% if not spec.symmetric:
            small &= ${"~active | " if kind == "ragged" else ""}(pivot < GROWTH * its_d) & (pivot < (value)(LARGEST));
% endif
            least = pivot < least ? pivot : least;
% if spec.symmetric:
            most = pivot > most ? pivot : most;
% endif
% if local:
            kept[(uint)place / W * 2] = f;
% else:
            store(factor, place, f);
% endif
            for (int r = 0; r < RHS; ++r) {
                const value g = (${take("b", "r")} - sum_b[r]) * inverse;
% if local:
                kept[(uint)place / W * 2 + 1] = g;
% else:
                ${give("store", "r", "g")}
% endif
                sum_b[r] = ${"active ? coupling * g : child_b[r]" if kind == "ragged" else "coupling * g"};
            }
</%def>\
<%def name="back(stored)">\
% if spec.natural:
            ${from_nodes}
% endif
% if local:
            const value f = kept[(uint)place / W * 2];
% else:
            const value f = load(factor, place);
% endif
            for (int r = 0; r < RHS; ++r) {
% if local:
                above[r] = kept[(uint)place / W * 2 + 1] - f * above[r];
% else:
                above[r] = ${take("x", "r")} - f * above[r];
% endif
                ${give(stored, "r", "above[r]")}
% if spec.natural:
                odd |= (above[r] - above[r] != (value)(0)) & (widen(from) >= (mask)(0));
% endif
            }
</%def>\
<%def name="forward(stored)">\
    for (int v = end - 1; v >= first; --v) {
        const int rows = vector_rows[v], even = vector_even[v], whole = vector_parent[v];
        __local value *own = (__local value *)(lost + (v - first + 1) * SLOT) + 1;
        const places parent = indices(lane_parent, v * W);
        value above[RHS];
        for (int r = 0; r < RHS; ++r)
            above[r] = whole >= 0 ? ((__local const value *)(lost + whole * SLOT))[1 + r]
                                  : collect(lost + (1 + r) * W, parent);
        int place = vector_place[v] + (rows - 1) * W;
        for (int j = 0; j < even; ++j, place -= W) {
${back(stored)}\
        }
        for (int r = 0; r < RHS; ++r) own[r] = above[r];
        if (even < rows) {
            const mask length = widen(indices(lane_length, v * W));
            for (int j = even; j < rows; ++j, place -= W) {
                const mask active = length > (mask)(j);
${indent(capture(back, stored), "    ")}\
                for (int r = 0; r < RHS; ++r) own[r] = active ? above[r] : own[r];
            }
        }
    }
</%def>\
// Fine-grained Hines solver for CPUs (after Huber 2018). A work-item has a block of cells. Each
// vector lane has a branch; vectors are eliminated from the tips to the root, then solved
// from the root to the tips.
// spec: ${spec}
% if spec.natural:
// d, u, b and x are in natural order; gather[place] is the node at a place in the layout.
% endif
// layout: node j in lane k of a vector is at block_start + vector_place + (rows - 1 - j) * W + k;
//         j counts from the root's end. So the backward sweep reads upwards in memory.
//
// Rows from `even` on are ragged: lanes with shorter branches wait. `lost` has a slot per branch. The
// branch puts its contribution to the parent there, and later its last node's solution. Slots 0 to
// W - 1 are zeros, for branches without children or parent. Sums follow the child list, so there are
// no atomics, and every run and batch rounds in the same way.
//
// Arguments; b and x have num_values values per row; a launch solves RHS rows from first_row on, in
// num_blocks work-items:
${part("solver/common/arguments")}\
//   factor             scratch: each node's l / pivot in device order, between the sweeps
//   block_template     each block's template: blocks with one template have the same vectors
//   block_start        where each block has its first value
//   block_cells        each block's first entry in cell_number, and the end
//   cell_number        cells, block after block
//   template_vectors   each template's first vector, and the end
//   vector_place       where each vector has its first value, counted in its block
//   vector_rows        nodes in each vector's longest branch;  vector_even: in its shortest
//   vector_parent      the vector that has all lanes' parents in order, else -1
//   vector_rounds      each vector's first round, and the end; a round adds a child to each lane
//   round_vector       the vector that has a round's children in order, else -1
//   round_child        slot in `lost` of each lane's child in each round, 0: none
//   lane_parent        slot in `lost` of each lane's parent, 0: none
//   lane_length        nodes in each lane's branch
//   lane_slot          the branch's cell, as a number in the block
//   lane_rank          the branch's first node, as a position in its cell, see status
${part("solver/common/precision")}\
#pragma OPENCL FP_CONTRACT OFF

#define W ${W}
#define RHS ${spec.rhs}
% if spec.reads_cells:
#define LINE (${spec.line_bytes} / (int)sizeof(real))   // values
% endif
#define SLOT (W * (1 + RHS))   // a vector's values in `lost`
${part("solver/common/bad_pivots", growth=not spec.symmetric)}\

typedef ${spec.real}${width} value;
typedef ${word}${width} mask;
typedef int${width} places;
typedef value __attribute__((aligned(sizeof(real)))) loose_value;   // unaligned; PoCL would call a function for vload
typedef mask __attribute__((aligned(sizeof(real)))) loose_mask;
typedef places __attribute__((aligned(sizeof(int)))) loose_places;

static value load(__global const real *a, long place)
{
    return *(__global const loose_value *)(a + place);
}
static void store(__global real *a, long place, value v)
{
    *(__global loose_value *)(a + place) = v;
}
static places indices(__global const int *a, int place)
{
    return *(__global const loose_places *)(a + place);
}
static mask widen(places a)   // PoCL would call a function to convert
{
    return (mask)(${", ".join(f"a{c}" for c in lanes)});
}
% if spec.natural:
// lanes without a node read the node `home`, ignore its value and write nothing
static value gathered(__global const real *a, places from, places home)
{
    const places none = from >> 31, at = (home & none) | (from & ~none);
    const value v = (value)(${", ".join(f"a[at{c}]" for c in lanes)});
    return widen(from) < (mask)(0) ? (value)(0) : v;
}
// write the values in lanes with a node
static void scatter(__global real *a, places to, value v)
{
% for c in lanes:
    if (to${c} >= 0) a[to${c}] = v${c};
% endfor
}
% endif
// read a number of each lane's slot in `lost`
static value collect(__local const real *lost, places slot)
{
    slot += (slot & -W) * RHS;
    return (value)(${", ".join(f"lost[slot{c}]" for c in lanes)});
}
// a compiler without __has_builtin counts as one without builtin functions
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
% if spec.prefetch:
#define AHEAD (2048 / (int)sizeof(real))   // prefetch distance in the backward sweep

static void fetch(__global const real *a)
{
% if spec.prefetch == "builtin":
    __builtin_prefetch((const void *)(size_t)a);
% else:
    prefetch(a, 1);
% endif
}
% endif
% if local and spec.streaming and not spec.natural:
// bypass the caches, as nothing reads x again here; `place` must be a multiple of W
static void put(__global real *a, long place, value v)
{
#if __has_builtin(__builtin_nontemporal_store)
    __builtin_nontemporal_store(v, (__global value *)(a + place));
#else
    store(a, place, v);
#endif
}
% endif

// The hint keeps Intel's CPU runtime from vectorising over work-items: its compiler crashes.
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float4)))
void solve(${signature(spec)})
{
% if local:
    __local value kept[${spec.capacity // W * 2}];   // a row's f and g side by side
% endif
    __local real lost[${spec.slots // W} * SLOT] __attribute__((aligned(128)));
    const int block = get_group_id(0);
    const int start = block_start[block];
    const int first = template_vectors[block_template[block]];
    const int end = template_vectors[block_template[block] + 1];
    const long stride = num_values;   // between right-hand sides
    b += first_row * stride;
    x += first_row * stride;
    factor += start;
% if spec.natural:
    gather += start;
    // `home` is a node that only this work-item writes
    const places tops = indices(gather, vector_place[first] + (vector_rows[first] - 1) * W);
    const places home = ${"max(" * (W - 1)}tops${lanes[0]}${"".join(f", tops{c})" for c in lanes[1:])};
% else:
    d += start;
    u += start;
% if not spec.symmetric:
    l += start;
% endif
    b += start;
    x += start;
% endif
    for (int c = block_cells[block]; c < block_cells[block + 1]; ++c) status[cell_number[c]] = 0;
% if spec.reads_cells:
    // read one value per cache line in memory order, which fills the cache
    real met = 0;
    for (int c = block_cells[block]; c < block_cells[block + 1]; ++c) {
        const int last = cell_start[cell_number[c] + 1] - 1;
        for (int k = cell_start[cell_number[c]]; k <= last; k += LINE)
            met += d[k] + u[k]${"" if spec.symmetric else " + l[k]"} + b[k];
        met += d[last] + u[last]${"" if spec.symmetric else " + l[last]"} + b[last];
    }
    lost[0] = met;   // so that compilers keep the reads
% endif
    for (int k = 0; k < SLOT; ++k) lost[k] = 0;

    // backward sweep: from the tips to the root
    for (int v = first; v < end; ++v) {
        const int rows = vector_rows[v], even = vector_even[v];
        __local real *own = lost + (v - first + 1) * SLOT;
        value child_d = 0, child_b[RHS];
% if not spec.symmetric:
        value child_change = 0;   // sum of the contributions' magnitudes
        mask small = -1;   // lanes whose pivots are finite, and below GROWTH times their diagonals
% endif
        for (int r = 0; r < RHS; ++r) child_b[r] = 0;
        for (int round = vector_rounds[v]; round < vector_rounds[v + 1]; ++round) {
            const int whole = round_vector[round];
            if (whole >= 0) {   // the children are one vector's lanes, in order
                __local const value *from = (__local const value *)(lost + whole * SLOT);
                child_d += from[0];
% if not spec.symmetric:
                child_change += fabs(from[0]);
% endif
                for (int r = 0; r < RHS; ++r) child_b[r] += from[1 + r];
            } else {
                const places child = indices(round_child, round * W);
% if spec.symmetric:
                child_d += collect(lost, child);
% else:
                const value from_child = collect(lost, child);
                child_d += from_child;
                child_change += fabs(from_child);
% endif
                for (int r = 0; r < RHS; ++r) child_b[r] += collect(lost + (1 + r) * W, child);
            }
        }
        value sum_d = child_d, sum_b[RHS], least = 1${", most = 1" if spec.symmetric else ""};
        for (int r = 0; r < RHS; ++r) sum_b[r] = child_b[r];
        mask wrong;
        int place = vector_place[v];
        const int top = place + (rows - 1) * W;
        if (even < rows) {
            const mask length = widen(indices(lane_length, v * W));
            for (int j = rows - 1; j >= even; --j, place += W) {
                const mask active = length > (mask)(j);
${indent(capture(row, "ragged"), "    ")}\
            }
        }
        for (; place < top; place += W) {
${row("full")}\
        }
        {
            const mask inner = widen(indices(lane_parent, v * W)) > (mask)(0);
${row("top")}\
            *(__local value *)own = sum_d;
            for (int r = 0; r < RHS; ++r) ((__local value *)own)[1 + r] = sum_b[r];
            // a NaN shows in the last pivot, but not in least and most
% if spec.symmetric:
            wrong = !(least > (value)(SMALLEST)) | !(most < (value)(LARGEST)) | (pivot != pivot);
% else:
            wrong = !(least > (value)(SMALLEST)) | (pivot != pivot);
            small &= !(child_change > GROWTH * fabs(child_d));   // false if contributions cancel
% endif
        }
% if W > 1:
        if (!any(${"wrong" if spec.symmetric else "wrong | ~small"})) continue;
% else:
        if (!${"wrong" if spec.symmetric else "(wrong | ~small)"}) continue;
% endif

${part("solver/common/branch_find_bad", word=word)}\
    }

    // forward sweep: from the root to the tips
% if local and spec.streaming and not spec.natural:
    if (((size_t)x & (sizeof(value) - 1)) == 0) {
${indent(capture(forward, "put"), "    ")}\
    } else {
${indent(capture(forward, "store"), "    ")}\
    }
    mem_fence(CLK_GLOBAL_MEM_FENCE);
% else:
% if spec.natural:
    mask odd = 0;   // lanes with a solution that is not finite
% endif
${forward("store")}\
% if spec.natural:
    if (${"any(odd)" if W > 1 else "odd"}) status[cell_number[block_cells[block]]] |= ${spec.not_finite};
% endif
% endif
}
