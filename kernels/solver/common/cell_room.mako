<%page args="spec, names, end"/>\
## Registers for values of AHEAD nodes.
% if not spec.chains:
        int codes_${end}[AHEAD];
% endif
        value ${", ".join(f"{n}_{end}[AHEAD]" + ("[RHS]" if n in "bx" else "") for n in names)};
