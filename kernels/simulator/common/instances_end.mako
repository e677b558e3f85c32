<%page args="spec"/>\
## Part of epoch_by_instance.mako and epoch_constant.mako, after a launch's last step: states advance over this
## step and are stored in mem again.
% for kind in spec.sites:
% if kind.states or spec.samples:
    if (active >= 0) {
        for (int q = active; q < ${kind.name}__here; q += step_of_active) {
            const uint site = ${kind.name}__site[q];
            const int j = ${kind.name}__list[2 * (${kind.name}__first + q)];
            const real v = ${spec.voltage};
% for name in kind.states:
            real s_${name} = ${kind.during(name)};
% endfor
% if kind.has("advance"):
${kind.advance(12)}\
% endif
% for name in kind.states:
            ${kind.places.state(name)} = s_${name};
% endfor
% if spec.samples:
${part("simulator/common/instances_rows", 12, kind=kind)}\
% endif
        }
    }
% endif
% endfor
