<%page args="spec"/>\
<%
K, L = spec.rows, spec.lanes
pairs = [(j, l) for j in range(K) for l in range(j + 1, K)]
lower = [(x, q) for x in range(K) for q in range(x + 1)]
sums = [f"r{x}" for x in range(K)] + [f"e{x}" for x in range(K)] + [f"b{j}{l}" for j, l in pairs]
slot = {name: k for k, name in enumerate([f"y{x}" for x in range(K)] + [f"s{j}{l}" for j, l in pairs]
                                         + [f"t{x}{q}" for x, q in lower])}
kept = lambda name: f"w[{slot[name] * L}]"
of = lambda name, x, at="at": f"{name}[{f'{x} * num_columns + ' if x > 1 else 'num_columns + ' if x else ''}{at}]"
%>\
<%def name="potentials(p, column, indent)">\
% for x in range(K):
${indent}const int ${p}_at${x} = ${of("place", x, column)};
% endfor
${indent}const int ${p}_has = ${p}_at1 >= 0;
% for x in reversed(range(K)):
${indent}const real ${p}${x} = ${f"v[{p}_at0] + ({p}_has ? {p}1 : 0)" if not x else f"{p}_has ? v[{p}_at{x}] : 0"};
% endfor
</%def>\
// phase 4: solve
// Solve for the voltage changes in cells with extracellular layers; see clhines/simulator/model/layers.py.
// spec: ${spec.real}, ${K} potentials per column, ${L} cells side by side
${part("solver/common/precision")}\

// A column is a node inside the cell and its nodes in layers. A work-item solves several cells; `work` has
// space for one cell with `most` columns. A cell's column i has the number start + ${L} * i. `place` has the
// places (indices in v) of a column's nodes, -1 for none, row by row. The conductances have the same order: `axial`
// to the parent, `g` to the next potential further out or to ground, and `over`, which is g + C/dt. `d` and `b` come from
// steps.mako. `code` has the number of the column's parent in the cell, -1 for none, and the bits `waits` and
// `first`. The parent right before its child gets the sums in registers, other parents get them in `work`: such a
// parent `waits` for them, and the child that is eliminated `first` sets them, to which others add. After its
// elimination a column's potential x is
//     x = y + s01 * x1 + ... (potentials further out) + t00 * x0 + ... (the parent's potentials)
// The array `x` gets v's changes, `v` has the voltages as the step begins.

