<%page args="spec, growth"/>\
## Bounds of good pivots, and with `growth` of their ratio to diagonals; the status of a bad one.
${part("solver/common/pivot_bounds")}\
#define BAD (${spec.status.write(bad="1")})   // in the status: a bad pivot, see STATUS in kernel_spec.py
% if growth:
#define GROWTH ${spec.growth}   // see there
% endif
