<%page args="spec"/>\
<%
    M = spec.segment
    sym = spec.symmetric
    V = 16 // (8 if spec.real == "double" else 4)   # values of a chunk of 16 bytes
    chunks = spec.capacity // V
    copies = -(-chunks // spec.work_group)
    batch = 4
    make, use = spec.factor == "make", spec.factor == "use"
    eliminates, solves = not use, not make   # works on d, on b
    expands = spec.phase != "reduce"         # needs the factors of its nodes
    left = 2 * (eliminates + solves) + 1     # values of a node of the tree of segments
    arrays = "dbu" if solves else "du"   # in local memory; u last, see `tree_places`
    values = len(arrays) * spec.capacity + max(0, spec.tree_places - spec.capacity)
    steps_of_one = -(-spec.capacity // spec.work_group)   # with one value a lane and step
    batch_of_one = 12 if spec.ptx else batch
    # where the value at a place of the device order is in the arrays
    def at(place): return f"gather[block.s0 + {place}]" if spec.natural else f"block.s0 + {place}"
    direct = spec.direct                     # values in registers, not in local memory
    bulk = spec.bulk and not spec.natural
    # of the value whose place is `to{k}`: its natural index, and the place
    def index(k): return f"natural_index[block.s0 + k{k}]" if spec.of_pieces else f"cell_from[{order.read('cell', f'to{k}')}] + k{k}"
    def place_of(k): return f"to{k}" if spec.of_pieces else order.read("place", f"to{k}")
    # with a symmetric matrix A[v, parent] is A[parent, v]
    link, then, family, order = spec.link, spec.at_elimination, spec.family, spec.order
    def measure(pivot, own): return f"measure({pivot})" if sym else f"compare({pivot}, {own})"
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
% if direct:
//
// Values go from global memory into registers, and only the tree of segments is in local memory.
% elif spec.natural:
//
// d, u, b and x are in natural order; the values change places on their way to local memory.
% endif
% if make:
//
// Only the inverse pivots are written, each at the place of its node.
% elif use:
//
// The inverse pivots come in place of d; nothing of d is worked out again.
% endif
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

% if not spec.fused:
#pragma OPENCL FP_CONTRACT OFF   // Intel's CPU runtime fuses across barriers, with values gone by then
% endif
typedef ${spec.real} real;
typedef ${spec.real}${V} chunk;   // 16 bytes

#define WORK_GROUP ${spec.work_group}
% if not direct:
#define CAPACITY ${spec.capacity}   // values of the largest block
#define D(k) node[k]                   // ${"inverse pivot, " if use else ""}of node k in the block
% if solves:
#define B(k) node[CAPACITY + (k)]
#define U(k) node[2 * CAPACITY + (k)]
% else:
#define U(k) node[CAPACITY + (k)]
% endif
% endif
#define NONE ${hex(link.most("parent"))}        // no such lane
% if eliminates:
% if spec.ptx and spec.real == "double":   # whose reciprocal knows no subnormal numbers
#define SMALLEST DBL_MIN         // pivots between have a normal inverse
#define LARGEST (1 / DBL_MIN)
% else:
#define SMALLEST (1 / ${"DBL_MAX" if spec.real == "double" else "FLT_MAX"})   // finite inverse
#define LARGEST INFINITY
% endif
#define BAD (${spec.status.write(bad="1")})     // see STATUS in kernel_spec.py
#define CLEAN (${spec.status.write(clean="1")})   // the pivot was bad by itself
#define GOOD ${"0x7f000000u" if spec.real == "float" else "0x7fc00000u" if spec.ptx else "0x7fe00000u"}   // see `measure`

% if not spec.symmetric:
#define GROWTH ${spec.growth}   // of a diagonal by the elimination: above it digits are lost
% endif

// What is known of the bad pivots of a segment after its node `node`, whose diagonal was `own`.
static int note(int bad, int node, real pivot, real own)
{
    if (pivot > (real)SMALLEST && pivot < (real)LARGEST)
% if spec.symmetric:
        return bad;
% else:
        return bad || pivot <= GROWTH * fabs(own) ? bad : node;             // or its digits are lost
% endif
    if (isfinite(pivot)${"" if spec.derived else " || !isfinite(own)"}) return max(bad, node | BAD | CLEAN);   // by itself
    return bad & BAD ? bad : node | BAD;                                    // made so by another
}

// Below `GOOD` only where the pivot is positive, normal and below LARGEST: its upper bits.
static uint measure(real pivot)
{
% if spec.real == "double":
    return (uint)(as_long(pivot) >> 32) - 0x00100000u;
% else:
    return as_uint(pivot) - 0x00800000u;
% endif
}

% if not spec.symmetric:
// Below `GOOD` only where `measure` is, and the pivot is not more than `GROWTH` times its diagonal: a
// difference of upper bits is about that of exponents. It warns early; `note` decides.
static uint compare(real pivot, real own)
{
% if spec.real == "double":
    const uint grown = (uint)(as_long(pivot) >> 32) - ((uint)(as_long(own) >> 32) & 0x7fffffffu);
    return max(measure(pivot), grown + (GOOD - ((${spec.growth.bit_length() - 2}u) << 20)));
% else:
    const uint grown = as_uint(pivot) - (as_uint(own) & 0x7fffffffu);
    return max(measure(pivot), grown + (GOOD - ((${spec.growth.bit_length() - 2}u) << 23)));
% endif
}

% endif
${part("solver/common/reciprocal")}
% endif
% if bulk:
static void copy_bulk(__local real *to, __global const real *from, int bytes, __local ulong *arrived)
{
    __asm__ volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"((uint)(size_t)to), "l"(from), "r"(bytes), "r"((uint)(size_t)arrived) : "memory");
}

% elif not direct and spec.ptx and spec.natural:
static void copy_value(__local real *to, __global const real *from)
{
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], ${8 if spec.real == "double" else 4};"
                     :: "r"((uint)(size_t)to), "l"(from) : "memory");
}

