<%page args="spec"/>\
<%
K = spec.rows
right, ground, share = ([f"w[{k * K + x}]" for x in range(K)] for k in range(3))
names = [f"b{j}{l}" for j in range(K) for l in range(j + 1, K)]
names += [f"h{x}{q}" for x in range(K) for q in range(x + 1)]
slot = {name: 3 * K + k for k, name in enumerate(names)}
size = 3 * K + len(names)
%>\
// phase 4: solve
// The change of v in a step, where nodes lie around others: clhines/simulator/model/layers.py says how.
// spec: ${spec.real}, ${K} potentials of a column
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

// Each work-item has cells in turn, and `work` for one of `most` columns. Of column i `place` has the
// places of its nodes, -1 for none, row by row as `axial`, `g` and `over` (g and C/dt) have conductances;
// `d` and `b` are as `begin_step` gives them. `work` has of each column currents, conductances to ground,
// shares, those between its potentials (b), and those to the potentials of the column above (h).
// `x` are the changes.
__kernel void solve_layers(${signature(spec, "solve_layers")})
{
    if (get_global_id(0) >= num_items) return;
    for (int cell = get_global_id(0); cell < num_cells; cell += num_items) {
        const int begin = first[cell], end = first[cell + 1];
        __global real *own = work + (long)get_global_id(0) * most * ${size};
        for (int i = begin; i < end; i++) {
            __global real *w = own + (i - begin) * ${size};
            const int at0 = place[i], p = above[i];
            const int has = place[num_columns + i] >= 0;
            real p0 = v[at0], r0 = b[at0];
% for x in range(1, K):
            real p${x} = 0, r${x} = 0;
% endfor
% for x in range(K):
            ${ground[x]} = ${"has ? 0 : d[at0]" if not x else "has ? 0 : 1"};
% endfor
% for name in names:
            w[${slot[name]}] = ${f"axial[{name[1]} * num_columns + i]" if name[0] == "h" and name[1] == name[2] else 0};
% endfor
            if (has) {
% for x in range(1, K):
                const int at${x} = place[${x} * num_columns + i];
                p${x} = v[at${x}];
% endfor
                p0 += p1;
                r1 = -r0;
                r0 += b[at1];
                r${K - 1} += b[at${K - 1}];
                w[${slot["b01"]}] = d[at0];
% for x in range(1, K):
                const real out${x} = g[${x} * num_columns + i] * ${f"(p{x} - p{x + 1})" if x + 1 < K else f"p{x}"};
                r${x} -= out${x};
% if x + 1 < K:
                r${x + 1} += out${x};
                w[${slot[f"b{x}{x + 1}"]}] = over[${x} * num_columns + i];
% else:
                ${ground[x]} += over[${x} * num_columns + i];
% endif
% endfor
            }
            if (p >= 0) {
                __global real *to = own + (p - begin) * ${size};
% for x in range(K):
                const real flow${x} = axial[${x} * num_columns + i] * (to[${2 * K + x}] - p${x});
                r${x} += flow${x};
                to[${x}] -= flow${x};
% endfor
            }
% for x in range(K):
            ${right[x]} = r${x};
            ${share[x]} = p${x};  // the potential, until the column is eliminated
% endfor
        }
        for (int i = end - 1; i >= begin; i--) {
            __global real *w = own + (i - begin) * ${size};
% for x in range(K):
            real r${x} = ${right[x]}, e${x} = ${ground[x]};
% endfor
% for name in names:
            real ${name} = w[${slot[name]}];
% endfor
% for x in range(K):
<% others = [f"b{x}{j}" for j in range(x + 1, K)] + [f"h{x}{q}" for q in range(x + 1)] %>\
            const real f${x} = 1 / (${" + ".join([f"e{x}", *others])});
% for j in range(x + 1, K):
            const real s${x}${j} = b${x}${j} * f${x};
            r${j} += s${x}${j} * r${x};
            e${j} += s${x}${j} * e${x};
% for l in range(j + 1, K):
            b${j}${l} += s${x}${j} * b${x}${l};
% endfor
% for q in range(x + 1):
            h${j}${q} += s${x}${j} * h${x}${q};
% endfor
% endfor
            ${right[x]} = r${x};
            ${share[x]} = f${x};
% endfor
% for name in names:
            w[${slot[name]}] = ${name};
% endfor
            if (above[i] < 0) continue;
            __global real *to = own + (above[i] - begin) * ${size};
% for x in range(K):
% for q in range(x + 1):
            const real t${x}${q} = h${x}${q} * f${x};
            to[${q}] += t${x}${q} * r${x};
            to[${K + q}] += t${x}${q} * e${x};
% for r in range(q + 1, x + 1):
            to[${slot[f"b{q}{r}"]}] += t${x}${q} * h${x}${r};
% endfor
% endfor
% endfor
        }
        for (int i = begin; i < end; i++) {
            __global real *w = own + (i - begin) * ${size};
            const __global real *from = own + max(above[i] - begin, 0) * ${size};
% for x in reversed(range(K)):
            const real x${x} = ${share[x]} * (${" + ".join([right[x]]
                + [f"w[{slot[f'b{x}{j}']}] * x{j}" for j in range(x + 1, K)]
                + [f"(above[i] < 0 ? 0 : w[{slot[f'h{x}{q}']}] * from[{q}])" for q in range(x + 1)])});
% endfor
% for x in range(K):
            ${right[x]} = x${x};
% endfor
            const int has = place[num_columns + i] >= 0;
            x[place[i]] = has ? x0 - x1 : x0;
            if (!has) continue;
% for x in range(1, K):
            x[place[${x} * num_columns + i]] = x${x};
% endfor
        }
    }
}
