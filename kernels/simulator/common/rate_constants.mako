<%page args="spec"/>\
## Part of epoch_by_instance.mako, epoch_constant.mako and epoch_by_node.mako: coefficients for the rate functions'
## series, from kernel arguments, and the kinds' constants, which are computed once per launch.
% if spec.takes_series:
% if spec.once:
    __local real once__[${spec.num_once}];   // values that are equal in all steps and at all nodes
% endif
    const node_series_ series__ = { ${", ".join(spec.series_numbers.arguments)} };
% endif
% for kind in spec.sites:
% if kind.constants:   # of all steps
    real ${", ".join(kind.constant_names)};
${kind.constants_call}\
% endif
% endfor