% elif not direct and spec.ptx:
static void copy_chunk(__local chunk *to, __global const chunk *from)
{
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"((uint)(size_t)to), "l"(from) : "memory");
}

% endif
% if eliminates:
// The pivots of a segment again, to find the bad ones: those of its nodes but a kept last one.
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
// The hint keeps Intel's CPU runtime from vectorising over work-items, which it gets wrong here.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1), vec_type_hint(float4)))
void solve(${signature(spec)})   // a cell: 0, or the key of its first bad node
{
% if solves:
    b += (long)first_row * num_values;
% endif
% if solves and spec.phase != "reduce":
    x += (long)first_row * num_values;
% endif
    const int lane = get_local_id(0);
% if spec.phase == "expand":
    const bool whole = get_group_id(0) >= num_blocks;   // cells, not pieces of some
% endif
    // start, size, first lane, ${spec.lane_counts}, rows, rounds, first cell, end of cells
    const int8 block = vload8(get_group_id(0), blocks);
% if bulk:
    // all values of the block, into local memory, before any table is read
    __local real node[${values}] __attribute__((aligned(16)));
    __local ulong arrived;   // an mbarrier that counts bytes
    if (lane == 0) {
        const int bytes = block.s1 * (int)sizeof(real);
        __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"((uint)(size_t)&arrived) : "memory");
        __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __asm__ volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"((uint)(size_t)&arrived), "r"(${len(arrays)} * bytes) : "memory");
% for a in arrays:
        copy_bulk(&${a.upper()}(0), ${a} + block.s0, bytes, &arrived);
% endfor
    }
% endif
    const int first = block.s2, lanes = ${spec.lane_counts.read("lanes", "block.s3")}, inner = ${spec.lane_counts.read("inner_lanes", "block.s3")};

    // the block's tables: ${link} (longest: of these lanes);
    // ${then} at elimination
    const int2 me = lane < lanes ? vload2(first + lane, links) : (int2)(${link.write(parent="NONE")}, ${then.write(round="NONE")});
    const int family = lane < inner ? children[first + lane] : 0;
    const int length = ${link.read("length", "me.x")}, longest = ${link.read("longest", "me.x")};
    const int parent = ${link.read("parent", "me.x", "NONE")}, mailbox = ${link.read("mailbox", "me.x", "NONE")};
    const int my_round = ${then.read("round", "me.y", "NONE")}, above = ${then.read("parent", "me.y", "NONE")}, below = ${then.read("child", "me.y", "NONE")};

% if not direct:
% if not bulk:
    // all values of the block, into local memory
    __local real node[${values}] __attribute__((aligned(16)));
% endif
% if spec.natural:
    // value k of the block${", its natural index ascending in each piece: the place" if spec.of_pieces else f", cell after cell: {order}"}
    __global const int *my_order = order + order_start[2 * get_group_id(0)];
% if spec.reorders_cells:
    __global const int *base = cell_base + block.s6;   // of a cell: index of value k, less k
% endif
    const int num_nodes = order_start[2 * get_group_id(0) + 1];
% if not spec.reorders_cells:
% if not sym:
    __local real tree_low[WORK_GROUP];
% endif
% else:
    // these, fetched beside `order`, not after it
% if sym:
    __local int cell_from[WORK_GROUP];
% else:
    __local real tree_low[WORK_GROUP];
    __local int *cell_from = (__local int *)tree_low;   // until that is needed
% endif
    if (lane < block.s7 - block.s6) cell_from[lane] = base[lane];
% endif
% for start in range(0, steps_of_one, batch_of_one):
<%  steps = range(start, min(steps_of_one, start + batch_of_one)) %>\
    {
% for k in steps:
        const int k${k} = lane + ${k} * WORK_GROUP, to${k} = k${k} < num_nodes ? my_order[k${k}] : 0;
% endfor
% if not start and spec.reorders_cells:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
% for k in steps:
        const int from${k} = ${f"k{k} < num_nodes ? {index(k)} : 0" if spec.of_pieces else index(k)};
% endfor
% if not spec.ptx:
        real ${", ".join(f"{a}{k}" for a in arrays for k in steps)};
% for k in steps:
        if (k${k} < num_nodes) {
% for a in arrays:
            ${a}${k} = ${a}[from${k}];
% endfor
        }
% endfor
% endif
% for k in steps:
        if (k${k} < num_nodes) {
% for a in arrays:
% if spec.ptx:
            copy_value(&${a.upper()}(${place_of(k)}), ${a} + from${k});
% else:
            ${a.upper()}(${place_of(k)}) = ${a}${k};
% endif
% endfor
        }
% endfor
    }
% endfor
% elif not bulk:
    const int num_chunks = block.s1 / ${V};
% endif
% if spec.ptx and not spec.natural and not bulk:
    {   // past the registers, all in flight
        __local chunk *to = (__local chunk *)node + lane;
% for a in arrays:
        __global const chunk *from_${a} = (__global const chunk *)(${a} + block.s0) + lane;
% endfor
% for k in range(copies):
        if (lane + ${k} * WORK_GROUP < num_chunks) {
% for i, a in enumerate(arrays):
            copy_chunk(to + ${k} * WORK_GROUP + ${i} * CAPACITY / ${V}, from_${a} + ${k} * WORK_GROUP);
% endfor
        }
% endfor
    }
% elif not spec.natural and not bulk:
% for start in range(0, copies, batch):
    {   // all loads first: they are then in flight together
<%  steps = range(start, min(copies, start + batch)) %>\
% for a in arrays:
        __global const chunk *from_${a} = (__global const chunk *)(${a} + block.s0) + lane;
% endfor
% for k in steps:
        chunk ${", ".join(f"{a}{k}" for a in arrays)};
        if (lane + ${k} * WORK_GROUP < num_chunks) {
% for a in arrays:
            ${a}${k} = from_${a}[${k} * WORK_GROUP];
% endfor
        }
% endfor
% for k in steps:
        if (lane + ${k} * WORK_GROUP < num_chunks) {
% for a in arrays:
            ((__local chunk *)&${a.upper()}(0))[lane + ${k} * WORK_GROUP] = ${a}${k};
% endfor
        }
% endfor
    }
% endfor
% endif

% endif
    __local int row_start[${2 * M}];   // of the inner segments, then of the leaves
    for (int k = lane; k < ${2 * M}; k += WORK_GROUP) row_start[k] = rows[block.s4 + k];
% if spec.ptx and not direct and not bulk:
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);   // x may be b: read before written
% if bulk:
    int all = 0;
    do
        __asm__ volatile("{ .reg .pred all; mbarrier.try_wait.parity.shared::cta.b64 all, [%1], 0; selp.b32 %0, 1, 0, all; }"
                         : "=r"(all) : "r"((uint)(size_t)&arrived) : "memory");
    while (!all);
