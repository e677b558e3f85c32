<%page args="spec"/>\
## Part of contraction.mako: the contracted tree's rows, one per inner segment. lost_d and lost_b are
## the segments' mailboxes.
<%
    M, sym, family = spec.segment, spec.symmetric, spec.family
    values = [name for name, kept in (("d", spec.eliminates), ("b", spec.solves)) if kept]
    lost = " and ".join(values)
    rows_left = [*(f"tree_{name}" for name in values), "tree_up", *(f"above_{name}" for name in values)]
%>\
    // the tree's rows${"" if spec.direct else ", stored over the leaves' u, which is no longer needed"}: ${lost}, less the
    // children's contributions; u; and what parents will subtract from ${lost}, 0 at first
% for k, name in enumerate(rows_left):
% if spec.direct:
    __local real *${name} = tree${f" + {k} * WORK_GROUP" if k else ""};
% else:
    __local real *${name} = &U(row_start[${M}])${f" + {k} * inner" if k else ""};
% endif
% endfor
% if not sym and (spec.direct or not spec.natural):
    __local real tree_low[WORK_GROUP];
% endif
    if (is_inner) {
% if spec.eliminates and not sym:
        real change = 0;   // sum of magnitudes that are subtracted from the diagonal
% endif
        for (int k = ${family.read("first_mailbox", "family")}; k < (${family.read("first_mailbox", "family")}) + (${family.read("number", "family")}); ++k) {
% if spec.eliminates:
            my_d -= lost_d[k];
% if not sym:
            change += fabs(lost_d[k]);
% endif
% endif
% if spec.solves:
            my_b -= lost_b[k];
% endif
        }
% if spec.eliminates and not sym:
        if (change > GROWTH * fabs(own) && !bad) bad = length;
% endif
% if spec.direct:
    }
    barrier(CLK_LOCAL_MEM_FENCE);   // all mailboxes are read: rows may overwrite them
    if (is_inner) {
% endif
        tree_up[lane] = my_up;
% if not sym:
        tree_low[lane] = my_low;
% endif
% if spec.eliminates:
        tree_d[lane] = my_d;
        above_d[lane] = 0;
% endif
% if spec.solves:
        tree_b[lane] = my_b;
        above_b[lane] = 0;
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
