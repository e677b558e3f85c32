<%page args="spec, growth"/>\
## Part of every template of a method but contraction.mako: bounds of good pivots, and with `growth`
## of their ratio to diagonals; the bit of a bad pivot in a cell's status, see arguments.mako.
${part("solver/common/pivot_bounds")}\
#define BAD (${spec.status.write(bad="1")})   // in the status: a bad pivot
% if growth:
#define GROWTH ${spec.growth}   // digits are lost if the terms added to a diagonal are larger by this factor
% endif