__kernel void solve_layers(${signature(spec, "solve_layers")})
{
    const int item = get_global_id(0);
    if (item >= num_items) return;
    __global real *own = work + ((long)((uint)item / ${L}u) * most * ${len(slot) * L} + (uint)item % ${L}u);
    for (int cell = item; cell < num_cells; cell += num_items) {
        const int begin = start[cell], size = sizes[cell];
        // the column's sums: right-hand sides, conductances to ground, and between its potentials
        real ${", ".join(f"{name} = 0" for name in sums)};
        int at = begin + (size - 1) * ${L};
% for x in range(K):
        int at${x} = ${of("place", x)};
% endfor
        int has = at1 >= 0;
% for x in reversed(range(K)):
        real p${x} = ${f"v[at0] + (has ? p1 : 0)" if not x else f"has ? v[at{x}] : 0"};
% endfor
        for (int i = size - 1; i >= 0; i--, at -= ${L}) {
            __global real *w = own + (long)i * ${len(slot) * L};
            const int p = ${spec.column.read("parent", "code[at]")}, before = max(at - ${L}, begin);
${potentials("n", "before", " " * 12)}\
            if (${spec.column.read("waits", "code[at]")}) {
% for k, name in enumerate(sums):
                ${name} += w[${k * L}];
% endfor
            }
            const real inside = b[at0];
            r0 += inside;
% for x, q in lower:
            real h${x}${q} = ${of("axial", x) if x == q else 0};
% endfor
            if (has) {
                const real first = b[at1], last = ${f"b[at{K - 1}]" if K > 2 else "first"};
                r0 += first;
                r1 -= inside;
                r${K - 1} += last;
                b01 += d[at0];
% for x in range(1, K):
                const real out${x} = ${of("g", x)} * ${f"(p{x} - p{x + 1})" if x + 1 < K else f"p{x}"};
                r${x} -= out${x};
% if x + 1 < K:
                r${x + 1} += out${x};
                b${x}${x + 1} += ${of("over", x)};
% else:
                e${x} += ${of("over", x)};
% endif
% endfor
            } else {
                e0 += d[at0];
% for x in range(1, K):
                e${x} += 1;
% endfor
            }
            // contributions to the parent
            real ${", ".join(f"up_{name} = 0" for name in sums)};
            if (p >= 0) {
                real ${", ".join(f"o{x} = n{x}" for x in range(K))};
                if (p != i - 1) {
                    const int other = begin + p * ${L};
${potentials("m", "other", " " * 20)}\
% for x in range(K):
                    o${x} = m${x};
% endfor
                }
% for x in range(K):
                up_r${x} = h${x}${x} * (p${x} - o${x});
                r${x} -= up_r${x};
% endfor
            }
% for x in range(K):
<% others = [f"b{x}{j}" for j in range(x + 1, K)] + [f"h{x}{q}" for q in range(x + 1)] %>\
            const real f${x} = 1 / (${" + ".join([f"e{x}", *others])});
            ${kept(f"y{x}")} = f${x} * r${x};
% for j in range(x + 1, K):
            const real s${x}${j} = b${x}${j} * f${x};
            ${kept(f"s{x}{j}")} = s${x}${j};
            r${j} += s${x}${j} * r${x};
            e${j} += s${x}${j} * e${x};
% for l in range(j + 1, K):
            b${j}${l} += s${x}${j} * b${x}${l};
% endfor
% for q in range(x + 1):
            h${j}${q} += s${x}${j} * h${x}${q};
% endfor
% endfor
% for q in range(x + 1):
            const real t${x}${q} = h${x}${q} * f${x};
            ${kept(f"t{x}{q}")} = t${x}${q};
            up_r${q} += t${x}${q} * r${x};
            up_e${q} += t${x}${q} * e${x};
% for r in range(q + 1, x + 1):
            up_b${q}${r} += t${x}${q} * h${x}${r};
% endfor
% endfor
% endfor
            if (p >= 0 && p != i - 1) {
                __global real *to = own + (long)p * ${len(slot) * L};
                const int first = ${spec.column.read("first", "code[at]")};
% for k, name in enumerate(sums):
                to[${k * L}] = (first ? 0 : to[${k * L}]) + up_${name};
                up_${name} = 0;
% endfor
            }
% for name in sums:
            ${name} = up_${name};
% endfor
% for x in range(K):
            at${x} = n_at${x};
            p${x} = n${x};
% endfor
            has = n_has;
        }
        real ${", ".join(f"x{x} = 0" for x in range(K))};   // potentials in the previous column
        at = begin;
        for (int i = 0; i < size; i++, at += ${L}) {
            __global real *w = own + (long)i * ${len(slot) * L};
            const int p = ${spec.column.read("parent", "code[at]")}, at0 = place[at], at1 = ${of("place", 1)};
            if (p != i - 1 && p >= 0) {
                const __global real *from = own + (long)p * ${len(slot) * L};
% for x in range(K):
                x${x} = from[${x * L}];
% endfor
            }
% for x in reversed(range(K)):
            const real new${x} = ${" + ".join([kept(f"y{x}")] + [f"{kept(f's{x}{j}')} * new{j}" for j in range(x + 1, K)]
                + [f"{kept(f't{x}{q}')} * x{q}" for q in range(x + 1)])};
% endfor
% for x in range(K):
            x${x} = new${x};
% endfor
            if (${spec.column.read("waits", "code[at]")}) {
% for x in range(K):
                w[${x * L}] = x${x};
% endfor
            }
            x[at0] = at1 >= 0 ? x0 - x1 : x0;
            if (at1 < 0) continue;
            x[at1] = x1;
% for x in range(2, K):
            x[${of("place", x)}] = x${x};
% endfor
        }
    }
}
