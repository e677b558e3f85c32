<%page args="spec"/>\
<%!
from textwrap import indent
%>\
<%
K, M = spec.rows, spec.segment
X = range(K)
pairs = [(j, l) for j in X for l in range(j + 1, K)]
lower = [(x, q) for x in X for q in range(x + 1)]
full = [(x, q) for x in X for q in X]
sums = [f"r{x}" for x in X] + [f"e{x}" for x in X] + [f"b{j}{l}" for j, l in pairs]
slot = {name: k for k, name in enumerate([f"y{x}" for x in X] + [f"s{j}{l}" for j, l in pairs] + [f"t{x}{q}" for x, q in lower])}
S, F = len(sums), len(slot)
inside = {x: [f"b{x}{l}" for l in range(x + 1, K)] for x in X}
ahead = {x: [f"h{x}{q}" for q in range(x + 1)] for x in X}
%>\
## Sum of the conductances of potential x; each of `names` has a row of conductances to another column.
<%def name="all_of(x, names)">${" + ".join([f"e{x}", *inside[x]])}\
% for name in names:
% for q in X:
 + ${name}${x}${q}\
% endfor
% endfor
</%def>\
## Read v of the nodes of the column at `at`; potentials are sums of v, from the outermost node inwards.
<%def name="voltages(name, at)">\
% for x in X:
${name}${x} = ${f"{name}_has ? v[{at} + {x * M} * LANES] : (real)0" if x else f"v[{at}]"};
% endfor
</%def>\
## Read the values of column j before they are needed.
<%def name="fetch(j)">\
if (${j} < length) {
    const int at = column + (${j}) * LANES, k = kind * ${(K - 1) * M} * LANES + (${j}) * LANES + lane;
    const int t = kind * ${K * (M + 1)} * LANES + (${j}) * LANES + lane;
    o_b0 = b[at];
    o_d = d[at];
% if spec.constant:
    o_constant_b = constant_b[at];
    o_constant_g = constant_g[at];
% endif
% for x in spec.driven:
    o_b${x} = p_has ? b[at + ${x * M} * LANES] : (real)0;
% endfor
% for x in range(1, K):
    o_g${x} = g[k + ${(x - 1) * M} * LANES];
    o_over${x} = over[k + ${(x - 1) * M} * LANES];
% endfor
% for x in X:
    o_h${x} = axial[t + ${x * (M + 1)} * LANES];
% endfor
}
</%def>\
## Read v of the column after column j; after the last column v of the segment's parent.
<%def name="fetch_next(j)">\
% for x in X:
n${x} = top${x};
% endfor
n_has = top_has;
if (${j} + 1 < length) {
    n_has = around >> (${j} + 1) & 1;
${indent(capture(voltages, "n", f"column + ({j} + 1) * LANES"), "    ")}\
}
</%def>\
## Add a column's own values to its sums, and the currents to the next column.
<%def name="own()">\
const real inside = o_b0${" + (o_constant_b - o_constant_g * p0)" if spec.constant else ""};
r0 += inside;
% for x in X:
real p_${x} = ${"p0 + p1" if not x else f"p{x}"}, h${x}${x} = o_h${x};
% endfor
% for x, q in lower:
% if x != q:
real h${x}${q} = 0;
% endif
% endfor
if (p_has) {
    r1 -= inside;
    b01 += o_d;
% if 1 in spec.driven:
    r0 += o_b1;
% endif
% if K - 1 in spec.driven:
    r${K - 1} += o_b${K - 1};
% endif
% for x in range(1, K):
    const real out${x} = o_g${x} * ${f"(p{x} - p{x + 1})" if x + 1 < K else f"p{x}"};
    r${x} -= out${x};
% if x + 1 < K:
    r${x + 1} += out${x};
    b${x}${x + 1} += o_over${x};
% else:
    e${x} += o_over${x};
% endif
% endfor
} else {
    e0 += o_d;
% for x in range(1, K):
    e${x} += 1;
% endfor
}
% for x in X:
const real flow${x} = h${x}${x} * (p_${x} - ${"(n0 + n1)" if not x else f"n{x}"});
r${x} -= flow${x};
% endfor
% for x in X:
p${x} = n${x};
% endfor
p_has = n_has;
</%def>\
## Eliminate potential x of a column from its sums, and from conductances `full_rows` to potentials of other columns.
<%def name="within(x, full_rows)">\
% for l in range(x + 1, K):
const real s${l} = b${x}${l} * inverse;
r${l} += s${l} * r${x};
e${l} += s${l} * e${x};
% for k in range(l + 1, K):
b${l}${k} += s${l} * b${x}${k};
% endfor
% for name in full_rows:
% for q in X:
${name}${l}${q} += s${l} * ${name}${x}${q};
% endfor
% endfor
% endfor
</%def>\
## Add the contribution of potential x to the sums `to` of another column; `name`: its conductances to that column.
<%def name="onto(to, name, x, factor)">\
% for q in X:
const real ${factor}${q} = ${name}${x}${q} * inverse;
${to}r${q} += ${factor}${q} * r${x};
${to}e${q} += ${factor}${q} * e${x};
% for k in range(q + 1, K):
${to}b${q}${k} += ${factor}${q} * ${name}${x}${k};
% endfor
% endfor
</%def>\
## Eliminate column j. With `far`, also update the parent of the segment; u and m are the conductances of this and
## of the next column to the parent. Without, keep the coefficients that give x.
<%def name="eliminate(far)">\
% for name in sums:
real n_${name} = ${f"flow{name[1:]}" if name[0] == "r" else 0};
% endfor
% if far:
% for x, q in full:
real m${x}${q} = 0;
% endfor
% endif
% for x in X:
{
    const real inverse = 1 / (${capture(all_of, x, "u" if far else "")}${"".join(f" + {h}" for h in ahead[x])});
${indent(capture(within, x, "u" if far else ""), "    ")}\
% for l in range(x + 1, K):
% for q in range(x + 1):
    h${l}${q} += s${l} * h${x}${q};
% endfor
% endfor
% for q in range(x + 1):
    const real t${q} = h${x}${q} * inverse;
    n_r${q} += t${q} * r${x};
    n_e${q} += t${q} * e${x};
% for k in range(q + 1, x + 1):
    n_b${q}${k} += t${q} * h${x}${k};
% endfor
% if far:
% for k in X:
    m${q}${k} += t${q} * u${x}${k};
% endfor
% endif
% endfor
% if far:
${indent(capture(onto, "f_", "u", x, "w"), "    ")}\
% else:
    kept[j * ${F} + ${slot[f"y{x}"]}] = inverse * r${x};
% for l in range(x + 1, K):
    kept[j * ${F} + ${slot[f"s{x}{l}"]}] = s${l};
% endfor
% for q in range(x + 1):
    kept[j * ${F} + ${slot[f"t{x}{q}"]}] = t${q};
% endfor
% endif
}
% endfor
% for name in sums:
${name} = n_${name};
% endfor
% if far:
% for x, q in full:
u${x}${q} = m${x}${q};
% endfor
% endif
</%def>\
## Add x of a column, the change of its potentials, to v.
<%def name="put(at, has)">\
v[${at}] += ${has} ? x0 - x1 : x0;
if (${has}) {
% for x in range(1, K):
    v[${at} + ${x * M} * LANES] += x${x};
% endfor
}
</%def>\
// phase 4: solve
// Solve for the change of v in cells with extracellular layers, a lane per segment of columns; a column is
// a node inside the cell and its nodes in layers. See clhines/simulator/engines/layer_segments.py.
// spec: ${spec.real}, ${K} potentials of a column, ${spec.lanes} lanes per cell, at most ${M} columns per lane
//
// As in epochs (epoch_title.mako): each segment is eliminated towards its last column, the tree of last columns
// is contracted in rounds, the root is solved, and the rounds are undone in reverse order.
${part("solver/common/precision")}\

