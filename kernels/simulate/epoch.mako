<%page args="spec"/>\
<%
    M, U, K = spec.segment, spec.lanes, spec.units
    factor, constant = spec.phase == "factor", spec.constant
    eliminates = factor or not constant      # d is eliminated here
    solves = not factor
    in_warp = spec.ptx and U == spec.warp
    by_node = spec.by_node                   # a lane takes a node with all its mechanisms
    alone = by_node and K == 1               # each lane is one of the group's only cell
    c_ = "series__, " if spec.takes_series else ""  # first argument of rate functions
    every_kind, kinds = spec.kinds if solves else (), spec.kinds if solves and not by_node else ()
    held = ["d", "tie"] if factor else ["c", "f1", "inverse"] if constant else ["c", "d", "tie"]
    held += ["k"] if spec.inflow and solves else []
    held = ["w", "a"] if by_node else held
    rest = "(K(place{}) - less_b)" if spec.inflow else "-less_b"
    half = spec.secondorder
    I, dense = spec.dense, spec.dense > 0   # nodes of the tree's last part, solved by its inverse
    rounds = spec.rounds if factor or not dense else spec.before
    tree = 4 if eliminates else 2   # arrays of values a lane
    whole = eliminates and solves
    own_rounds = in_warp or (spec.ptx and whole)   # lanes of other cells do not wait for these
    steps = "mine.s5" if own_rounds and not dense else rounds
    noisy = any(kind.uses_noise for kind in every_kind)
    link, then, family = spec.link, spec.at_elimination, spec.family
    site, slot_run, recorded = spec.site, spec.slot_run, spec.recorded
    site_cell, site_place = site.read("cell", "site"), site.read("place", "site")
    def state(kind, s):
        return (f"{kind.name}__local[{s * kind.most} + q]" if kind.local
                else f"{kind.name}__states[{s} * {kind.name}__count + instance]")
    def needs_instance(kind):
        return (not all(kind.literals) or kind.takes_events or kind.uses_noise
                or not kind.local or (kind.density and not kind.factor) or spec.samples)
    def is_quick(kind):   # weights are polynomials; where one will not do, an instance comes later
        return (spec.quick_weights and not kind.takes_events and "node_weight_(" in kind.source
                and kind.most <= 32 * spec.work_group)
    apart = spec.extra if constant else 0   # lanes for the mechanisms, which have no others
    step_of_active = apart or spec.work_group
    def ahead(kind):   # each lane has one instance at most: its event is read one step ahead
        return kind.takes_events and kind.most <= step_of_active
    split = constant and solves and bool(kinds) and spec.ptx   # mechanisms in a loop of their own
    voltage = (f"root_v[{site_cell}]" if constant else
               f"all_held[(({site_cell}) * {len(held) + 1} + {len(held)}) * CAPACITY + ({site_place})]")
    def factor_of(kind):
        return (f"all_held[({site_cell}) * {len(held) + (not constant)} * CAPACITY + ({site_place})] * {kind.factor}"
                if kind.factor else f"{kind.name}__factor[instance]")
    def constants(kind): return "".join(map((kind.name + "__c{}, ").format, range(kind.num_constants)))
    def value(kind, p): return kind.literals[p] if kind.literals[p] else f"{kind.name}__p_{kind.parameters[p]}[instance]"
%>\
<%def name="unpacked(pad)">\
${pad}const int inner = ${spec.lane_counts.read("inner_lanes", "counts")};
${pad}const bool is_inner = lane < inner, is_leaf = used && !is_inner;
${pad}const int length = ${link.read("length", "me.x")};
${pad}const int parent = ${link.read("parent", "me.x", "NONE")}, mailbox = ${link.read("mailbox", "me.x", "NONE")};
${pad}const int my_round = is_inner ? ${then.read("round", "me.y", "NONE")} : NONE - 1;
${pad}const int above = ${then.read("parent", "me.y", "NONE")}, below = is_inner ? ${then.read("child", "me.y", "NONE")} : NONE;
${pad}const bool is_root = is_inner && my_round == NONE;
% if whole:
${pad}const int child = below != NONE ? below : 0;   // one that can be read
% endif
</%def>\
<%def name="placed(pad)">\
${pad}const int column = is_inner ? lane : lane - inner;
${pad}__local const int *row = rows_here + (is_inner ? 0 : ${M});
% if spec.extended:
${pad}// the node that is tied to the parent's last one: that a step solves for changes of v, currents
${pad}// between neighbours are of v before it
${pad}const int tied_place = used ? column + row[is_leaf ? length - 1 : 0] : CAPACITY - 1;
${pad}const int top_place = parent == NONE ? tied_place : parent + top_row;
% endif
</%def>\
<%def name="of_nodes(pad)">\
% if solves:
${pad}// places of the nodes; past the end of a segment the last place, where all is 0 and x stays
% for j in range(M):
${pad}const int place${j} = length > ${j} ? column + row[${j}] : CAPACITY - 1;
% endfor
% endif
% if solves and not constant:
${pad}const int num_eliminated = is_leaf ? length : length - 1;
% endif
</%def>\
// Epochs of whole cells: ${K} a work-group, ${U} lanes each, a lane a segment of at most ${M} nodes.
// spec: ${spec}
//
// A cell stays on chip for all steps of a launch. A step eliminates every segment towards its last
// node, contracts the tree of these nodes in rounds, solves the root (the soma) and goes back.
//     x[v] = b[v] / d[v] - f1 * x[a] - f2 * x[c],  f1 = A[a, v] / d[v], f2 = A[c, v] / d[v]
// where a is the parent that v has when it is eliminated (of a segment's nodes: the segment's
// parent) and c the child, or the next node of the segment.
% if constant and solves:
// f1, f2 and 1 / d are constants of the run; only b moves, and the root's pivot.
% endif
% if kinds:
// Lanes from ${K * U if apart else 0} on advance the states of mechanisms, and leave conductance and current in slots;
// those of a node lie side by side and are added up in that order.
% endif
% if by_node:
// Lists of nodes with the same density mechanisms, a warp each, see epoch_nodes.py: a lane advances the
// states of all mechanisms of its node, and leaves what the node has before the elimination in W and A.
% endif
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
% if not spec.fused:
#pragma OPENCL FP_CONTRACT OFF
% endif

