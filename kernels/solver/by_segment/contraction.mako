<%page args="spec"/>\
<%
    M, V, sym = spec.segment, spec.chunk, spec.symmetric
    left = 2 * (spec.eliminates + spec.solves) + 1     # values per node of the contracted tree
    values = len(spec.local_arrays) * spec.capacity + max(0, spec.tree_places - spec.capacity)
    link, then = spec.link, spec.at_elimination
    lost = " and ".join([*(["d"] if spec.eliminates else []), *(["b"] if spec.solves else [])])
%>\
// Contraction (rake and compress): a work-group per block of cells, a work-item per segment.
// spec: ${spec}
// layout: segment rows; all inner segments' first nodes side by side, then their second
//         nodes, and so on; then all leaf segments' last nodes, the nodes before these, ...
//
// A segment is a run of up to ${M} nodes in a branch:
//
//     root  o-o-O---o-o-O---o-o-o
//               |       |
//               o-o     o-o-o         O: an inner segment's last node; segments without O are leaves
//
// 1. A leaf segment is eliminated from its tip. An inner segment is eliminated from the root's end
//    outwards, except for its last node: a tree with one node per inner segment remains.
// 2. This tree is contracted in rounds. In a round independent nodes are eliminated, each with at
//    most one child left, and update their present parent and child. No two nodes in a round are
//    neighbours, so no value is written by two work-items.
// 3. The root is solved; then the rounds, and the segments' nodes, in reverse order.
//
// Eliminating v between parent a and child c, with up[v] = A[a, v] and low[v] = A[v, a]:
//     x[v] = g - f1 * x[a] - f2 * x[c],  g = b[v]/d[v], f1 = low[v]/d[v], f2 = up[c]/d[v]
//     d[a] -= up[v]*f1   b[a] -= up[v]*g   A[a, c] = -up[v]*f2
//     d[c] -= low[c]*f2  b[c] -= low[c]*g  A[c, a] = -low[c]*f1
% if spec.direct:
//
// Values are read from global memory into registers; only the contracted tree is in local memory.
% elif spec.natural:
//
// d, u, b and x are in natural order; values are rearranged on their way to local memory.
% endif
% if spec.makes:
//
// This kernel writes only the inverse pivots, each at its node's index.
% elif spec.uses:
//
// d has the inverse pivots from an earlier launch.
% endif
//
// Arguments; b and x have num_values values per row; a launch solves row first_row:
${part("solver/common/arguments")}\
//             The bit CLEAN says that no other bad pivot has caused this one.
//   blocks       eight numbers per block, see the kernel
//   cell_number  cells, block after block
//   rows         where each row of inner segments starts in the block, then each row of leaves
//   links        two words per lane: its segment, and its node in the contracted tree
//   children     mailboxes (local memory for contributions to a parent) of each inner lane's children, packed
//   lane_slot    the lane's cell, as a number in the block
//   lane_rank    the segment's first node, as a position in its cell, see status
% if spec.shared:
//   node_rank    each node's position in its cell, if blocks have pieces of cells
% endif
% if spec.of_pieces:
//   kept_start   each block's first entry in kept;  kept: each kept node's index in the reduced system
% endif
% if spec.natural:
//   gather       the node at each device index;  order, ...: see `natural_order` in solver/plan/layout.py
% endif
${part("solver/common/precision")}\
% if not spec.fused:
#pragma OPENCL FP_CONTRACT OFF   // Intel's CPU runtime fuses across barriers, with stale values
% endif
typedef ${spec.real}${V} chunk;   // 16 bytes

#define WORK_GROUP ${spec.work_group}
% if not spec.direct:
#define CAPACITY ${spec.capacity}   // values in the largest block
#define D(k) node[k]                   // ${"inverse pivot" if spec.uses else "diagonal"} of node k in the block
% if spec.solves:
#define B(k) node[CAPACITY + (k)]
#define U(k) node[2 * CAPACITY + (k)]
% else:
#define U(k) node[CAPACITY + (k)]
% endif
% endif
#define NONE ${hex(link.most("parent"))}        // no lane
% if spec.eliminates:
${part("solver/common/pivots")}\
% endif
${part("solver/common/block_copies")}\
% if spec.eliminates:
// Find a segment's bad pivot by eliminating it again, except for an inner segment's last node.
static int find_bad(__global const real *d, __global const real *u, __global const real *l,
% if spec.natural:
                    __global const int *gather,
% endif
                    __local const int *row, int column, int length, bool leaf)
{
<% def where(row): return f"gather[{row} + column]" if spec.natural else f"{row} + column" %>\
    const int pivots = leaf ? length : length - 1;
    int bad = 0, place = ${where("row[0]")};
    real pivot = d[place];
    for (int j = 0; j < pivots; ++j) {
        bad = note(bad, leaf ? length - j : j + 1, pivot, d[place]);
        if (j + 1 == pivots) break;
        const int next = ${where("row[j + 1]")}, tie = leaf ? place : next;
        pivot = d[next] - l[tie] * (u[tie] * reciprocal(pivot));
        place = next;
    }
    return bad;
}

