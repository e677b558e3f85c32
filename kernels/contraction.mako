<%page args="spec"/>\
<%
    M = spec.segment
    sym = spec.symmetric
    V = 16 // (8 if spec.real == "double" else 4)   # values of a chunk of 16 bytes
    chunks = spec.capacity // V
    copies = -(-chunks // spec.work_group)
    batch = 4
    # with a symmetric matrix A[v, parent] is A[parent, v]
    def lower(name): return name if sym else name.replace("up", "low", 1)
%>\
// Contraction: rake and compress, one work-group a block of cells, one work-item a segment.
// spec: ${spec}
// layout: segment rows; the first nodes of all inner segments side by side, then the second ones,
//         and so on; then the last nodes of all leaf segments, the ones before these, ...
//
// A segment is a stretch of a branch of at most ${M} nodes. A leaf segment is eliminated from its
// tip. An inner one is eliminated from the root outwards (each node has one child) but for its
// last node, which leaves a tree with one node an inner segment. That tree is contracted in
// rounds: in each, independent nodes hand their row to the parent and child that they then have;
// nothing is ever written by two.
//
// Eliminating v between parent a and child c, with up[v] = A[a, v] and low[v] = A[v, a]:
//     x[v] = g - f1 * x[a] - f2 * x[c],  g = b[v]/d[v], f1 = low[v]/d[v], f2 = up[c]/d[v]
//     d[a] -= up[v]*f1   b[a] -= up[v]*g   A[a, c] = -up[v]*f2
//     d[c] -= low[c]*f2  b[c] -= low[c]*g  A[c, a] = -low[c]*f1
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
typedef ${spec.real}${V} chunk;   // 16 bytes

#define WORK_GROUP ${spec.work_group}
#define CAPACITY ${spec.capacity}   // values of the largest block
#define SMALLEST (1 / ${"DBL_MAX" if spec.real == "double" else "FLT_MAX"})   // pivot with a finite inverse
#define D(k) node[k]                   // of node k in the block
#define U(k) node[CAPACITY + (k)]
#define B(k) node[2 * CAPACITY + (k)]
#define NONE 0x3ff        // no such lane
#define CLEAN (1 << 30)   // the pivot was bad by itself
#define GOOD ${"0x7fe00000u" if spec.real == "double" else "0x7f000000u"}   // see `measure`

// What is known of the bad pivots of a segment after its node `node`, whose diagonal was `own`.
static int note(int bad, int node, real pivot, real own)
{
    if (pivot > (real)SMALLEST && pivot < (real)INFINITY) return bad;
    if (isfinite(pivot)${"" if spec.derived else " || !isfinite(own)"}) return max(bad, node | CLEAN);   // by itself
    return bad ? bad : node;                                                // made so by another
}

// Below `GOOD` exactly where the pivot is positive and normal: its exponent, one subtracted.
static uint measure(real pivot)
{
% if spec.real == "double":
    return (uint)(as_long(pivot) >> 32) - 0x00100000u;
% else:
    return as_uint(pivot) - 0x00800000u;
% endif
}

static real reciprocal(real pivot)
{
% if spec.ptx and spec.real == "double":
    real y;   // good to 20 bits and more; one step of third order
    __asm__("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(pivot));
    const real e = fma(-pivot, y, (real)1);
    return fma(y, fma(e, e, e), y);
% else:
    return (real)1 / pivot;
% endif
}

% if spec.ptx:
static void copy_chunk(__local chunk *to, __global const chunk *from)
{
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"((uint)(size_t)to), "l"(from) : "memory");
}

% endif
// The pivots of a segment again, to find the bad ones: those of its nodes but a kept last one.
static int find_bad(__global const real *d, __global const real *u, __global const real *l,
                    __local const int *row, int column, int length, bool leaf)
{
    const int pivots = leaf ? length : length - 1;
    int bad = 0, place = row[0] + column;
    real pivot = d[place];
    for (int j = 0; j < pivots; ++j) {
        bad = note(bad, leaf ? length - j : j + 1, pivot, d[place]);
        if (j + 1 == pivots) break;
        const int next = row[j + 1] + column, tie = leaf ? place : next;
        pivot = d[next] - l[tie] * (u[tie] * reciprocal(pivot));
        place = next;
    }
    return bad;
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void solve(const int num_blocks, const int num_values, const int first_row,
           __global const int *restrict blocks, __global const int *restrict cell_number,
           __global const int *restrict rows, __global const int *restrict links,
           __global const int *restrict children, __global const int *restrict lane_slot,
           __global const int *restrict lane_rank,
% if spec.shared:
           __global const int *restrict node_rank,
% endif
% if spec.phase != "solve":
           __global const int *restrict kept_start, __global const int *restrict kept,
% endif
           __global const real *d, __global const real *restrict u,
% if not sym:
           __global const real *restrict l,
% endif
           __global const real *b,
% if spec.phase == "reduce":
           __global real *rest_d, __global real *rest_u,
% if not sym:
           __global real *rest_l,
% endif
           __global real *rest_b,
% else:
% if spec.phase == "expand":
           __global const real *rest_x,
% endif
           __global real *x,
% endif
           __global int *status)   // a cell: 0, or the key of its first bad node
{
    b += (long)first_row * num_values;
% if spec.phase != "reduce":
    x += (long)first_row * num_values;
% endif
    const int lane = get_local_id(0);
    // start, size, first lane, lanes | inner lanes << 16, rows, rounds, first cell, end of cells
    const int8 block = vload8(get_group_id(0), blocks);
    const int first = block.s2, lanes = block.s3 & 0xffff, inner = block.s3 >> 16;

    // the block's tables: length | longest of these lanes << 5 | parent << 10 | mailbox << 20;
    // round | parent << 10 | child << 20 at elimination
    const int2 me = lane < lanes ? vload2(first + lane, links) : (int2)(NONE << 10, NONE);
    const int family = lane < inner ? children[first + lane] : 0;
    const int length = me.x & 31, longest = me.x >> 5 & 31;
    const int parent = me.x >> 10 & NONE, mailbox = me.x >> 20 & NONE;
    const int my_round = me.y & NONE, above = me.y >> 10 & NONE, below = me.y >> 20 & NONE;

    // all values of the block, into local memory
    __local real node[3 * CAPACITY] __attribute__((aligned(16)));
    const int num_chunks = block.s1 / ${V};
% if spec.ptx:
    {   // past the registers, all in flight
        __local chunk *to = (__local chunk *)node + lane;
        __global const chunk *from_d = (__global const chunk *)(d + block.s0) + lane;
        __global const chunk *from_u = (__global const chunk *)(u + block.s0) + lane;
        __global const chunk *from_b = (__global const chunk *)(b + block.s0) + lane;
% for k in range(copies):
        if (lane + ${k} * WORK_GROUP < num_chunks) {
            copy_chunk(to + ${k} * WORK_GROUP, from_d + ${k} * WORK_GROUP);
            copy_chunk(to + ${k} * WORK_GROUP + CAPACITY / ${V}, from_u + ${k} * WORK_GROUP);
            copy_chunk(to + ${k} * WORK_GROUP + 2 * CAPACITY / ${V}, from_b + ${k} * WORK_GROUP);
        }
% endfor
    }
% else:
% for start in range(0, copies, batch):
    {   // all loads first: they are then in flight together
<%  steps = range(start, min(copies, start + batch)) %>\
        __global const chunk *from_d = (__global const chunk *)(d + block.s0) + lane;
        __global const chunk *from_u = (__global const chunk *)(u + block.s0) + lane;
        __global const chunk *from_b = (__global const chunk *)(b + block.s0) + lane;
% for k in steps:
        chunk d${k}, u${k}, b${k};
        if (lane + ${k} * WORK_GROUP < num_chunks) {
            d${k} = from_d[${k} * WORK_GROUP];
            u${k} = from_u[${k} * WORK_GROUP];
            b${k} = from_b[${k} * WORK_GROUP];
        }
% endfor
% for k in steps:
        if (lane + ${k} * WORK_GROUP < num_chunks) {
            ((__local chunk *)&D(0))[lane + ${k} * WORK_GROUP] = d${k};
            ((__local chunk *)&U(0))[lane + ${k} * WORK_GROUP] = u${k};
            ((__local chunk *)&B(0))[lane + ${k} * WORK_GROUP] = b${k};
        }
% endfor
    }
% endfor
% endif

    __local int row_start[${2 * M}];   // of the inner segments, then of the leaves
    for (int k = lane; k < ${2 * M}; k += WORK_GROUP) row_start[k] = rows[block.s4 + k];
% if spec.ptx:
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);   // x may be b: read before written

    // the segments; what d and b of the parent lose by them goes into the mailbox
    __local real lost_d[WORK_GROUP], lost_b[WORK_GROUP];
    const bool is_inner = lane < inner, is_leaf = lane < lanes && !is_inner;
    const int column = is_inner ? lane : lane - inner;
    __local const int *row = row_start + (is_inner ? 0 : ${M});
    uint worst = 0;
    int place = column + row[0];
    real my_d = 0, my_b = 0, my_up = 0, sum_d = 0, sum_b = 0, own = 1;
% if not sym:
    real my_low = 0;
% endif
    if (length) {
        my_d = own = D(place);
        my_b = B(place);
% if spec.phase == "solve":
        my_up = parent == NONE ? (real)0 : U(place);
% if not sym:
        my_low = parent == NONE ? (real)0 : l[block.s0 + place];
% endif
% else:   # the first node of a piece is kept, with its edge
        my_up = U(place);
% if not sym:
        my_low = l[block.s0 + place];
% endif
% endif
    }
    if (is_inner) {
% for j in range(1, M):
        if (length > ${j}) {
            const int next = column + row[${j}];
            const real up = U(next), next_d = D(next), next_b = B(next);
            const real low = ${"up" if sym else "l[block.s0 + next]"};
            const real inverse = reciprocal(my_d);
            worst = max(worst, measure(my_d));
            const real f1 = ${lower("my_up")} * inverse, f2 = up * inverse, g = my_b * inverse;
            sum_d += my_up * f1;
            sum_b += my_up * g;
            my_d = next_d - low * f2;
            my_b = next_b - low * g;
            my_up = -my_up * f2;
% if not sym:
            my_low = -low * f1;
% endif
            D(place) = f1;
            U(place) = f2;
            B(place) = g;
            own = next_d;
            place = next;
% endfor
        ${"}" * (M - 1)}
    } else if (length) {
% for j in range(M):
% if j:
        if (length > ${j}) {
            const int next = column + row[${j}];
            const real next_d = D(next), next_b = B(next), next_up = U(next);
% else:
        {
% endif
% if j:
            my_d = next_d - sum_d;
            my_b = next_b - sum_b;
            my_up = next_up;
            place = next;
% if not sym:
            my_low = l[block.s0 + next];
% endif
% endif
            const real inverse = reciprocal(my_d);
            worst = max(worst, measure(my_d));
            const real f = ${lower("my_up")} * inverse, g = my_b * inverse;
            sum_d = my_up * f;
            sum_b = my_up * g;
            D(place) = f;
            B(place) = g;
% endfor
        ${"}" * M}
    }
    int bad = 0;
    if (worst >= GOOD)
        bad = find_bad(d + block.s0, u + block.s0, ${"u" if sym else "l"} + block.s0, row, column,
                       length, is_leaf);
    if (lane < lanes) {
        lost_d[mailbox] = sum_d;
        lost_b[mailbox] = sum_b;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // rows of what is left, where u of the leaves was: d and b less what came from below, u, and
    // what d and b lose from above
    __local real *tree_d = &U(row_start[${M}]), *tree_b = tree_d + inner;
    __local real *tree_up = tree_b + inner, *above_d = tree_up + inner, *above_b = above_d + inner;
% if not sym:
    __local real tree_low[WORK_GROUP];
% endif
    if (is_inner) {
        for (int k = family & 0xffff; k < (family & 0xffff) + (family >> 16); ++k) {
            my_d -= lost_d[k];
            my_b -= lost_b[k];
        }
        tree_d[lane] = my_d;
        tree_b[lane] = my_b;
        tree_up[lane] = my_up;
% if not sym:
        tree_low[lane] = my_low;
% endif
        above_d[lane] = 0;
        above_b[lane] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // rounds
    __local int *cell_bad = (__local int *)lost_d;   // of each cell of the block
    if (lane < block.s7 - block.s6) cell_bad[lane] = 0;
    real f1 = 0, f2 = 0, g = 0;
    for (int r = 0; r < block.s5; ++r) {
        if (is_inner && my_round == r) {
            const int other = below == NONE ? lane : below;
            const real pivot = tree_d[lane] - above_d[lane], inverse = reciprocal(pivot);
            const real up = tree_up[lane], rest = tree_b[lane] - above_b[lane];
            const real next = tree_up[other];
            const real next_d = above_d[other], next_b = above_b[other];
            const real its_d = tree_d[above], its_b = tree_b[above];
            if (measure(pivot) >= GOOD) bad = note(bad, length, pivot, own);
            f1 = ${"up" if sym else "tree_low[lane]"} * inverse;
            g = rest * inverse;
            tree_d[above] = its_d - up * f1;
            tree_b[above] = its_b - up * g;
            if (below != NONE) {
                const real low = ${"next" if sym else "tree_low[below]"};
                f2 = next * inverse;
                tree_up[below] = -up * f2;
% if not sym:
                tree_low[below] = -low * f1;
% endif
                above_d[below] = next_d + low * f2;
                above_b[below] = next_b + low * g;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

% if spec.phase == "reduce":
    // what is kept
    if (is_inner && my_round == NONE) {
        const int place = kept[kept_start[get_group_id(0)] + above];
        rest_d[place] = tree_d[lane] - above_d[lane];
        rest_b[place] = tree_b[lane] - above_b[lane];
        rest_u[place] = tree_up[lane];
% if not sym:
        rest_l[place] = tree_low[lane];
% endif
    }
    if (lane < block.s7 - block.s6) status[cell_number[block.s6 + lane]] = 0;
}
<% return STOP_RENDERING %>\
% endif
    // ${"the roots" if spec.phase == "solve" else "what was kept"}, and back, rounds in reverse
    real my_x = 0;
    if (is_inner && my_round == NONE) {
% if spec.phase == "solve":
        const real pivot = tree_d[lane] - above_d[lane];
        bad = note(bad, length, pivot, own);
        my_x = (tree_b[lane] - above_b[lane]) / pivot;
% else:
        my_x = rest_x[kept[kept_start[get_group_id(0)] + above]];
% if not spec.derived:
        if (!isfinite(own)) bad = max(bad, length | CLEAN);
% endif
% endif
        tree_b[lane] = my_x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int r = block.s5 - 1; r >= 0; --r) {
        if (is_inner && my_round == r) {
            my_x = g - f1 * tree_b[above];
            if (below != NONE) my_x -= f2 * tree_b[below];
            tree_b[lane] = my_x;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    // segments outwards, four nodes at a time, the lanes in step
    const real top = parent == NONE ? (real)0 : tree_b[parent];
    __global real *out = x + block.s0;
    if (is_inner) {
        out[place] = my_x;
% for j in range((M - 2) // 4 * 4, -1, -4):
<%  steps = [k for k in range(j + 3, j - 1, -1) if k < M - 1] %>\
        if (longest > ${j + 1}) {
% for k in steps:
            const int p${k} = column + row[${k}];
            real g${k} = 0, f${k} = 0, e${k} = 0;
            if (length > ${k + 1}) {
                g${k} = B(p${k});
                f${k} = D(p${k});
                e${k} = U(p${k});
            }
% endfor
% for k in steps:
            if (length > ${k + 1}) out[p${k}] = my_x = g${k} - f${k} * top - e${k} * my_x;
% endfor
        }
% endfor
    } else if (length) {
        my_x = top;
% for j in range((M - 1) // 4 * 4, -1, -4):
<%  steps = [k for k in range(j + 3, j - 1, -1) if k < M] %>\
        if (longest > ${j}) {
% for k in steps:
            const int p${k} = column + row[${k}];
            real g${k} = 0, f${k} = 0;
            if (length > ${k}) {
                g${k} = B(p${k});
                f${k} = D(p${k});
            }
% endfor
% for k in steps:
            if (length > ${k}) out[p${k}] = my_x = g${k} - f${k} * my_x;
% endfor
        }
% endfor
    }
    if (bad) {   // bad ones by themselves go first, and the deepest of them, whoever finds it
% if spec.shared:
        const int node = (bad & ~CLEAN) - 1, at = row[is_leaf ? length - 1 - node : node] + column;
        const int key = (bad & CLEAN) | (node_rank[block.s0 + at] + 1);
% else:
        const int key = lane_rank[first + lane] + bad;
% endif
        atomic_max(cell_bad + lane_slot[first + lane], key);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% if spec.shared:
    if (lane < block.s7 - block.s6 && cell_bad[lane])
        atomic_max(status + cell_number[block.s6 + lane], cell_bad[lane]);
% else:
    if (lane < block.s7 - block.s6) status[cell_number[block.s6 + lane]] = cell_bad[lane];
% endif
}
