<%page args="spec"/>\
<%
    vector, lanes, ahead, rows = spec.vector, spec.lanes, spec.nodes_ahead, spec.rows
    value = spec.real + (str(vector) if vector > 1 else "")
    down, up = spec.read_by["eliminate"], spec.read_by["substitute"]
    stride = spec.stride or "cell_stride[cell]"
%>\
<%def name="sweep(back)">\
<%
    name = "eliminate" if back else "substitute"
    rest = rows % ahead   # nodes that do not fill a read
    first, end, next_ = (f"{'ROWS' if rows else 'longest'} - 1", f">= {rest}", "-=") if back else ("0", f"< {rows - rest if rows else 'longest'}", "+=")
%>\
% if ahead > 1:
    for (int i = ${first}; i ${end}; i ${next_} AHEAD) {
${part("solver/common/cell_ahead", sweep=name, i="i", count=ahead)}\
    }
% if rest:
    {
${part("solver/common/cell_ahead", sweep=name, i=rest - 1 if back else rows - rest, count=rest)}\
    }
% endif
% else:
    for (int at = ${"longest - 1; at >= 0; --at" if back else "0; at < longest; ++at"}) {
        for (int lane = 0; lane < LANES; ++lane) {
            const int cell = item + lane;
% if lanes > 1 and not rows:
            if (at >= cell_size[cell]) continue;
% endif
            const int start = cell_start[cell], stride = ${stride};
            const int place = start + at * stride;
% if not spec.chains:
            const int ${f"code = {spec.code}" if back else f"parent = {spec.step.read('parent', spec.code)}"};
% endif
% if not back:
            const value f = load(factor, place);
% endif
${part(f"solver/common/cell_{name}")}\
        }
    }
% endif
</%def>\
// Hines solver, one work-item per cell (Valero-Lara et al. 2018, pseudocode 1).
// spec: ${spec}
% if spec.stride == 1:
// layout: flat, a cell's node i directly after node i - 1.
% else:
// layout: interleaved, a cell's node i ${spec.stride or "cell_stride"} values after node i - 1.
% endif
//
% if spec.chains:
// Cells are chains: each node is the previous node's only child (Thomas algorithm).
% else:
// Nodes are numbered parents first. Node i's step code: ${spec.step}:
//   parent:  if it is i - 1, the contribution to it stays in registers, else goes through memory;
//   waiting: children other than node i + 1 are subtracted from d and b already: see factor[i], x[i];
//   first:   this node is its parent's first such child.
% endif
% if spec.rhs_local:
//
// A work-group has a block, whose x stays in local memory, where children read it (section 3.1,
// Block-Shared). A work-item only uses its own column, so there are no barriers.
% endif
//
// Arguments; arrays of values are in device order and have num_values values per row. A launch has
// num_lanes lanes, which are cells or idle, and solves RHS right-hand sides from row first_row on:
${part("solver/common/arguments")}\
//   factor        scratch: each node's l / pivot, between the sweeps
//   cell_start    where each lane's cell has its first value
//   cell_stride   distance between the cell's successive values
//   cell_size     the cell's node count, 0 for an idle lane
//   cell_number   the cell in each lane, -1 for an idle lane
//   code_start    the cell's first entry in codes;  codes: each node's step code
${part("solver/common/precision")}\
typedef ${value} value;   // ${"%d cells with one shape, side by side" % vector if vector > 1 else "one cell"}
% if vector > 1:
typedef value __attribute__((aligned(sizeof(real)))) loose_value;   // unaligned; PoCL would call a function for vload
% endif

#define RHS ${spec.rhs}
${part("solver/common/bad_pivots", growth=not spec.symmetric)}\
% if ahead > 1:
#define AHEAD ${ahead}   // nodes that are read together
% endif
% if rows:
#define ROWS ${rows}   // nodes in each cell
% endif
#define LANES ${lanes}   // cells per work-item, one after another at each node
% if spec.rhs_local:
#define ROOM ${spec.rhs_local}
#define KEPT(i) kept[r * ROOM + (i) * ${spec.work_group} + (int)get_local_id(0)]
% endif

% if vector > 1:
static value load(__global const real *a, long place)
{
    return *(__global const loose_value *)(a + place);
}
static void store(__global real *a, long place, value v)
{
    *(__global loose_value *)(a + place) = v;
}
% else:
static value load(__global const real *a, long place) { return a[place]; }
static void store(__global real *a, long place, value v) { a[place] = v; }
% endif

__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void solve(${signature(spec)})
{
% if spec.rhs_local:
    __local real kept[RHS * ROOM];
% endif
    b += (long)first_row * num_values;   // right-hand sides from first_row on
    x += (long)first_row * num_values;
    const int item = (int)get_global_id(0) * ${spec.vector_width};
    if (item >= num_lanes) return;

    value sum_d[LANES], sum_b[LANES][RHS], above[LANES][RHS];
    ${spec.mask} bad[LANES]${"" if spec.symmetric else ", grown[LANES]"};
% if rows:
    const int longest = ROWS;
% else:
    int longest = 0;
% endif
    for (int lane = 0; lane < LANES; ++lane) {
        sum_d[lane] = 0;
        bad[lane] = 0;
% if not spec.symmetric:
        grown[lane] = 0;
% endif
        for (int r = 0; r < RHS; ++r) sum_b[lane][r] = 0;
        for (int r = 0; r < RHS; ++r) above[lane][r] = 0;
% if not rows:
        longest = max(longest, cell_size[item + lane]);
% endif
    }
% if ahead > 1:
    const int cell = item, start = cell_start[cell], stride = ${stride};
% endif

    // backward sweep: from the tips to the root
% if ahead > 1:
    // AHEAD nodes are read together, so that all reads are in flight at once${", while" if spec.reads_next else ""}
% if spec.reads_next:
    // earlier nodes are eliminated
% endif
% endif
% if spec.reads_next:
${part("solver/common/cell_room", names=down, end="next")}\
${part("solver/common/cell_read", names=down, at="longest - 1 - k", count="AHEAD", end="next", outside="at < 0")}\
% endif
${sweep(True)}\

    // forward sweep: from the root to the tips
% if spec.reads_next:
    {
${part("solver/common/cell_room", names=up, end="next")}\
${part("solver/common/cell_read", names=up, at="k", count="AHEAD", end="next", outside="at >= longest")}\
% endif
${sweep(False)}\

% if spec.reads_next:
    }
% endif
    // status per cell: 0, or see STATUS in kernel_spec.py
    for (int lane = 0; lane < LANES; ++lane) {
% if vector > 1:
        bad[lane] = bad[lane] != 0 ? bad[lane] | (${spec.mask})(BAD) : ${"(%s)(0)" % spec.mask if spec.symmetric else "grown[lane]"};
% else:
        bad[lane] = bad[lane] ? bad[lane] | BAD : ${"0" if spec.symmetric else "grown[lane]"};
% endif
    }
% if vector > 1:
    for (int k = 0; k < ${vector}; ++k)
        if (cell_number[item + k] >= 0) status[cell_number[item + k]] = (int)((${spec.mask.rstrip("0123456789")} *)bad)[k];
% else:
    for (int lane = 0; lane < LANES; ++lane)
        if (cell_number[item + lane] >= 0) status[cell_number[item + lane]] = bad[lane];
% endif
}