typedef ${spec.real} real;
% if spec.samples:
// samples_K: by instance, first of what is recorded of it, in lists of state (after the last: current),
//     0, column and next entry
% endif

% if noisy and not spec.extended:   # whose functions bring it
${spec.normal}
% endif
% if spec.takes_series:
${part("common/rates")}\
% endif
% if spec.extended:
typedef ${spec.real}2 real2;
typedef ${spec.real}4 real4;

// a place in a table: the row below it, and the part of the way to the next one; NaN stays
typedef struct { int row; real share; } node_row_;

static node_row_ node_row_of_(const real xi, const int n)
{
    const real place = xi <= 0 ? 0 : (xi >= n ? (real)n : xi);
    node_row_ at;
    at.row = max(0, min((int)place, n - 1));
    at.share = place - at.row;
    return at;
}

static real node_between_(const real share, const real low, const real high)
{
    return low + share * (high - low);
}

// numbers of a row of a table, side by side; no statement of the kernel changes tables
static real node_load1_(__global const real *row) { return *row; }

% if spec.ptx:
<% letter, bits = ("d", 64) if spec.real == "double" else ("f", 32) %>\
static real2 node_load2_(__global const real *row)
{
    real2 x;
    __asm__("ld.global.nc.v2.f${bits} {%0, %1}, [%2];" : "=${letter}"(x.s0), "=${letter}"(x.s1) : "l"(row));
    return x;
}

static real4 node_load4_(__global const real *row)
{
% if bits == 64:
    return (real4)(node_load2_(row), node_load2_(row + 2));
% else:
    real4 x;
    __asm__("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
            : "=f"(x.s0), "=f"(x.s1), "=f"(x.s2), "=f"(x.s3) : "l"(row));
    return x;
% endif
}
% else:
static real2 node_load2_(__global const real *row) { return vload2(0, row); }

static real4 node_load4_(__global const real *row) { return vload4(0, row); }
% endif

${part("common/extended_functions")}\
typedef struct { real ${", ".join(f"n{k}" for k in range(max(1, spec.num_numbers)))}; } numbers_;

% endif
% for kind in every_kind if not spec.extended else ():
${kind.source}
% endfor

#define WORK_GROUP ${spec.work_group}
#define LANES ${U}             // of a cell
#define UNITS ${K}             // cells of a work-group
#define CAPACITY ${spec.capacity}       // values of the largest cell
#define NONE ${hex(link.most("parent"))}       // no such lane
% for i, name in enumerate(held):
#define ${name.upper()}(place) held[${i} * CAPACITY + (place)]
% endfor
% if solves and not constant:
#define V(place) held[${len(held)} * CAPACITY + (place)]
% endif

// All lanes of a cell meet.
% if in_warp:
#define MEET() __asm__ volatile("bar.warp.sync ${hex((1 << spec.warp) - 1)};" ::: "memory")
% elif spec.ptx and K == 1:   # a number that is no constant takes all barriers of a group
#define MEET() ${"" if alone else "if (unit < UNITS) "}__asm__ volatile("bar.sync 1, ${U};" ::: "memory")
% elif spec.ptx:
#define MEET() if (unit < UNITS) __asm__ volatile("bar.sync %0, ${U};" :: "r"(unit + 1) : "memory")
% else:
#define MEET() barrier(CLK_LOCAL_MEM_FENCE${" | CLK_GLOBAL_MEM_FENCE" if spec.far else ""})
% endif

// All lanes of the group meet.
% if spec.ptx:
#define GATHER() __asm__ volatile("bar.sync 0;" ::: "memory")
% else:
#define GATHER() barrier(CLK_LOCAL_MEM_FENCE)
% endif

