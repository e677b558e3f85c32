<%page args="spec"/>\
## Numbers of the rate functions' series, which are arguments of the kernel, and results of the kinds'
## functions of constants: worked out once in a launch, the same in all its steps.
% if spec.takes_series:
% if spec.once:
    __local real once__[${spec.num_once}];   // what is the same in all steps, at all nodes
% endif
    const node_series_ series__ = { ${", ".join(spec.series_numbers.arguments)} };
% endif
% for kind in spec.sites:
% if kind.constants:   # of all steps
    real ${", ".join(kind.constant_names)};
${kind.constants_call}\
% endif
% endfor
