<%page args="spec, names, end"/>\
## Part of cell.mako: declare registers for AHEAD values per array in `names`, as NAME_`end`:
## NAME_read for the nodes at hand, NAME_next for the next ones.
% if not spec.chains:
        int codes_${end}[AHEAD];
% endif
        value ${", ".join(f"{n}_{end}[AHEAD]" + ("[RHS]" if n in "bx" else "") for n in names)};
