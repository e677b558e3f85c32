<%page args="spec"/>\
<%!
from textwrap import indent
%>\
<%
K, at = spec.potentials, spec.columns
X = range(K)
pairs = [(j, l) for j in X for l in range(j + 1, K)]
full = [(x, q) for x in X for q in X]
sums = [f"r{x}" for x in X] + [f"e{x}" for x in X] + [f"b{j}{l}" for j, l in pairs]
inner = {pair: f"c{at.inner + k}" for k, pair in enumerate(pairs)}
to_next = {pair: f"c{at.next + k}" for k, pair in enumerate((x, q) for x in X for q in range(x + 1))}
to_top = {(x, q): f"c{at.top + x * K + q}" for x, q in full}
forward, backward = range(at.g), range(at.inner, at.g)   # numbers of a row
inside = {x: [f"b{x}{l}" for l in range(x + 1, K)] for x in X}
%>\
## Part of epoch_by_node.mako if nodes have layers around them: solve for all potentials' changes, see
## clhines/simulator/gpu/columns.py. c0, c1, ... are a column's row of factors; its nodes are side by side at
## `place`. The next column's values are read before the present one's results are written, as the compiler does
## not move reads ahead of writes. r, e and b are a column's sums: right-hand sides, conductances to ground, and
## conductances between its potentials.
## Sum of potential x's conductances; each of `names` has a row of conductances to another column.
<%def name="all_of(x, names)">(${" + ".join([f"e{x}", *inside[x]])})\
% for name in names:
 + (${" + ".join(f"{name}{x}{q}" for q in X)})\
% endfor
</%def>\
## Eliminate a column's potential x from its sums, and from its conductances to potentials in the columns `names`.
<%def name="within(x, names)">\
% for l in range(x + 1, K):
const real s${l} = b${x}${l} * inverse;
r${l} += s${l} * r${x};
e${l} += s${l} * e${x};
% for k in range(l + 1, K):
b${l}${k} += s${l} * b${x}${k};
% endfor
% for name in names:
% for q in X:
${name}${l}${q} += s${l} * ${name}${x}${q};
% endfor
% endfor
% endfor
</%def>\
## Add potential x's contribution to the sums of column `name`.
<%def name="onto(name, x, factor)">\
% for q in X:
const real ${factor}${q} = ${name}${x}${q} * inverse;
${name}_r${q} += ${factor}${q} * r${x};
${name}_e${q} += ${factor}${q} * e${x};
% for k in range(q + 1, K):
${name}_b${q}${k} += ${factor}${q} * ${name}${x}${k};
% endfor
% endfor
</%def>\
## Read the potentials in the column at `place`; inside a cell: v plus the first layer's potential.
<%def name="potentials(name, place)">\
% for x in reversed(X):
${name}${x} = V(${place} + ${x})${f" + {name}1" if not x else ""};
% endfor
</%def>\
## Set `own`, the right-hand sides for column j at `place`, whose potentials are p, and `flow`, the currents to the next
## column. Then p has that column's potentials.
<%def name="currents(j, place)">\
{
    __global const real *restrict o = FACTORS(${j});
    const int after = ${j} + 1 < length ? PLACE(${j} + 1) : top_place;
${indent(capture(potentials, "n", "after"), "    ")}\
    const real inside = A(${place}) + (o[${at.constant + 1}] - o[${at.constant}] * V(${place}));
% for x in range(1, K):
    const real out${x} = o[${at.g + x - 1}] * ${f"(p{x} - p{x + 1})" if x + 1 < K else f"p{x}"};
% endfor
    own0 = inside${f" + A({place} + 1)" if 1 in spec.driven else ""};
% for x in range(1, K):
    own${x} = ${f"out{x - 1}" if x > 1 else f"-o[{at.has}] * inside"} - out${x}${f" + A({place} + {x})" if x == K - 1 and x in spec.driven else ""};
% endfor
    if (${j} < num_eliminated) {
% for x in X:
        flow${x} = o[${at.axial + x}] * (p${x} - n${x});
        own${x} -= flow${x};
        p${x} = n${x};
% endfor
    }
}
</%def>\
## Add x, the potentials' changes, to v.
<%def name="put(place)">\
V(${place}) += x0 - x1;
% for x in range(1, K):
V(${place} + ${x}) += x${x};
% endfor
</%def>\
#define PLACE(j) (${K} * (column + row[j]))
#define FACTORS(j) (rows_of_factors + ${at.width} * row_here[column + row[j]])
#define TREE(k, lane) tree[(k) * LANES + (lane)]
#define ABOVE(k, lane) tree[${len(sums)} * LANES + (k) * LANES + (lane)]
#define TIE(x, q, lane) tree[(${2 * len(sums)} + (x) * ${K} + (q)) * LANES + (lane)]
#define LOST(k, box) tree[(${2 * len(sums) + K * K} + (k)) * LANES + (box)]

        // phase 4: solve; the segments' right-hand sides, towards their last columns
        const int num_eliminated = is_leaf ? length : length - 1, last_place = used ? PLACE(is_leaf ? 0 : length - 1) : 0;
        const int top_place = parent == NONE ? last_place : ${K} * (parent + top_row);
        __global const real *restrict row_of_last = used ? FACTORS(is_leaf ? 0 : length - 1) : rows_of_factors;
        real ${", ".join(f"{name} = 0" for name in sums)};
        real ${", ".join(f"f{x} = 0, p{x} = 0, n{x} = 0, own{x} = 0, flow{x} = 0" for x in X)};   // f: contribution to the parent
        if (used) {
            int place = PLACE(0);
${indent(capture(potentials, "p", "place"), " " * 12)}\
${indent(capture(potentials, "n", "top_place"), " " * 12)}\
% for x in X:
            r${x} = is_inner ? row_of_last[${at.axial + x}] * (n${x} - p${x}) : (real)0;
            f${x} = -r${x};
% endfor
${indent(capture(currents, "0", "place"), " " * 12)}\
            for (int j = 0; j < num_eliminated; ++j) {
                __global const real *restrict c = FACTORS(j);
                const real ${", ".join(f"c{k} = c[{k}]" for k in forward)};
                const int next = j + 1 < length ? PLACE(j + 1) : top_place;
% for x in X:
                r${x} += own${x};
                real next_r${x} = flow${x};
% endfor
                if (j + 1 < length) {
${indent(capture(currents, "j + 1", "next"), " " * 20)}\
                }
% for x in X:
                W(place + ${x}) = c${x} * r${x};
% for l in range(x + 1, K):
                r${l} += ${inner[x, l]} * r${x};
% endfor
% for q in range(x + 1):
                next_r${q} += ${to_next[x, q]} * r${x};
% endfor
% for q in X:
                f${q} += ${to_top[x, q]} * r${x};
% endfor
% endfor
% for x in X:
                r${x} = next_r${x};
% endfor
                place = next;
            }
% for x in X:
            r${x} += is_inner ? own${x} : (real)0;
% endfor
% for x in X:
            LOST(${x}, mailbox) = is_leaf ? r${x} : f${x};
% endfor
        }
        MEET();

        // the tree of last columns: a round's lanes update their present parent and child
        if (is_inner) {
            for (int k = ${spec.family.read("first_mailbox", "family")}; k < (${spec.family.read("first_mailbox", "family")}) + (${spec.family.read("number", "family")}); ++k) {
% for x in X:
                r${x} += LOST(${x}, k);
% endfor
            }
% for x in X:
            e${x} = row_of_last[${x}];
% endfor
% for k, (j, l) in enumerate(pairs):
            b${j}${l} = row_of_last[${at.inner + k}];
% endfor
            if (row_of_last[${at.has}]) b01 += W(last_place);
            else e0 += W(last_place);
% for k, name in enumerate(sums):
            TREE(${k}, lane) = ${name};
            ABOVE(${k}, lane) = 0;
% endfor
% for x, q in full:
            TIE(${x}, ${q}, lane) = row_of_last[${at.top + x * K + q}];
% endfor
        }
        MEET();
        real ${", ".join(f"y{x} = 0, x{x} = 0" for x in X)};
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
                    const real inverse = reciprocal(${capture(all_of, x, "ac")});
