<%page args="spec"/>\
<%
    M = spec.segment
    R = spec.rounds
    sym = spec.symmetric
    copies = -(-spec.capacity // spec.work_group)
    batch = 4
    # with a symmetric matrix A[v, parent] is A[parent, v]
    def lower(name): return name if sym else name.replace("up", "low", 1)
%>\
// Contraction: rake and compress, one work-group a block of cells, one work-item a segment.
// spec: ${spec}
// layout: segment rows; node j of all inner segments side by side, then node j + 1, and so on;
//         then the leaf segments likewise.
//
// A segment is a stretch of a branch of at most ${M} nodes. Its work-item eliminates all of them but
// the last, from the root outwards (each has one child), which leaves a tree with one node a
// segment. That tree is contracted in ${R} rounds: in each, independent nodes publish
// their row in local memory, and their neighbours fetch it; nothing is ever written by two.
//
// Eliminating v between parent a and child c, with up[v] = A[a, v] and low[v] = A[v, a]:
//     x[v] = g - f1 * x[a] - f2 * x[c],  g = b[v]/d[v], f1 = low[v]/d[v], f2 = up[c]/d[v]
//     d[a] -= up[v]*f1   b[a] -= up[v]*g   A[a, c] = -up[v]*f2
//     d[c] -= low[c]*f2  b[c] -= low[c]*g  A[c, a] = -low[c]*f1
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

#define WORK_GROUP ${spec.work_group}
#define CAPACITY ${spec.capacity}   // values of the largest block
#define SMALLEST (1 / ${"DBL_MAX" if spec.real == "double" else "FLT_MAX"})   // pivot with a finite inverse
#define NONE 0x3ff        // no such lane
#define MORE 0x400        // of a lane in a list: another one follows
#define CLEAN (1 << 30)   // the pivot was bad by itself

// What is known of the bad pivots of a segment after its node `node`, whose diagonal was `own`.
static int note(int bad, int node, real pivot, real own)
{
    if (pivot > (real)SMALLEST && pivot < (real)INFINITY) return bad;
    if (isfinite(pivot) || !isfinite(own)) return node | CLEAN;   // bad by itself: deepest wins
    return bad ? bad : node;                                      // made bad by a neighbour
}

// The hint keeps Intel's CPU runtime from vectorising over work-items, which it gets wrong here.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1), vec_type_hint(float4)))
void solve(const int num_blocks, const int num_values, const int first_row,
           __global const int *restrict blocks, __global const int *restrict cell_number,
           __global const int *restrict rows, __global const int *restrict links,
           __global const int *restrict siblings, __global const int *restrict fetches,
           __global const int *restrict lane_slot, __global const int *restrict lane_rank,
           __global const real *d, __global const real *restrict u,
% if not sym:
           __global const real *restrict l,
% endif
           __global const real *b, __global real *x,
           __global int *status)   // a cell: 0, or the key of its first bad node
{
    b += (long)first_row * num_values;
    x += (long)first_row * num_values;
    const int lane = get_local_id(0);
    // start, size, first lane, lanes | inner lanes << 16, rows, fetches, first cell, end of cells
    const int8 block = vload8(get_group_id(0), blocks);
    const int first = block.s2, lanes = block.s3 & 0xffff, inner = block.s3 >> 16;

    // all values of the block, into local memory
    __global const real *block_d = d + block.s0, *block_u = u + block.s0, *block_b = b + block.s0;
    __local real node_d[CAPACITY], node_b[CAPACITY], node_up[CAPACITY];
% for start in range(0, copies, batch):
    {   // all loads first: they are then in flight together
<%  steps = range(start, min(copies, start + batch)) %>\
% for k in steps:
        const int i${k} = lane + ${k} * WORK_GROUP, in${k} = i${k} < block.s1;
        const real d${k} = in${k} ? block_d[i${k}] : (real)0;
        const real u${k} = in${k} ? block_u[i${k}] : (real)0;
        const real b${k} = in${k} ? block_b[i${k}] : (real)0;
% endfor
% for k in steps:
        if (in${k}) {
            node_d[i${k}] = d${k};
            node_up[i${k}] = u${k};
            node_b[i${k}] = b${k};
        }
% endfor
    }
% endfor

    // length | round << 5 | parent << 10 | first child << 20; parent | child << 10 at elimination
    const int2 me = lane < lanes ? vload2(first + lane, links) :
        (int2)(31 << 5 | NONE << 10 | NONE << 20, 0);   // idle: no nodes, no round, no neighbours
    const int length = me.x & 31, my_round = me.x >> 5 & 31, parent = me.x >> 10 & NONE;
    const int first_child = me.x >> 20 & (NONE | MORE);
    const int above = me.y & NONE, below = me.y >> 10 & NONE;
    __global const int *row = rows + block.s4 + (lane < inner ? 0 : ${M});
    const int column = lane < inner ? lane : lane - inner;
% if R:
    int fetch[${R}];   // of each round: head of the list of eliminated children | parent << 16
    for (int r = 0; r < ${R}; ++r)
        fetch[r] = lane < inner ? fetches[block.s5 + r * inner + lane] : NONE | NONE << 16;
% endif
    for (int c = block.s6 + lane; c < block.s7; c += WORK_GROUP) status[cell_number[c]] = 0;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    __local real pub_up[WORK_GROUP], pub_b[WORK_GROUP], pub_inverse[WORK_GROUP];
% if not sym:
    __local real pub_low[WORK_GROUP];
% endif
    __local real sum_b[WORK_GROUP];    // first what b of the parent loses; later f2
    __local real value[WORK_GROUP];    // first what d of the parent loses; later x

    // the segment: all nodes but the last
    int bad = 0;
    int place = column + (length ? row[0] : 0);
    real my_d = length ? node_d[place] : (real)1, my_b = length ? node_b[place] : (real)0;
    real my_up = parent == NONE ? (real)0 : node_up[place];
% if not sym:
    real my_low = parent == NONE ? (real)0 : l[block.s0 + place];
% endif
    real lost_d = 0, lost_b = 0;
    for (int j = 1; j < length; ++j) {
        const int next = column + row[j];
        const real inverse = (real)1 / my_d;
        bad = note(bad, j, my_d, node_d[place]);
        const real f1 = ${lower("my_up")} * inverse, g = my_b * inverse;
        const real f2 = node_up[next] * inverse;
        lost_d += my_up * f1;
        lost_b += my_up * g;
        const real low = ${"node_up[next]" if sym else "l[block.s0 + next]"};
        my_d = node_d[next] - low * f2;
        my_b = node_b[next] - low * g;
% if not sym:
        my_low = -low * f1;
% endif
        my_up = -my_up * f2;
        node_d[place] = f1;
        node_up[place] = f2;
        node_b[place] = g;
        place = next;
    }

    // round 0: leaves, and what every segment takes from its parent
    real last_f1 = 0, last_g = 0;
    if (my_round == 0) {
        const real inverse = (real)1 / my_d;
        bad = note(bad, length, my_d, node_d[place]);
        last_f1 = ${lower("my_up")} * inverse;
        last_g = my_b * inverse;
        lost_d += my_up * last_f1;
        lost_b += my_up * last_g;
    }
    value[lane] = lost_d;
    sum_b[lane] = lost_b;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    lost_d = lost_b = 0;
    for (int child = first_child; (child & NONE) != NONE;) {
        const int from = child & NONE;
        lost_d += value[from];
        lost_b += sum_b[from];
        child = child & MORE ? siblings[first + from] & 0xffff : NONE;
    }
    my_d -= lost_d;
    my_b -= lost_b;

% if R:
    // rounds
% for r in range(1, R + 1):
    if (my_round == ${r}) {
        const real inverse = (real)1 / my_d;
        bad = note(bad, length, my_d, node_d[place]);
        last_f1 = ${lower("my_up")} * inverse;
        last_g = my_b * inverse;
        pub_up[lane] = my_up;
% if not sym:
        pub_low[lane] = my_low;
% endif
        pub_b[lane] = my_b;
        pub_inverse[lane] = inverse;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int child = fetch[${r - 1}] & 0xffff; (child & NONE) != NONE;) {
        const int from = child & NONE;
        const real scaled = pub_up[from] * pub_inverse[from];
        my_d -= scaled * ${lower("pub_up")}[from];
        my_b -= scaled * pub_b[from];
        child = child & MORE ? siblings[first + from] >> 16 : NONE;
    }
    {
        const int from = fetch[${r - 1}] >> 16;
        if (from != NONE) {
            const real f2 = my_up * pub_inverse[from];
% if sym:
            my_d -= my_up * f2;
            my_b -= f2 * pub_b[from];
% else:
            const real scaled = my_low * pub_inverse[from];
            my_d -= my_low * f2;
            my_b -= scaled * pub_b[from];
            my_low = -scaled * pub_low[from];
% endif
            my_up = -pub_up[from] * f2;
            sum_b[from] = f2;
        }
    }
% endfor
% endif

    // roots
    real my_x = 0;
    if (my_round == ${R + 1}) {
        const real inverse = (real)1 / my_d;
        bad = note(bad, length, my_d, node_d[place]);
        my_x = my_b * inverse;
        value[lane] = my_x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // back, rounds in reverse
% for r in range(R, -1, -1):
    if (my_round == ${r}) {
        my_x = last_g - last_f1 * value[above];
% if r:
        if (below != NONE) my_x -= sum_b[lane] * value[below];
% endif
        value[lane] = my_x;
    }
% if r:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
% endfor
    const real top = parent == NONE ? (real)0 : value[parent];
    if (length) node_b[place] = my_x;
    for (int j = length - 2; j >= 0; --j) {
        place = column + row[j];
        my_x = node_b[place] - node_d[place] * top - node_up[place] * my_x;
        node_b[place] = my_x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% for k in range(copies):
    if (lane + ${k} * WORK_GROUP < block.s1)
        x[block.s0 + lane + ${k} * WORK_GROUP] = node_b[lane + ${k} * WORK_GROUP];
% endfor

    if (bad)   // bad ones by themselves go first, and the deepest of them, whoever finds it
        atomic_max(status + cell_number[block.s6 + lane_slot[first + lane]],
                   lane_rank[first + lane] + bad);
}