% endif

<%
    what = " and ".join([*(["d"] if eliminates else []), *(["b"] if solves else [])])
    rows_left = [*(["tree_d"] if eliminates else []), *(["tree_b"] if solves else []), "tree_up",
                 *(["above_d"] if eliminates else []), *(["above_b"] if solves else [])]
%>\
    // the segments; what ${what} of the parent lose${"" if "and" in what else "s"} by them goes into the mailbox
% if direct:
    __local real tree[${left * spec.work_group}];
    __local real *lost_d = tree, *lost_b = tree + WORK_GROUP;
% else:
% if eliminates:
    __local real lost_d[WORK_GROUP];
% endif
% if solves:
    __local real lost_b[WORK_GROUP];
% endif
% endif
    const bool is_inner = lane < inner, is_leaf = lane < lanes && !is_inner;
    const int column = is_inner ? lane : lane - inner;
    __local const int *row = row_start + (is_inner ? 0 : ${M});
% if direct:
${part("solver/common/segment_registers")}\
% else:
    int place = column + row[0];
    real my_up = 0;
% if not sym:
    real my_low = 0;
% endif
% if eliminates:
    uint worst = 0;
    real my_d = 0, sum_d = 0, own = 1;
% else:
    real inverse = 0;   // of the pivot of the node at `place`