${indent(capture(within, x, "ac"), " " * 20)}\
${indent(capture(onto, "a", x, "w"), " " * 20)}\
${indent(capture(onto, "c", x, "z"), " " * 20)}\
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
            MEET();
        } while (++round < ${spec.chip.last_round});

        // the root, and back
        if (is_root) {
% for k, name in enumerate(sums):
            ${name} = TREE(${k}, lane) + ABOVE(${k}, lane);
% endfor
% for x in X:
            {
                const real inverse = reciprocal(${capture(all_of, x, "")});
${indent(capture(within, x, ""), " " * 16)}\
                y${x} = inverse * r${x};
% for l in range(x + 1, K):
                s${x}${l} = s${l};
% endfor
            }
% endfor
% for x in reversed(X):
            TREE(${x}, lane) = x${x} = y${x}${"".join(f" + s{x}{l} * x{l}" for l in range(x + 1, K))};
% endfor
            const real before = V(last_place), after = before + (x0 - x1);
% if spec.in_steps:
${part("simulator/common/detect", 12, crosses="before <= my_threshold && after > my_threshold", source="mine.s6")}\
% endif
            fault = runaway(after, fault, step);
        }
        MEET();
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
            MEET();
        } while (round > 0);

        // phase 5: voltages; segments, from their last columns to the first
        if (used) {
% for x in X:
            const real top${x} = parent != NONE ? TREE(${x}, parent) : (real)0;
% endfor
            if (is_inner) {
${indent(capture(put, "last_place"), " " * 16)}\
            } else {
% for x in X:
                x${x} = top${x};
% endfor
            }
            real ${", ".join(f"kept{x} = W(PLACE(max(num_eliminated - 1, 0)) + {x})" for x in X)};
            for (int j = num_eliminated - 1; j >= 0; --j) {
                const int place = PLACE(j), before = PLACE(max(j - 1, 0));
                __global const real *restrict c = FACTORS(j);
                const real ${", ".join(f"c{k} = c[{k}]" for k in backward)};
% for x in reversed(X):
                const real new${x} = kept${x}${"".join(f" + {to_top[x, q]} * top{q}" for q in X)}${"".join(f" + {to_next[x, q]} * x{q}" for q in range(x + 1))}${"".join(f" + {inner[x, l]} * new{l}" for l in reversed(range(x + 1, K)))};
% endfor
% for x in X:
                kept${x} = W(before + ${x});
% endfor
% for x in X:
                x${x} = new${x};
% endfor
${indent(capture(put, "place"), " " * 16)}\
            }
        }
