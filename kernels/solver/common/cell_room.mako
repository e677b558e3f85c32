<%page args="spec, names, end"/>\
## Part of cell.mako: registers NAME_END for the arrays `names` of AHEAD nodes; `end` is read or next.
% if not spec.chains:
        int codes_${end}[AHEAD];
% endif
        value ${", ".join(f"{n}_{end}[AHEAD]" + ("[RHS]" if n in "bx" else "") for n in names)};