${part("common/reciprocal")}
% if spec.registers:   # which NVIDIA's compiler takes only where the size of the group is left open
__kernel
% else:
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
% endif
void advance(${signature(spec, "advance")})
{
% if alone:   # known when the kernel is compiled, so that no register holds it
    const int lid = get_local_id(0), unit = 0, lane = lid;
% else:
    const int lid = get_local_id(0), unit = lid / LANES, lane = lid - unit * LANES;
% endif
    const int number = get_group_id(0) * UNITS + unit;   // of the cell, in the order of the plan
    const bool present = ${"true" if alone else "unit < UNITS && number < num_units"};
    // start of the values, their number, first lane, ${spec.lane_counts}, rows, rounds, cell, root slots
    const int8 mine = present ? vload8(number, units) : (int8)(0);
% if by_node:
    const bool used = lane < (${spec.lane_counts.read("lanes", "mine.s3")});
    // what a lane knows of its segment stays packed while mechanisms need registers
    int counts = mine.s3, family = lane < (${spec.lane_counts.read("inner_lanes", "mine.s3")}) ? children[mine.s2 + lane] : 0;
    int2 me = used ? vload2(mine.s2 + lane, links) : (int2)(${link.write(parent="NONE")}, ${then.write(round="NONE")});
% else:
    const int counts = mine.s3;
    const bool used = lane < (${spec.lane_counts.read("lanes", "counts")});
    const int2 me = used ? vload2(mine.s2 + lane, links) : (int2)(${link.write(parent="NONE")}, ${then.write(round="NONE")});
    const int family = lane < (${spec.lane_counts.read("inner_lanes", "counts")}) ? children[mine.s2 + lane] : 0;
${unpacked("    ")}\
% endif

% if spec.takes_series:
% if spec.quick_weights:
    uint largest__ = 0;
    const node_series_ series__ = { ${", ".join(spec.numbers)}, 0, &largest__ };
    const node_series_ quick__ = { ${", ".join(spec.numbers)}, 1, &largest__ };
% else:
    const node_series_ series__ = { ${", ".join(spec.numbers)} };
% endif
% endif
% for kind in every_kind:
% if kind.num_constants:   # of all steps
    real ${constants(kind)[:-2]};
    ${kind.name}_constants(${c_}dt, ${"".join(map("{}, ".format, filter(None, kind.literals)))}${", ".join(map(("&" + kind.name + "__c{}").format, range(kind.num_constants)))});
% endif
% endfor
% if by_node:
    const int warp = lane / ${spec.warp}, in_warp = lane - warp * ${spec.warp};
% endif
    // what stays on chip
% if not spec.far:
    __local real all_held[UNITS * ${len(held) + (0 if factor or constant else 1)} * CAPACITY];
% endif
    __local int row_start[UNITS * ${2 * M}];
    __local real all_tree[UNITS * ${tree} * LANES], all_lost[UNITS * LANES];
% if eliminates:
    __local real all_lost_d[UNITS * LANES], all_tree_up[UNITS * LANES];
% endif
    const int at = ${"0" if alone else "min(unit, UNITS - 1)"};
% if spec.far:   # cells too large for local memory
    __global real *held = far_held + (long)number * ${(len(held) + 1)} * CAPACITY;
% else:
    __local real *held = all_held + at * ${len(held) + (0 if factor or constant else 1)} * CAPACITY;
% endif
    __local int *rows_here = row_start + at * ${2 * M};
    __local real *tree_b = all_tree + at * ${tree} * LANES;
    __local real *above_b = tree_b + LANES;
    __local real *lost_b = all_lost + at * LANES;
% if dense:
    // the last ones of the tree, ranked by lane: those of rounds from ${spec.before} on, and the root
    const bool is_late = is_inner && my_round >= ${spec.before};
    __local int all_late[UNITS * LANES], root_rank[UNITS];
    if (unit < UNITS) all_late[lid] = is_late;
    barrier(CLK_LOCAL_MEM_FENCE);
    int rank = 0;
    for (int k = 0; is_late && k < lane; ++k) rank += all_late[unit * LANES + k];
    if (is_root) root_rank[at] = rank;
% endif
% if dense and solves:
    __local real all_inverse_tree[UNITS * ${I * I}], all_late_b[UNITS * ${I}], root_x[UNITS];
    __local real *inverse_tree = all_inverse_tree + at * ${I * I}, *late_b = all_late_b + at * ${I};
    for (int k = lane; present && k < ${I * I}; k += LANES)
        inverse_tree[k] = tree_inverses[(long)number * ${I * I} + k];
    for (int k = lane; present && k < ${I}; k += LANES) late_b[k] = 0;
% endif
% if eliminates:
    __local real *tree_d = above_b + LANES, *above_d = tree_d + LANES;
    __local real *lost_d = all_lost_d + at * LANES, *tree_up = all_tree_up + at * LANES;
% endif
    for (int k = lane; present && k < ${2 * M}; k += LANES) rows_here[k] = rows[mine.s4 + k];
    for (int k = lane; present && k < ${"CAPACITY" if solves else "mine.s1"}; k += LANES) {
% for name in held:
        ${name.upper()}(k) = ${"0" if by_node else ("k >= mine.s1 ? 0 : " if solves else "") + f"all_{name}[mine.s0 + k]"};
% endfor
% if solves and not constant:
        V(k) = k >= mine.s1 ? 0 : all_v[mine.s0 + k];
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE${" | CLK_GLOBAL_MEM_FENCE" if spec.far else ""});

% if not by_node:
${placed("    ")}\
% elif spec.extended:
    // where the last node of the segment's parent is, less the parent
    const int over = ${link.read("parent", "me.x", "NONE")};
    const int top_row = over == NONE ? 0 : rows_here[(${link.read("length", "links[2 * (mine.s2 + over)]")}) - 1];
% endif
% for j in range(M):
    real a${j} = 0${f", v{j} = 0" if solves and constant and half else ""}${f", e{j} = 0" if solves and constant else ""}${f", w{j} = 0, e{j} = 0" if solves and not constant else ""};
% endfor
% if kinds and not constant:
    bool has_more = false;   // than one slot at a node
% for j in range(M):
    const int s${j} = length > ${j} ? slots[mine.s0 + column + row[${j}]] : ${spec.slots};   // ${slot_run}
    has_more |= ${slot_run.read("number", f"s{j}")} > 1;
% endfor
% endif
% if not by_node:
${of_nodes("    ")}\
% endif
% if solves and constant:
    real tree_f1 = 0, tree_f2 = 0, tree_inverse = 0;   // of the root: the pivot
    if (is_inner) {
        tree_f1 = tree_factors[3 * (mine.s7 + lane)];
        tree_f2 = tree_factors[3 * (mine.s7 + lane) + 1];
        tree_inverse = tree_factors[3 * (mine.s7 + lane) + 2];
    }
% for j in range(M):
    a${j} = length > ${j} ? all_v[mine.s0 + place${j}] : 0;
    e${j} = length > ${j} ? all_f2[mine.s0 + place${j}] : -1;
% endfor
% else:
% if by_node:
    // first place and first lane of equal cells' ties, first and end of the lists, first line of states
    const int8 home = present ? vload8(number, homes) : (int8)(0);
    __global const real *restrict tie_of = all_tie + home.s0;
% if spec.local_lines:
    __local real local_states[UNITS * ${spec.local_lines * spec.warp}];
% endif
    const real my_tie = used ? all_up[home.s1 + lane] : (real)0;   // with the parent of the segment
% else:
    const real my_tie = used ? all_up[mine.s7 + lane] : (real)0;   // with the parent of the segment
% endif
% endif
% if solves:
% if constant:
    __local real root_v[UNITS];
    if (is_root) root_v[unit] = a0;
% endif
% if not spec.extended:
% if by_node:
    const bool has_root = lane < (${spec.lane_counts.read("inner_lanes", "counts")}) && (${then.read("round", "me.y", "NONE")}) == NONE;
    const real my_threshold = has_root ? threshold[mine.s6] : (real)0;
% else:
    const real my_threshold = is_root ? threshold[mine.s6] : (real)0;
% endif
% endif
    const int first_record = used ? record_start[mine.s6] : 0;
    const int end_record = used ? record_start[mine.s6 + 1] : 0;
    int fault = 0;
% endif
% if kinds:

    // states of the group's instances
    const int active = lid${f" - {K * U}" if apart else ""}, step_of_active = ${step_of_active};
    // conductance; conductance * v - current; the last of all is 0
    __local real slot_g[${spec.slots + 1}], slot_h[${spec.slots + 1}];
    if (lid == 0) slot_g[${spec.slots}] = slot_h[${spec.slots}] = 0;
% for kind in kinds:
    const int ${kind.name}__first = ${kind.name}__start[get_group_id(0)];
    const int ${kind.name}__here = ${kind.name}__start[get_group_id(0) + 1] - ${kind.name}__first;
    __local uint ${kind.name}__site[${kind.most}];   // ${site}
    for (int q = lid; q < ${kind.name}__here; q += WORK_GROUP)
        ${kind.name}__site[q] = ${kind.name}__list[2 * (${kind.name}__first + q) + 1];
% if ahead(kind):
    long ${kind.name}__next = 0;
    if (active >= 0 && active < ${kind.name}__here)
        ${kind.name}__next = incoming[(long)(first_step % ring) * num_targets + ${kind.first_target}
                                     + ${kind.name}__list[2 * (${kind.name}__first + active)]];
% endif
% if kind.states and kind.local:
    __local real ${kind.name}__local[${len(kind.states) * kind.most}];
    for (int q = active; q >= 0 && q < ${kind.name}__here; q += step_of_active) {   // as written back
        const int instance = ${kind.name}__list[2 * (${kind.name}__first + q)];
% for s, _ in enumerate(kind.states):
        ${kind.name}__local[${s * kind.most} + q] = ${kind.name}__states[${s} * ${kind.name}__count + instance];
% endfor
    }
% endif
% endfor
% if constant:
    const int my_slots = is_root ? slots[mine.s6 * 2] : 0;
    const int end_slots = is_root ? slots[mine.s6 * 2 + 1] : 0;
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
% elif solves:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if solves:

% if by_node:
    // states of the cell's instances, from where all have theirs
#define MOVE(held, kept) held = kept
${part("common/extended_states" if spec.extended else "common/node_states")}\
#undef MOVE

% endif
    int step = first_step;
    // steps of the launch begin here
% if split:
    if (active >= 0) {   // lanes for the mechanisms
    do {
% else:
    do {
% if kinds:
        if (active >= 0) {
% endif
% endif
% endif
% for kind in kinds:
% if is_quick(kind):
            uint ${kind.name}__late = 0;   // turns of which the instance needs another way
% endif
% for late in (False, True) if is_quick(kind) else (False,):
% if is_quick(kind):
            for (int q = ${f"{kind.name}__late ? active : {kind.name}__here" if late else "active"}, turn = 0; q < ${kind.name}__here; q += step_of_active, ++turn) {
% if late:
                if (!(${kind.name}__late >> turn & 1)) continue;
% endif
% else:
            for (int q = active; q < ${kind.name}__here; q += step_of_active) {
% endif
                const uint site = ${kind.name}__site[q];
% if needs_instance(kind):
                const int instance = ${kind.name}__list[2 * (${kind.name}__first + q)];
% endif
% if kind.takes_events:
                __global long *due = incoming + (long)(step % ring) * num_targets + ${kind.first_target} + instance;
% if ahead(kind):
                const long weight = ${kind.name}__next;
                if (step + 1 < first_step + num_steps)
                    ${kind.name}__next = incoming[(long)((step + 1) % ring) * num_targets + ${kind.first_target} + instance];
% else:
                const long weight = *due;
% endif
% endif
                const real v = ${voltage};
% for s, name in enumerate(kind.states):
                real s_${name} = ${state(kind, s)};
% endfor
<%
    params = "".join(f"{value(kind, p)}, " for p in range(len(kind.parameters)))
    by_value = "".join(f"s_{name}, " for name in kind.states)
    by_address = ", ".join(f"&s_{name}" for name in kind.states)
    noise = "noise, " if kind.uses_noise else ""
    current = (f"{kind.name}_current({c_}v, (step + (real)0.5) * dt, dt, {params}{constants(kind)}{by_value}{noise}"
               "&i, &g);")
%>\
% if is_quick(kind) and not late:
                if (step > first_step) {
                    ${kind.name}_advance(quick__, v, (real)(step - 1) * dt, dt, ${params}${constants(kind)}${by_address});
                    if (TOO_FAR(largest__)) {
                        largest__ = 0;
                        ${kind.name}__late |= 1u << turn;
                        continue;
                    }
                }
% elif kind.states:
                if (step > first_step)
                    ${kind.name}_advance(${c_}v, (real)(step - 1) * dt, dt, ${params}${constants(kind)}${by_address});
% endif
% if kind.states and spec.samples:
                if (step > first_step) ${spec.sampled_states(kind, "step - 1")}
% endif
% if kind.takes_events:
                if (weight) {
                    *due = 0;
                    ${kind.name}_event(${c_}(real)weight * scale, ${params}${by_address});
                }
% endif
% for s, name in enumerate(kind.states):
                ${state(kind, s)} = s_${name};
% endfor
                real i, g;
% if kind.uses_noise:
                const real noise = normal(seed, (ulong)(${kind.number} + instance), (ulong)step);
% endif
                ${current}
% if spec.samples:
                ${spec.sampled_current(kind, current)}
% endif
% if kind.density:
                const real factor = ${factor_of(kind)};
                i *= factor;
                g *= factor;
% endif
                slot_g[${site.read("slot", "site")}] = g;
                slot_h[${site.read("slot", "site")}] = g * v - i;
            }
% endfor
% endfor
% if split:
        GATHER();
        GATHER();
    } while (++step < first_step + num_steps);
    } else {   // lanes of the cells
    do {
% elif kinds:
        }
% endif
% if kinds and not constant:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if by_node:
${part("common/extended_lists" if spec.extended else "common/node_lists")}\
        if (step == first_step + num_steps) break;
        MEET();
% if spec.ptx:   # unpacked before, these would be kept in registers, or rather in memory, all the time
        __asm__ volatile("" : "+r"(me.x), "+r"(me.y), "+r"(family), "+r"(counts));
% endif
<% wide = " " * 8 %>${unpacked(wide)}${placed(wide)}${of_nodes(wide)}\
% endif

        // segments, towards their last nodes
% if spec.extended:
        // the current from the parent, which the parent loses
        real sum_b = my_tie * (V(tied_place) - V(top_place)), my_b = 0;
        if (used) A(tied_place) += sum_b;
% elif solves:
        real sum_b = 0, my_b = 0;
% endif
% if eliminates:
        real sum_d = 0, my_d = 1, my_up = is_leaf ? (real)0 : my_tie;
        real less_d = 0;
% endif
% if solves:
        real less_b = 0;
% endif
% if solves and not constant:
        real old_root = 0;
% endif
% if solves and constant:
% for j in range(M):
% if half:
        v${j} = a${j};
% endif
        a${j} = C(place${j}) * a${j} + ${rest.format(j)};
        my_b = length > ${j} ? a${j} : my_b;
        sum_b += F1(place${j}) * a${j};
        less_b = e${j} * a${j};
% endfor
% elif solves:
        // what the nodes have before the elimination
% for j in range(M):
% if by_node:
        w${j} = W(place${j});
        a${j} = A(place${j});
% else:
        w${j} = D(place${j});
        a${j} = C(place${j}) * V(place${j})${f" + K(place{j})" if spec.inflow else ""};
% endif
% if kinds:
        w${j} += slot_g[${slot_run.read("first", f"s{j}")}];
        a${j} += slot_h[${slot_run.read("first", f"s{j}")}];
% endif
% endfor
% if kinds:
        if (has_more) {
% for j in range(M):
            for (int q = (${slot_run.read("first", f"s{j}")}) + 1, end = q - 1 + (${slot_run.read("number", f"s{j}")}); q < end; ++q) {
                w${j} += slot_g[q];
                a${j} += slot_h[q];
            }
% endfor
        }
% endif
        old_root = V(place0);
% for j in range(M):
        {   // past the last that is eliminated nothing changes but x, which is handed on
            const bool goes = ${j} < num_eliminated;
% if spec.extended and j + 1 < M:   # the last node's tie is 0
            const real tie = length > ${j} ? tie_of[place${j}] : (real)0;
            const real flow = tie * (V(place${j}) - V(place${j + 1}));
            const real d = w${j} - less_d, b = a${j} + flow - less_b;
% else:
            const real d = w${j} - less_d, b = a${j} - less_b, tie = ${f"length > {j} ? tie_of[place{j}] : (real)0" if by_node else f"TIE(place{j})"};
% endif
            my_d = length > ${j} ? d : my_d;
            my_b = length > ${j} ? b : my_b;
            my_up = is_leaf && length == ${j + 1} ? my_tie : my_up;
% if spec.ptx and spec.real == "double":   # as `reciprocal`; the next pivot waits for no product
            real y;
            __asm__("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(d));
            const real rest = fma(-d, y, (real)1), more = fma(rest, rest, rest), square = tie * tie * y;
            const real up = goes ? my_up : (real)0, inverse = goes ? fma(y, more, y) : (real)0;
            less_d = fma(square, more, square);
% else:
            const real up = goes ? my_up : (real)0, inverse = goes ? reciprocal(d) : (real)0;
% endif
            const real f1 = up * inverse, f2 = tie * inverse;
            sum_d += up * f1;
            sum_b += f1 * b;
% if not (spec.ptx and spec.real == "double"):
            less_d = tie * f2;
% endif
            less_b = f2 * b${" + flow" if spec.extended and j + 1 < M else ""};
            my_up = goes ? -f2 * my_up : my_up;   // not -my_up * f2: an optimiser of Intel's makes a wrong number of it
            a${j} = b * inverse;
            w${j} = f1;
            e${j} = goes ? f2 : (real)-1;
        }
% endfor
% else:
% for j in range(M):
        if (length > ${j}) {
            const int place = column + row[${j}];
            my_d = D(place) - less_d;
            if (is_leaf && length == ${j + 1}) my_up = my_tie;
            if (is_leaf || length > ${j + 1}) {
                const real tie = TIE(place), inverse = reciprocal(my_d);
                const real f1 = my_up * inverse, f2 = tie * inverse;
                sum_d += my_up * f1;
                less_d = tie * f2;
                my_up *= -f2;
                all_f1[mine.s0 + place] = f1;
                all_f2[mine.s0 + place] = f2;
                all_inverse[mine.s0 + place] = inverse;
            }
        }
% endfor
% endif
        if (used) {
% if eliminates:
            lost_d[mailbox] = sum_d;
% endif
% if solves:
            lost_b[mailbox] = sum_b;
% endif
        }
        MEET();

        // the tree of last nodes, towards the root
        if (is_inner) {
            for (int k = ${family.read("first_mailbox", "family")}; k < (${family.read("first_mailbox", "family")}) + (${family.read("number", "family")}); ++k) {
% if eliminates:
                my_d -= lost_d[k];
% endif
% if solves:
                my_b -= lost_b[k];
% endif
            }
% if eliminates:
            tree_d[lane] = my_d;
            above_d[lane] = 0;
            tree_up[lane] = my_up;
% endif
% if solves:
            tree_b[lane] = my_b;
            above_b[lane] = 0;
% endif
        }
        MEET();
% if eliminates:
        real tree_f1 = 0, tree_f2 = 0, tree_inverse = 0;
% endif
% if solves:
        real g = 0;
% endif
% if rounds:
        int r = 0;
        do {
            if (my_round == r) {
% if whole:   # all is read before something is written, so that no read waits for the one before
                const real up = tree_up[lane], next = below != NONE ? tree_up[child] : (real)0;
                const real above_now = tree_d[above], above_right = tree_b[above];
                const real below_now = above_d[child], below_right = above_b[child];
                g = tree_b[lane] - above_b[lane];
                tree_inverse = reciprocal(tree_d[lane] - above_d[lane]);
                tree_f1 = up * tree_inverse;
                tree_f2 = next * tree_inverse;
                tree_d[above] = above_now - up * tree_f1;
                tree_b[above] = above_right - tree_f1 * g;
                if (below != NONE) {
                    tree_up[below] = -up * tree_f2;
                    above_d[below] = below_now + next * tree_f2;
                    above_b[below] = below_right + tree_f2 * g;
                }
% elif eliminates:
                const real up = tree_up[lane];
                tree_inverse = reciprocal(tree_d[lane] - above_d[lane]);
                tree_f1 = up * tree_inverse;
                tree_d[above] -= up * tree_f1;
                if (below != NONE) {
                    const real next = tree_up[below];
                    tree_f2 = next * tree_inverse;
                    tree_up[below] = -up * tree_f2;
                    above_d[below] += next * tree_f2;
                }
% endif
% if solves and not whole:
                g = tree_b[lane] - above_b[lane];
                tree_b[above] -= tree_f1 * g;
                if (below != NONE) above_b[below] += tree_f2 * g;
% endif
            }
            MEET();
        } while (++r < ${steps});
% endif
% if dense and solves:
        // the late ones but the root by the inverse of their matrix; the root's b without what they leave
        const real my_rest = is_late ? tree_b[lane] - above_b[lane] : (real)0;
        if (is_late) late_b[rank] = is_root ? (real)0 : my_rest;
        MEET();
        if (is_late) {
            real ${", ".join(f"part{k} = 0" for k in range(4))};
% for j in range(I):
            part${j % 4} += inverse_tree[${j * I} + rank] * late_b[${j}];
% endfor
            g = (part0 + part1) + (part2 + part3);
            if (is_root) g += my_rest;
        }
% endif
% if factor:
        // the factors of the tree, and what makes its lanes the last step of their segments
        if (is_inner) {
            const int place = column + row[length - 1];
            all_f1[mine.s0 + place] = 0;
            all_f2[mine.s0 + place] = -1;
            all_inverse[mine.s0 + place] = 0;
            tree_factors[3 * (mine.s7 + lane)] = tree_f1;
            tree_factors[3 * (mine.s7 + lane) + 1] = tree_f2;
            tree_factors[3 * (mine.s7 + lane) + 2] = is_root ? tree_d[lane] - above_d[lane] : tree_inverse;
        }
% if dense:
        // column by column, the inverse of the late ones without the root; of the root's column, the
        // solution with 1 at the root; of its row, what the others leave of its b
        for (int j = 0; j < ${I}; ++j) {
            if (is_inner) {
                tree_b[lane] = is_late && rank == j && !is_root ? 1 : 0;
                above_b[lane] = 0;
            }
            real g = 0;
            MEET();
            r = 0;
            do {
                if (my_round == r) {
                    g = tree_b[lane] - above_b[lane];
                    tree_b[above] -= tree_f1 * g;
                    if (below != NONE) above_b[below] += tree_f2 * g;
                }
                MEET();
            } while (++r < ${steps});
            real x = 0;
            if (is_root) {
                g = tree_b[lane] - above_b[lane];
                tree_b[lane] = j == rank ? 1 : 0;
            }
            MEET();
            do {
                --r;
                if (my_round == r) {
                    x = g * tree_inverse - tree_f1 * tree_b[above];
                    if (below != NONE) x -= tree_f2 * tree_b[below];
                    tree_b[lane] = x;
                }
                MEET();
            } while (r > 0);
            if (is_late) tree_inverses[(long)number * ${I * I} + j * ${I} + rank] = is_root ? g : x;
        }
% endif
}
<% return STOP_RENDERING %>\
% endif
% if kinds and constant:
        GATHER();   // conductances and currents are there
% endif

        // the root, and back
        real my_x = 0;
        if (is_root) {
            real pivot = ${"tree_inverse" if constant else "tree_d[lane] - above_d[lane]"};
% if not dense:
            g = tree_b[lane] - above_b[lane];
% endif
% if kinds and constant:
            for (int q = my_slots; q < end_slots; ++q) {
                pivot += slot_g[q];
                g += slot_h[q];
            }
% endif
            my_x = g * reciprocal(pivot);
            const real before = ${"root_v[unit]" if constant else "old_root"};
% if spec.extended:
            const real after = before + ${"2 * my_x" if half else "my_x"};
% else:
            const real after = ${"2 * my_x - before" if half else "my_x"};
% endif
            tree_b[lane] = my_x;
% if dense:
            root_x[unit] = my_x;
% endif
% if constant:
            root_v[unit] = after;
% endif
% if not spec.extended:
            if (before < my_threshold && after >= my_threshold) {
                const int k = atomic_inc(spike_count);
                if (k < spike_capacity) {
                    spike_source[k] = mine.s6;
                    spike_step[k] = step;
                }
            }
% endif
            if (!isfinite(after) && !fault) fault = step + 1;
        }
% if constant:
        GATHER();
% else:
        MEET();
% endif
% if dense:
        if (is_late && !is_root) {
            my_x = g + inverse_tree[root_rank[at] * ${I} + rank] * root_x[at];
            tree_b[lane] = my_x;
        }
        MEET();
% endif
% if rounds:
        do {
            --r;
            if (my_round == r) {
% if whole:
                const real above_x = tree_b[above], below_x = below != NONE ? tree_b[child] : (real)0;
                my_x = g * tree_inverse - tree_f1 * above_x - tree_f2 * below_x;
% else:
                my_x = g * tree_inverse - tree_f1 * tree_b[above];
                if (below != NONE) my_x -= tree_f2 * tree_b[below];
% endif
                tree_b[lane] = my_x;
            }
            MEET();
        } while (r > 0);
% endif

        // segments, back to their first nodes
        const real top = parent == NONE ? (real)0 : tree_b[parent];
        real x = my_x;
% for j in reversed(range(M)):
% if constant:
        x = a${j} * INVERSE(place${j}) - F1(place${j}) * top - e${j} * x;
        a${j} = ${f"2 * x - v{j}" if half else "x"};
% else:
        x = a${j} - w${j} * top - e${j} * x;
% if spec.extended:
        if (length > ${j}) V(place${j}) += ${"2 * x" if half else "x"};
% else:
        if (length > ${j}) V(place${j}) = ${f"2 * x - V(place{j})" if half else "x"};
% endif
% endif
% endfor
        for (int q = first_record; q < end_record; ++q) {   // ${recorded}, column
            const int2 it = vload2(q, record_list);
            if ((${recorded.read("lane", "it.x")}) != lane) continue;
            real seen = ${"a0" if constant else f"V(column + row[{recorded.read('node', 'it.x')}])"};
% if constant:
% for j in range(1, M):
            if (${recorded.read("node", "it.x")} == ${j}) seen = a${j};
% endfor
% endif
            record_v[(long)(record_row + step - first_step) * num_records + it.y] = seen;
        }
% if by_node:
        MEET();
% elif not constant:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
    } while (++step ${"<=" if by_node else "<"} first_step + num_steps);
% if split:
    }
% endif

    // back to memory
% if constant:
% for j in range(M):
    if (length > ${j}) all_v[mine.s0 + place${j}] = a${j};
% endfor
% else:
    for (int k = lane; present && k < mine.s1; k += LANES) all_v[mine.s0 + k] = V(k);
% endif
    if (fault && failed[mine.s6] == 0) failed[mine.s6] = fault;
% if by_node:
#define MOVE(held, kept) kept = held
${part("common/extended_states" if spec.extended else "common/node_states")}\
#undef MOVE
% endif
% for kind in kinds:
% if kind.states:
    if (active >= 0) {
        for (int q = active; q < ${kind.name}__here; q += step_of_active) {
            const uint site = ${kind.name}__site[q];
            const int instance = ${kind.name}__list[2 * (${kind.name}__first + q)];
            const real v = ${voltage};
<%
    params = "".join(f"{value(kind, p)}, " for p in range(len(kind.parameters)))
%>\
% for s, name in enumerate(kind.states):
            real s_${name} = ${state(kind, s)};
% endfor
<%
    by_address = ", ".join("&s_" + name for name in kind.states)
%>\
% if is_quick(kind):
            ${kind.name}_advance(quick__, v, (real)(step - 1) * dt, dt, ${params}${constants(kind)}${by_address});
            if (TOO_FAR(largest__)) {
                largest__ = 0;
% for s, name in enumerate(kind.states):
                s_${name} = ${state(kind, s)};
% endfor
                ${kind.name}_advance(${c_}v, (real)(step - 1) * dt, dt, ${params}${constants(kind)}${by_address});
            }
% else:
            ${kind.name}_advance(${c_}v, (real)(step - 1) * dt, dt, ${params}${constants(kind)}${by_address});
% endif
% if spec.samples:
            ${spec.sampled_states(kind, "step - 1")}
% endif
% for s, name in enumerate(kind.states):
            ${kind.name}__states[${s} * ${kind.name}__count + instance] = s_${name};
% endfor
        }
    }
% endif
% endfor
}