#define LANES ${spec.lanes}
#define UNITS ${spec.units}   // cells of a work-group
#define INNER ${spec.inner}   // most lanes of inner segments
#define NONE ${hex(spec.link.most("parent"))}   // no lane
#define TREE(k, lane) tree[unit * ${S} * INNER + (k) * INNER + (lane)]
#define LOST(k, box) lost[unit * ${S} * LANES + (k) * LANES + (box)]
#define ABOVE(k, lane) lost[unit * ${S} * LANES + (k) * INNER + (lane)]
#define TIE(x, q, lane) ties[unit * ${K * K} * INNER + ((x) * ${K} + (q)) * INNER + (lane)]

// Cells of one `kind` have equal shapes and conductances, and share tables. `axial` has the conductance from a
// column to the next one in the order of elimination, and last from the segment to its parent; `g` and `over` (g
// and C/dt) from a node to the node around it; `all_around` has a bit for each column with layers.
// The sums of a column are its right-hand sides r, conductances to ground e, and conductances b between its
// potentials.
__kernel __attribute__((reqd_work_group_size(LANES * UNITS, 1, 1)))
void solve_layers(${signature(spec, "solve_layers")})
{
    __local real tree[UNITS * ${S} * INNER], lost[UNITS * ${S} * LANES], ties[UNITS * ${K * K} * INNER];
    const int unit = (uint)get_local_id(0) / LANES, lane = (uint)get_local_id(0) % LANES;
    const int cell = get_group_id(0) * UNITS + unit, kind = kinds[min(cell, num_cells - 1)];
    const int3 head = vload3(kind, heads);   // first lane, lanes, lanes of inner segments
    const bool used = cell < num_cells && lane < head.s1, is_inner = used && lane < head.s2, is_leaf = used && !is_inner;
    const int2 me = used ? vload2(head.s0 + lane, links) : (int2)(${spec.link.write(parent="NONE")}, 0);
    const int length = ${spec.link.read("length", "me.x")};
    const int parent = ${spec.link.read("parent", "me.x", "NONE")}, mailbox = ${spec.link.read("mailbox", "me.x", "NONE")};
    const int my_round = is_inner ? ${spec.at_elimination.read("round", "me.y", "NONE")} : NONE - 1;
    const int above = ${spec.at_elimination.read("parent", "me.y", "NONE")};
    const int below = is_inner ? ${spec.at_elimination.read("child", "me.y", "NONE")} : NONE, child = below != NONE ? below : 0;
    // all columns of a leaf segment are eliminated, from its tip; all but the last of an inner one, from the root's end
    const int count = is_leaf ? length : length - 1;
    const int column = cell * ${K * M} * LANES + lane, around = all_around[kind * LANES + lane];

    // v of the parent's last column
    real ${", ".join(f"top{x} = 0" for x in X)};
    bool top_has = false;
    if (parent != NONE) {
        const int other = ${spec.link.read("length", "links[2 * (head.s0 + parent)]")};
        top_has = all_around[kind * LANES + parent] >> (other - 1) & 1;
        const int at = cell * ${K * M} * LANES + (other - 1) * LANES + parent;
${indent(capture(voltages, "top", "at"), "        ")}\
    }
    // segments, towards their last columns; f: contributions to the sums of the parent
    real ${", ".join(f"{name} = 0" for name in sums)};
    real ${", ".join(f"f_{name} = 0" for name in sums)};
    // v of a column and of the next one, and other values of a column
    real ${", ".join(f"p{x} = 0, n{x} = 0, o_h{x} = 0" for x in X)};
    real o_d = 0, ${", ".join(f"o_b{x} = 0" for x in [0, *spec.driven])}${", o_constant_b = 0, o_constant_g = 0" if spec.constant else ""};
    real ${", ".join(f"o_g{x} = 0, o_over{x} = 0" for x in range(1, K))};
    bool p_has = around & 1, n_has = false;
    if (used) {
${indent(capture(voltages, "p", "column"), "        ")}\
    }
${indent(capture(fetch, "0"), "    ")}\
${indent(capture(fetch_next, "0"), "    ")}\
% for x in X:
    const real up${x} = used ? axial[((kind * ${K} + ${x}) * ${M + 1} + ${M}) * LANES + lane] : (real)0;
    const real from_top${x} = up${x} * ${"((p0 + p1) - (top0 + top1))" if not x else f"(p{x} - top{x})"}, begin${x} = p${x};
    f_r${x} = from_top${x};
    r${x} -= from_top${x};
% endfor
% for x, q in full:
    real u${x}${q} = ${f"up{x}" if x == q else 0};
% endfor
    for (int j = 0; j < length; ++j) {
${indent(capture(own), "        ")}\
${indent(capture(fetch, "j + 1"), "        ")}\
${indent(capture(fetch_next, "j + 1"), "        ")}\
        if (j < count) {
${indent(capture(eliminate, True), "            ")}\
        }
    }
    if (used) {
% for k, name in enumerate(sums):
        LOST(${k}, mailbox) = is_leaf ? ${name} : f_${name};
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // the tree of last columns: the lanes of a round update their present parent and child
    if (is_inner) {
        const int family = children[head.s0 + lane];
        for (int k = ${spec.family.read("first_mailbox", "family")}; k < (${spec.family.read("first_mailbox", "family")}) + (${spec.family.read("number", "family")}); ++k) {
% for k, name in enumerate(sums):
            ${name} += LOST(${k}, k);
% endfor
        }
% for k, name in enumerate(sums):
        TREE(${k}, lane) = ${name};
% endfor
% for x, q in full:
        TIE(${x}, ${q}, lane) = u${x}${q};
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is_inner) {   // ABOVE overwrites the mailboxes
% for k in range(S):
        ABOVE(${k}, lane) = 0;
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    real ${", ".join(f"y{x} = 0" for x in X)};
    real ${", ".join(f"s{j}{l} = 0" for j, l in pairs)};
    real ${", ".join(f"wa{x}{q} = 0, wc{x}{q} = 0" for x, q in full)};
    int round = 0;
    do {
        if (my_round == round) {
            // all reads come before the writes, so that they are in flight together
% for k, name in enumerate(sums):
            ${name} = TREE(${k}, lane) + ABOVE(${k}, lane);
            real a_${name} = TREE(${k}, above), c_${name} = below != NONE ? ABOVE(${k}, child) : (real)0;
% endfor
% for x, q in full:
            real a${x}${q} = TIE(${x}, ${q}, lane), c${x}${q} = below != NONE ? TIE(${q}, ${x}, child) : (real)0, o${x}${q} = 0;
% endfor
% for x in X:
            {
                const real inverse = 1 / (${capture(all_of, x, "ac")});
${indent(capture(within, x, "ac"), "                ")}\
${indent(capture(onto, "a_", "a", x, "w"), "                ")}\
${indent(capture(onto, "c_", "c", x, "z"), "                ")}\
% for q, k in full:
                o${q}${k} += z${q} * a${x}${k};
% endfor
                y${x} = inverse * r${x};
% for l in range(x + 1, K):
                s${x}${l} = s${l};
% endfor
% for q in X:
                wa${x}${q} = w${q};
                wc${x}${q} = z${q};
% endfor
            }
% endfor
% for k, name in enumerate(sums):
            TREE(${k}, above) = a_${name};
% endfor
            if (below != NONE) {
% for k, name in enumerate(sums):
                ABOVE(${k}, below) = c_${name};
% endfor
% for x, q in full:
                TIE(${x}, ${q}, below) = o${x}${q};
% endfor
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (++round < ${spec.rounds});

    // the root, and back
    real ${", ".join(f"x{x} = 0" for x in X)};
    if (is_inner && my_round == NONE) {
% for k, name in enumerate(sums):
        ${name} = TREE(${k}, lane) + ABOVE(${k}, lane);
% endfor
% for x in X:
        {
            const real inverse = 1 / (${capture(all_of, x, "")});
${indent(capture(within, x, ""), "            ")}\
            y${x} = inverse * r${x};
% for l in range(x + 1, K):
            s${x}${l} = s${l};
% endfor
        }
% endfor
% for x in reversed(X):
        TREE(${x}, lane) = x${x} = y${x}${"".join(f" + s{x}{l} * x{l}" for l in range(x + 1, K))};
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    do {
        --round;
        if (my_round == round) {
% for x in X:
            const real a${x} = TREE(${x}, above), c${x} = below != NONE ? TREE(${x}, child) : (real)0;
% endfor
% for x in reversed(X):
            TREE(${x}, lane) = x${x} = y${x}${"".join(f" + s{x}{l} * x{l}" for l in range(x + 1, K))}${"".join(f" + wa{x}{q} * a{q} + wc{x}{q} * c{q}" for q in X)};
% endfor
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (round > 0);
    if (!used) return;

    // phase 5: voltages; each segment again, now that x of its last column and of its parent is known
% for x in X:
    const real top_x${x} = parent != NONE ? TREE(${x}, parent) : (real)0;
    r${x} = up${x} * top_x${x} - from_top${x};
    e${x} = up${x};
    p${x} = begin${x};
% endfor
% for j, l in pairs:
    b${j}${l} = 0;
% endfor
    p_has = around & 1;
${indent(capture(fetch, "0"), "    ")}\
${indent(capture(fetch_next, "0"), "    ")}\
    real kept[${M * F}];
#pragma unroll
    for (int j = 0; j < ${M}; ++j) {
        if (j < count) {
${indent(capture(own), "            ")}\
${indent(capture(fetch, "j + 1"), "            ")}\
${indent(capture(fetch_next, "j + 1"), "            ")}\
${indent(capture(eliminate, False), "            ")}\
        }
    }
    if (is_leaf) {
% for x in X:
        x${x} = top_x${x};
% endfor
    } else {
        const int at = column + count * LANES;
        const bool has = around >> count & 1;
${indent(capture(put, "at", "has"), "        ")}\
    }
#pragma unroll
    for (int j = ${M - 1}; j >= 0; --j) {
        if (j < count) {
            const int at = column + j * LANES;
            const bool has = around >> j & 1;
% for x in reversed(X):
            const real new${x} = kept[j * ${F} + ${slot[f"y{x}"]}]${"".join(f" + kept[j * {F} + {slot[f's{x}{l}']}] * new{l}" for l in range(x + 1, K))}${"".join(f" + kept[j * {F} + {slot[f't{x}{q}']}] * x{q}" for q in range(x + 1))};
% endfor
% for x in X:
            x${x} = new${x};
% endfor
${indent(capture(put, "at", "has"), "            ")}\
        }
    }
}