% endif
// The hint keeps Intel's CPU runtime from vectorising over work-items: its code would be wrong.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1), vec_type_hint(float4)))
void solve(${signature(spec)})
{
% if spec.solves:
    b += (long)first_row * num_values;
% endif
% if spec.solves and not spec.reduces:
    x += (long)first_row * num_values;
% endif
    const int lane = get_local_id(0);
% if spec.expands:
    const bool whole = get_group_id(0) >= num_blocks;   // the block has whole cells, not pieces
% endif
    // s0: start of the block's values; s1: their number; s2: first lane; s3: ${spec.lane_counts};
    // s4: first entry in `rows`; s5: round count; s6 and s7: first cell and end
    const int8 block = vload8(get_group_id(0), blocks);
% if spec.copies_bulk:
    // start to copy all the block's values into local memory, before any table is read
    __local real node[${values}] __attribute__((aligned(16)));
    __local ulong arrived;   // an mbarrier that counts bytes
    if (lane == 0) {
        const int bytes = block.s1 * (int)sizeof(real);
        __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"((uint)(size_t)&arrived) : "memory");
        __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __asm__ volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"((uint)(size_t)&arrived), "r"(${len(spec.local_arrays)} * bytes) : "memory");
% for a in spec.local_arrays:
        copy_bulk(&${a.upper()}(0), ${a} + block.s0, bytes, &arrived);
% endfor
    }
% endif
    const int first = block.s2, lanes = ${spec.lane_counts.read("lanes", "block.s3")}, inner = ${spec.lane_counts.read("inner_lanes", "block.s3")};

    // me.x: ${link}; me.y, at elimination: ${then}
    const int2 me = lane < lanes ? vload2(first + lane, links) : (int2)(${link.write(parent="NONE")}, ${then.write(round="NONE")});
    const int family = lane < inner ? children[first + lane] : 0;
    const int length = ${link.read("length", "me.x")}, longest = ${link.read("longest", "me.x")};
    const int parent = ${link.read("parent", "me.x", "NONE")}, mailbox = ${link.read("mailbox", "me.x", "NONE")};
    const int my_round = ${then.read("round", "me.y", "NONE")}, above = ${then.read("parent", "me.y", "NONE")}, below = ${then.read("child", "me.y", "NONE")};

% if not spec.direct:
% if not spec.copies_bulk:
    // copy all the block's values into local memory
    __local real node[${values}] __attribute__((aligned(16)));
% endif
% if spec.natural:
${part("solver/common/load_natural")}\
% elif not spec.copies_bulk:
    const int num_chunks = block.s1 / ${V};
% endif
% if not spec.natural and not spec.copies_bulk:
${part("solver/common/load_chunks")}\
% endif

% endif
    __local int row_start[${2 * M}];   // for inner segments, then for leaves
    for (int k = lane; k < ${2 * M}; k += WORK_GROUP) row_start[k] = rows[block.s4 + k];
% if spec.ptx and not spec.direct and not spec.copies_bulk:
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);   // x may be b: all reads come first
% if spec.copies_bulk:
    int all = 0;
    do
        __asm__ volatile("{ .reg .pred all; mbarrier.try_wait.parity.shared::cta.b64 all, [%1], 0; selp.b32 %0, 1, 0, all; }"
                         : "=r"(all) : "r"((uint)(size_t)&arrived) : "memory");
    while (!all);
% endif

    // 1. segments; each puts its contribution to the parent's ${lost} into its mailbox
% if spec.direct:
    __local real tree[${left * spec.work_group}];
    __local real *lost_d = tree, *lost_b = tree + WORK_GROUP;
% else:
% if spec.eliminates:
    __local real lost_d[WORK_GROUP];
% endif
% if spec.solves:
    __local real lost_b[WORK_GROUP];
% endif
% endif
    const bool is_inner = lane < inner, is_leaf = lane < lanes && !is_inner;
    const int column = is_inner ? lane : lane - inner;
    __local const int *row = row_start + (is_inner ? 0 : ${M});
% if spec.direct:
${part("solver/common/segment_registers")}\
% else:
${part("solver/common/segment_local")}\
% endif
% if spec.eliminates:
    int bad = 0;
    if (worst >= GOOD)
% if spec.natural:
        bad = find_bad(d, u, ${"u" if sym else "l"}, gather + block.s0, row, column, length, is_leaf);
% else:
        bad = find_bad(d + block.s0, u + block.s0, ${"u" if sym else "l"} + block.s0, row, column,
                       length, is_leaf);
% endif
% endif
    if (lane < lanes) {
% if spec.eliminates:
        lost_d[mailbox] = sum_d;
% endif
% if spec.solves:
        lost_b[mailbox] = sum_b;
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);

${part("solver/common/tree_rows")}
${part("solver/common/tree_rounds")}
% if spec.reduces:
${part("solver/common/tree_kept")}\
% elif spec.makes:
    if (is_inner && my_round == NONE) {   // the roots
        const real pivot = tree_d[lane] - above_d[lane];
        bad = note(bad, length, pivot, own);
        out[place] = 1 / pivot;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% else:
${part("solver/common/tree_back")}
${part("solver/common/segment_outwards")}\
% if spec.natural and not spec.direct:
${part("solver/common/store_natural")}\
% endif
% endif
% if spec.eliminates and not spec.reduces:
${part("solver/common/segment_status")}\
% endif
}