% endif
% if solves:
    real my_b = 0, sum_b = 0;
% endif
% if spec.phase != "reduce":
% if spec.natural:
    __local real *out = &B(0);   // on its way to x
% else:
    __global real *out = ${"inverses" if make else "x"} + block.s0;
% endif
% endif
    if (length) {
% if eliminates:
        my_d = own = D(place);
% else:
        inverse = D(place);
% endif
% if solves:
        my_b = B(place);
% endif
% if spec.phase == "solve":
        my_up = parent == NONE ? (real)0 : U(place);
% if not sym:
        my_low = parent == NONE ? (real)0 : l[${at("place")}];
% endif
% elif spec.phase == "expand":
        my_up = whole && parent == NONE ? (real)0 : U(place);
% if not sym:
        my_low = whole && parent == NONE ? (real)0 : l[${at("place")}];
% endif
% else:   # the first node of a piece is kept, with its edge
        my_up = U(place);
% if not sym:
        my_low = l[${at("place")}];
% endif
% endif
    }
    if (is_inner) {
% for j in range(1, M):
        if (length > ${j}) {
            const int next = column + row[${j}];
            const real up = U(next), next_d = D(next)${", next_b = B(next)" if solves else ""};
            const real low = ${"up" if sym else f"l[{at('next')}]"};
% if eliminates:
            const real inverse = reciprocal(my_d);
            worst = max(worst, ${measure('my_d', 'own')});
% endif
            const real f1 = ${lower("my_up")} * inverse, f2 = up * inverse;
% if eliminates:
            sum_d += my_up * f1;
            my_d = next_d - low * f2;
            own = next_d;
% endif
% if solves:
            const real g = my_b * inverse;
            sum_b += my_up * g;
            my_b = next_b - low * g;
% if expands:
            D(place) = f1;
            U(place) = f2;
            B(place) = g;
% endif
% else:
            out[place] = inverse;
% endif
            my_up = -my_up * f2;
% if not sym:
            my_low = -low * f1;
% endif
% if use:
            inverse = next_d;
% endif
            place = next;
% endfor
        ${"}" * (M - 1)}
    } else if (length) {
% for j in range(M):
% if j:
        if (length > ${j}) {
            const int next = column + row[${j}];
            const real next_d = D(next), next_up = U(next)${", next_b = B(next)" if solves else ""};
% else:
        {
% endif
% if j:
% if eliminates:
            my_d = next_d - sum_d;
% if not sym:
            own = next_d;
% endif
% else:
            inverse = next_d;
% endif
% if solves:
            my_b = next_b - sum_b;
% endif
            my_up = next_up;
            place = next;
% if not sym:
            my_low = l[${at("next")}];
% endif
% endif
% if eliminates:
            const real inverse = reciprocal(my_d);
            worst = max(worst, ${measure('my_d', 'own')});
% endif
            const real f = ${lower("my_up")} * inverse;
% if eliminates:
            sum_d = my_up * f;
% endif
% if solves:
            const real g = my_b * inverse;
            sum_b = my_up * g;
% if expands:
            D(place) = f;
            B(place) = g;
% endif
% else:
            out[place] = inverse;
% endif
% endfor
        ${"}" * M}
    }
% endif
% if eliminates:
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
% if eliminates:
        lost_d[mailbox] = sum_d;
% endif
% if solves:
        lost_b[mailbox] = sum_b;
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // rows of what is left${"" if direct else ", where u of the leaves was"}: ${what} less what came from below, u, and
    // what ${what} lose${"" if "and" in what else "s"} from above
% for k, name in enumerate(rows_left):
% if direct:
    __local real *${name} = tree${f" + {k} * WORK_GROUP" if k else ""};
% else:
    __local real *${name} = &U(row_start[${M}])${f" + {k} * inner" if k else ""};
% endif
% endfor
% if not sym and (direct or not spec.natural):
    __local real tree_low[WORK_GROUP];
% endif
    if (is_inner) {
% if eliminates and not sym:
        real change = 0;   // of the diagonal: the sum of magnitudes
% endif
        for (int k = ${family.read("first_mailbox", "family")}; k < (${family.read("first_mailbox", "family")}) + (${family.read("number", "family")}); ++k) {
% if eliminates:
            my_d -= lost_d[k];
% if not sym:
            change += fabs(lost_d[k]);
% endif
% endif
% if solves:
            my_b -= lost_b[k];
% endif
        }
% if eliminates and not sym:
        if (change > GROWTH * fabs(own) && !bad) bad = length;
% endif
% if direct:
    }
    barrier(CLK_LOCAL_MEM_FENCE);   // the rows lie where the mailboxes were
    if (is_inner) {
% endif
        tree_up[lane] = my_up;
% if not sym:
        tree_low[lane] = my_low;
% endif
% if eliminates:
        tree_d[lane] = my_d;
        above_d[lane] = 0;
% endif
% if solves:
        tree_b[lane] = my_b;
        above_b[lane] = 0;
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // rounds
% if eliminates:
% if direct:
    __local int cell_bad[WORK_GROUP];   // of each cell of the block
% else:
    __local int *cell_bad = (__local int *)lost_d;   // of each cell of the block
% endif
    if (lane < block.s7 - block.s6) cell_bad[lane] = 0;
% endif
% if spec.flags_infinite:
    __local int odd;   // whether some value of x is not finite
    if (lane == 0) odd = 0;
% endif
% if solves:
    real f1 = 0, f2 = 0, g = 0;
% endif
    int r = 0;
    do {   // at least once: PoCL takes far longer to build loops that may not reach a barrier
        if (is_inner && my_round == r) {
            const int other = below == NONE ? lane : below;
            const real up = tree_up[lane], next = tree_up[other];
% if eliminates:
            const real pivot = tree_d[lane] - above_d[lane], inverse = reciprocal(pivot);
            const real next_d = above_d[other], its_d = tree_d[above];
% endif
% if solves:
            const real rest = tree_b[lane] - above_b[lane];
            const real next_b = above_b[other], its_b = tree_b[above];
% endif
% if eliminates:
            if (${measure('pivot', 'own')} >= GOOD) bad = note(bad, length, pivot, own);
% endif
            ${"const real " if make else ""}f1 = ${"up" if sym else "tree_low[lane]"} * inverse;
% if eliminates:
            tree_d[above] = its_d - up * f1;
% if not sym:
            if (fabs(up * f1) > GROWTH * fabs(its_d) && !bad) bad = length;
% endif
% endif
% if solves:
            g = rest * inverse;
            tree_b[above] = its_b - up * g;
% else:
            out[place] = inverse;
% endif
            if (below != NONE) {
                const real low = ${"next" if sym else "tree_low[below]"};
                ${"const real " if make else ""}f2 = next * inverse;
                tree_up[below] = -up * f2;
% if not sym:
                tree_low[below] = -low * f1;
% endif
% if eliminates:
                above_d[below] = next_d + low * f2;
% endif
% if solves:
                above_b[below] = next_b + low * g;
% endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (++r < block.s5);

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
% if make:
    if (is_inner && my_round == NONE) {   // the roots
        const real pivot = tree_d[lane] - above_d[lane];
        bad = note(bad, length, pivot, own);
        out[place] = 1 / pivot;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% else:
    // ${"the roots" if spec.phase == "solve" else "what was kept"}, and back, rounds in reverse
    real my_x = 0;
    if (is_inner && my_round == NONE) {
% if use:
        my_x = (tree_b[lane] - above_b[lane]) * inverse;
% elif spec.phase == "solve":
        const real pivot = tree_d[lane] - above_d[lane];
        bad = note(bad, length, pivot, own);
        my_x = (tree_b[lane] - above_b[lane]) / pivot;
% else:
        if (whole) {
            const real pivot = tree_d[lane] - above_d[lane];
            bad = note(bad, length, pivot, own);
            my_x = (tree_b[lane] - above_b[lane]) / pivot;
        } else {
            my_x = rest_x[kept[kept_start[get_group_id(0)] + above]];
% if not sym:
            if (tree_d[lane] - above_d[lane] > GROWTH * fabs(own) && !bad) bad = length;
% endif
% if not spec.derived:
            if (!isfinite(own)) bad = max(bad, length | BAD | CLEAN);
% endif
        }
% endif
        tree_b[lane] = my_x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    do {
        --r;
        if (is_inner && my_round == r) {
            my_x = g - f1 * tree_b[above];
            if (below != NONE) my_x -= f2 * tree_b[below];
            tree_b[lane] = my_x;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (r > 0);

% if spec.natural and spec.ptx and not direct:
    // where the solution comes from: fetched ahead of the sweep
% for k in range(min(steps_of_one, batch_of_one)):
    const int out${k} = lane + ${k} * WORK_GROUP < num_nodes ? my_order[lane + ${k} * WORK_GROUP] : 0;
% endfor
% endif
    // segments outwards, four nodes at a time, the lanes in step
    const real top = parent == NONE ? (real)0 : tree_b[parent];
% if direct:
% for j in reversed(range(M)):
    if (${j} < longest) {
        my_x = rhs_${j} - top_${j} * top - next_${j} * my_x;
        if (${j} < length) {
            x[${at(f"p{j}")}] = my_x;
% if spec.flags_infinite:
            if (!isfinite(my_x)) odd = 1;
% endif
        }
    }
% endfor
% else:
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
% endif
% if spec.natural and not direct:
    barrier(CLK_LOCAL_MEM_FENCE);
% for start in range(0, steps_of_one, batch_of_one):
<%  steps = range(start, min(steps_of_one, start + batch_of_one)) %>\
    {
% for k in steps:
        const int k${k} = lane + ${k} * WORK_GROUP;
% if spec.ptx and k < batch_of_one:
        const int to${k} = out${k};
% else:
        const int to${k} = k${k} < num_nodes ? my_order[k${k}] : 0;
% endif
% endfor
% for k in steps:
        if (k${k} < num_nodes) {
            const real value = B(${place_of(k)});
            x[${index(k) if sym or spec.of_pieces else index(k).replace("cell_from", "base")}] = value;
% if spec.flags_infinite:
            if (!isfinite(value)) odd = 1;
% endif
        }
% endfor
    }
% endfor
% endif
% endif
% if eliminates:
    if (bad) {   // bad ones by themselves go first, and the deepest of them, whoever finds it
% if spec.shared:
        const int node = (bad & ~(BAD | CLEAN)) - 1, at = row[is_leaf ? length - 1 - node : node] + column;
% if spec.phase == "expand":
        const int key = whole ? lane_rank[first + lane] + bad
                              : (bad & (BAD | CLEAN)) | (node_rank[block.s0 + at] + 1);
% else:
        const int key = (bad & (BAD | CLEAN)) | (node_rank[block.s0 + at] + 1);
% endif
% else:
        const int key = lane_rank[first + lane] + bad;
% endif
        atomic_max(cell_bad + lane_slot[first + lane], key);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% if spec.phase == "expand":
    if (lane < block.s7 - block.s6 && whole) status[cell_number[block.s6 + lane]] = cell_bad[lane];
    if (lane < block.s7 - block.s6 && !whole && cell_bad[lane])
        atomic_max(status + cell_number[block.s6 + lane], cell_bad[lane]);
% elif spec.shared:
    if (lane < block.s7 - block.s6 && cell_bad[lane])
        atomic_max(status + cell_number[block.s6 + lane], cell_bad[lane]);
% elif spec.flags_infinite:
    if (lane < block.s7 - block.s6)
        status[cell_number[block.s6 + lane]] = cell_bad[lane] | (odd ? ${spec.not_finite} : 0);
% else:
    if (lane < block.s7 - block.s6) status[cell_number[block.s6 + lane]] = cell_bad[lane];
% endif
% endif
}
