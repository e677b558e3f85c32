<%page args="spec"/>\
<%
    vector = spec.vector_width if spec.same_shape and spec.vector_width > 1 else 1
    lanes = 1 if vector > 1 else spec.vector_width
    value = spec.real + (str(vector) if vector > 1 else "")
    mask = ("long" if spec.real == "double" else "int") + (str(vector) if vector > 1 else "")
    ahead = max(1, spec.ahead // spec.rhs) if spec.vector_width == 1 else 1
    code = "codes[place]" if spec.codes_in_order else "codes[code_start[cell] + at]"
    down, up = ["d", "u", "b"] + ([] if spec.symmetric else ["l"]), ["f", "x"]
    early = ahead > 1 and bool(spec.rows or spec.chains)   # the next AHEAD nodes are read before
    rows, stride = spec.rows, spec.stride or "cell_stride[cell]"

    def rhs(node, place):   # where node `node` of this cell keeps its right-hand side
        return f"KEPT({node})" if spec.rhs_local else f"load(x, {place} + shift)"

    def put_rhs(node, place, v):
        return f"KEPT({node}) = {v};" if spec.rhs_local else f"store(x, {place} + shift, {v});"

    def read(array):   # of node `at`
        if ahead > 1:
            return f"{array}_read[k]" + ("[r]" if array == "b" else "")
        return f"load({array}, place{' + shift' if array == 'b' else ''})"

    def count_of(count):
        return "AHEAD" if count == ahead else count
%>\
<%def name="eliminate()">\
% if not spec.chains:
            const int parent = ${spec.step.read("parent", "code")}, waiting = ${spec.step.read("waiting", "code")}, first = ${spec.step.read("first", "code")};
            const int up = start + parent * stride;
% endif
% if spec.chains:
            const value before = ${read("d")};
% elif ahead > 1:
            const value before = waiting ? load(factor, place) : d_read[k];
% else:
            const value before = load(waiting ? factor : d, place);
% endif
            const value pivot = before - sum_d[lane];
            const value inverse = (real)1 / pivot;
            const value coupling = at ? ${read("u")} : (value)(0);
% if spec.symmetric:
            const value f = coupling * inverse;
% else:
            const value f = (at ? ${read("l")} : (value)(0)) * inverse;
% endif
            store(factor, place, f);
            sum_d[lane] = coupling * f;
            for (int r = 0; r < RHS; ++r) {
                const long shift = (long)r * num_values;
% if spec.chains:
                const value right = ${read("b")};
% elif ahead > 1:
                const value right = waiting ? ${rhs("at", "place")} : b_read[k][r];
% elif spec.rhs_local:
                const value right = waiting ? ${rhs("at", "place")} : load(b, place + shift);
% else:
                const value right = load(waiting ? x : b, place + shift);
% endif
                const value g = (right - sum_b[lane][r]) * inverse;
                ${put_rhs("at", "place", "g")}
                sum_b[lane][r] = coupling * g;
            }
% if vector > 1:
            const ${mask} wrong = ~((pivot > (real)SMALLEST) & (pivot < (real)INFINITY));
            bad[lane] = (wrong & (bad[lane] == 0)) ? (${mask})(at + 1) : bad[lane];
% if not spec.symmetric:
            grown[lane] = pivot < GROWTH * before ? grown[lane] : (${mask})(at + 1);
% endif
% else:
% if spec.symmetric:
            if (!(pivot > (real)SMALLEST && pivot < (real)INFINITY) && bad[lane] == 0)
                bad[lane] = at + 1;
% else:
            if (!(pivot > (real)SMALLEST && pivot < GROWTH * before)) {   // rare: which of both
                if (!(pivot > (real)SMALLEST && pivot < (real)INFINITY)) {
                    if (bad[lane] == 0) bad[lane] = at + 1;
                } else if (pivot > GROWTH * fabs(before)) {
                    grown[lane] = at + 1;
                }
            }
% endif
% endif
% if not spec.chains:

            if (parent != at - 1) {
                const value its_d = load(first ? d : factor, up);
                store(factor, up, its_d - sum_d[lane]);
% if not spec.symmetric and vector > 1:
                grown[lane] = fabs(sum_d[lane]) > GROWTH * fabs(its_d) ? (${mask})(parent + 1) : grown[lane];
% elif not spec.symmetric:
                if (fabs(sum_d[lane]) > GROWTH * fabs(its_d)) grown[lane] = parent + 1;
% endif
                sum_d[lane] = 0;
                for (int r = 0; r < RHS; ++r) {
                    const long shift = (long)r * num_values;
% if spec.rhs_local:
                    const value right = first ? load(b, up + shift) : ${rhs("parent", "up")};
% else:
                    const value right = load(first ? b : x, up + shift);
% endif
                    ${put_rhs("parent", "up", "right - sum_b[lane][r]")}
                    sum_b[lane][r] = 0;
                }
            }
% endif
</%def>\
<%def name="substitute()">\
% if not spec.chains:
            const int up = start + parent * stride;
% endif
            for (int r = 0; r < RHS; ++r) {
                const long shift = (long)r * num_values;
% if not spec.chains:
                if (parent != at - 1) above[lane][r] = ${rhs("parent", "up")};
% endif
                above[lane][r] = ${"x_read[k][r]" if ahead > 1 else rhs("at", "place")} - f * above[lane][r];
% if spec.rhs_local:
                ${put_rhs("at", "place", "above[lane][r]")}
% endif
                store(x, place + shift, above[lane][r]);
            }
</%def>\
<%def name="room(names, end)">\
% if not spec.chains:
        int codes_${end}[AHEAD];
% endif
        value ${", ".join(f"{n}_{end}[AHEAD]" + ("[RHS]" if n in "bx" else "") for n in names)};
</%def>\
<%def name="read_several(names, at, count, end, outside)">\
        __attribute__((opencl_unroll_hint))
        for (int k = 0; k < ${count_of(count)}; ++k) {
            const int at = ${at};
            if (${outside}) continue;
            const int place = start + at * stride;
% if not spec.chains:
            codes_${end}[k] = ${code};
% endif
% for n in names:
% if n == "b":
            for (int r = 0; r < RHS; ++r) b_${end}[k][r] = load(b, place + (long)r * num_values);
% elif n == "x":
            for (int r = 0; r < RHS; ++r) {
                const long shift = (long)r * num_values;
                x_${end}[k][r] = ${rhs("at", "place")};
            }
% else:
            ${n}_${end}[k] = load(${"factor" if n == "f" else n}, place);
% endif
% endfor
        }
</%def>\
<%def name="taken(names)">\
        __attribute__((opencl_unroll_hint))
        for (int k = 0; k < AHEAD; ++k) {
% for n in ([] if spec.chains else ["codes"]) + names:
% if n in "bx":
            for (int r = 0; r < RHS; ++r) ${n}_read[k][r] = ${n}_next[k][r];
% else:
            ${n}_read[k] = ${n}_next[k];
% endif
% endfor
        }
</%def>\
<%def name="eliminate_several(i, count)">\
% if early:
${room(down, "read")}\
${taken(down)}\
% if i == "i":
${read_several(down, "i - AHEAD - k", ahead, "next", "at < 0")}\
% endif
% else:
${room(down, "read")}\
${read_several(down, f"{i} - k", count, "read", "at < 0")}\
% endif
        __attribute__((opencl_unroll_hint))
        for (int k = 0; k < ${count_of(count)}; ++k) {
            const int lane = 0, at = ${i} - k;
% if not rows:
            if (at < 0) continue;
% endif
            const int place = start + at * stride;
% if not spec.chains:
            const int code = codes_read[k];
% endif
${eliminate()}\
        }
</%def>\
<%def name="substitute_several(i, count)">\
% if early:
${room(up, "read")}\
${taken(up)}\
% if i == "i":
${read_several(up, "i + AHEAD + k", ahead, "next", "at >= longest")}\
% endif
% else:
${room(up, "read")}\
${read_several(up, f"{i} + k", count, "read", "at >= longest")}\
% endif
        __attribute__((opencl_unroll_hint))
        for (int k = 0; k < ${count_of(count)}; ++k) {
            const int lane = 0, at = ${i} + k;
% if not rows:
            if (at >= longest) continue;
% endif
            const int place = start + at * stride;
% if not spec.chains:
            const int parent = ${spec.step.read("parent", "codes_read[k]")};
% endif
            const value f = f_read[k];
${substitute()}\
        }
</%def>\
// Hines solver, one work-item a cell (Valero-Lara et al. 2018, pseudocode 1).
// spec: ${spec}
% if spec.stride == 1:
// layout: flat, node i of a cell directly after node i - 1.
% else:
// layout: interleaved, node i of a cell ${spec.stride or "cell_stride"} values after node i - 1.
% endif
//
% if spec.chains:
// Cells are chains: each node is the only child of the one before it (the Thomas algorithm).
% else:
// Nodes are numbered parents first. Step code of node i: ${spec.step}:
//   parent  == i - 1: the contribution to the parent stays in registers;
//   waiting: children that are not node i + 1 have left their sum in factor[i] and x[i];
//   first:   this node is the first to leave a sum for its parent.
% endif
% if spec.rhs_local:
//
// A work-group is a block and keeps its x in local memory, to be read there by the children (section
// 3.1, Block-Shared). A work-item touches no column but its own: there are no barriers.
% endif
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
typedef ${value} value;   // ${"%d cells of one shape, side by side" % vector if vector > 1 else "one cell"}
% if vector > 1:
typedef value __attribute__((aligned(sizeof(real)))) loose_value;   // vload is a call in PoCL
% endif

#define RHS ${spec.rhs}
#define SMALLEST (1 / ${"DBL_MAX" if spec.real == "double" else "FLT_MAX"})   // pivot with a finite inverse
#define BAD (${spec.status.write(bad="1")})   // in the status: a bad pivot, see STATUS in kernel_spec.py
% if not spec.symmetric:
#define GROWTH ${spec.growth}   // see there
% endif
% if ahead > 1:
#define AHEAD ${ahead}   // nodes of a cell that are read at once
% endif
% if rows:
#define ROWS ${rows}   // nodes of each cell
% endif
#define LANES ${lanes}   // cells that a work-item takes one after another within each step
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
    b += (long)first_row * num_values;   // of the right-hand sides, rows first_row onwards
    x += (long)first_row * num_values;
    const int item = (int)get_global_id(0) * ${spec.vector_width};
    if (item >= num_lanes) return;

    value sum_d[LANES], sum_b[LANES][RHS], above[LANES][RHS];
    ${mask} bad[LANES]${"" if spec.symmetric else ", grown[LANES]"};
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
    // AHEAD nodes are read at once: memory answers to all of them in the time of one${", while" if early else ""}
% if early:
    // those before them are worked on
% endif
% endif
% if early:
${room(down, "next")}\
${read_several(down, "longest - 1 - k", ahead, "next", "at < 0")}\
% endif
% if ahead > 1 and rows:
    for (int i = ROWS - 1; i >= ${rows % ahead}; i -= AHEAD) {
${eliminate_several("i", ahead)}\
    }
% if rows % ahead:
    {
${eliminate_several(rows % ahead - 1, rows % ahead)}\
    }
% endif
% elif ahead > 1:
    for (int i = longest - 1; i >= 0; i -= AHEAD) {
${eliminate_several("i", ahead)}\
    }
% else:
    for (int at = longest - 1; at >= 0; --at) {
        for (int lane = 0; lane < LANES; ++lane) {
            const int cell = item + lane;
% if lanes > 1 and not rows:
            if (at >= cell_size[cell]) continue;
% endif
            const int start = cell_start[cell], stride = ${stride};
            const int place = start + at * stride;
% if not spec.chains:
            const int code = ${code};
% endif
${eliminate()}\
        }
    }
% endif

    // forward sweep: from the root to the tips
% if early:
    {
${room(up, "next")}\
${read_several(up, "k", ahead, "next", "at >= longest")}\
% endif
% if ahead > 1 and rows:
    for (int i = 0; i < ${rows - rows % ahead}; i += AHEAD) {
${substitute_several("i", ahead)}\
    }
% if rows % ahead:
    {
${substitute_several(rows - rows % ahead, rows % ahead)}\
    }
% endif
% elif ahead > 1:
    for (int i = 0; i < longest; i += AHEAD) {
${substitute_several("i", ahead)}\
    }
% else:
    for (int at = 0; at < longest; ++at) {
        for (int lane = 0; lane < LANES; ++lane) {
            const int cell = item + lane;
% if lanes > 1 and not rows:
            if (at >= cell_size[cell]) continue;
% endif
            const int start = cell_start[cell], stride = ${stride};
            const int place = start + at * stride;
% if not spec.chains:
            const int parent = ${spec.step.read("parent", code)};
% endif
            const value f = load(factor, place);
${substitute()}\
        }
    }
% endif

% if early:
    }
% endif
    // 0: all pivots positive and finite; otherwise 1 + the first bad node of the elimination
    for (int lane = 0; lane < LANES; ++lane) {
% if vector > 1:
        bad[lane] = bad[lane] != 0 ? bad[lane] | (${mask})(BAD) : ${"(%s)(0)" % mask if spec.symmetric else "grown[lane]"};
% else:
        bad[lane] = bad[lane] ? bad[lane] | BAD : ${"0" if spec.symmetric else "grown[lane]"};
% endif
    }
% if vector > 1:
    for (int k = 0; k < ${vector}; ++k)
        if (cell_number[item + k] >= 0) status[cell_number[item + k]] = (int)((${mask.rstrip("0123456789")} *)bad)[k];
% else:
    for (int lane = 0; lane < LANES; ++lane)
        if (cell_number[item + lane] >= 0) status[cell_number[item + lane]] = bad[lane];
% endif
}
