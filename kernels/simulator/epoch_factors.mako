<%page args="spec"/>\
## Compute an epoch's constant factors, once before the first step: f1, f2 and 1 / d for every node and, by lane, for
## the segments' tree (for its root the pivot); with `dense` also the inverse matrix for the tree's last part.
## epoch_constant.mako uses the factors; it has the same tables and elimination order.
## A conductance matrix's diagonal is the row sum minus the entries with neighbours. So D has row sums: C/dt and
## constant conductances. They are eliminated instead of the diagonal, and a pivot is the row sum plus the remaining
## conductances. Nothing is subtracted: factors have few roundings however short compartments are, and a resting cell
## stays at rest.
<% M, I = spec.segment, spec.dense %>\
${part("simulator/common/epoch_title")}\
${part("simulator/common/epoch_functions")}
${part("simulator/common/epoch_macros")}\
__kernel${spec.required_size}
void advance(${signature(spec, "advance")})
{
${part("simulator/common/epoch_lane")}\

${part("simulator/common/epoch_local")}\
    const int column = is_inner ? lane : lane - inner;
    __local const int *row = rows_here + (is_inner ? 0 : ${M});
% for j in range(M):
    real a${j} = 0;
% endfor
    const real my_tie = used ? all_up[mine.s7 + lane] : (real)0;   // u of the edge to the parent segment

        // segments, towards their last nodes
        real sum_d = 0, my_d = 1, my_up = is_leaf ? (real)0 : my_tie;
        real less_d = 0;
% for j in range(M):
        if (length > ${j}) {
            const int place = column + row[${j}];
            my_d = D(place) - less_d;   // the row sum
            if (is_leaf && length == ${j + 1}) my_up = my_tie;
            if (is_leaf || length > ${j + 1}) {
                const real tie = TIE(place), inverse = reciprocal(my_d - my_up - tie);
                const real f1 = my_up * inverse, f2 = tie * inverse;
                sum_d += f1 * my_d;
                less_d = f2 * my_d;
                my_up *= -f2;
                all_f1[mine.s0 + place] = f1;
                all_f2[mine.s0 + place] = f2;
                all_inverse[mine.s0 + place] = inverse;
            }
        }
% endfor
${part("simulator/common/segment_rounds")}\
        // the tree's factors; f1 = 0, f2 = -1 and 1 / d = 0 make the last node pass x on
        if (is_inner) {
            const int place = column + row[length - 1];
            all_f1[mine.s0 + place] = 0;
            all_f2[mine.s0 + place] = -1;
            all_inverse[mine.s0 + place] = 0;
            tree_factors[3 * (mine.s7 + lane)] = tree_f1;
            tree_factors[3 * (mine.s7 + lane) + 1] = tree_f2;
            tree_factors[3 * (mine.s7 + lane) + 2] = is_root ? tree_d[lane] - above_d[lane] : tree_inverse;
        }
% if I:
        // The late nodes' inverse matrix; the last rounds eliminate these nodes, column by column, without the
        // root. The root's column is the solution with 1 at the root, its row has other nodes' contributions to its b.
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
            } while (++r < ${spec.chip.last_round});
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
