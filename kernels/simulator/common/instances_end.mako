<%page args="spec"/>\
## After the last step of a launch: states advance over it, and go back to global memory, where the next
## launch and whoever reads them finds them.
% for calls in spec.instances:
<% kind = calls.kind %>\
% if kind.states:
    if (active >= 0) {
        for (int q = active; q < ${kind.name}__here; q += step_of_active) {
            const uint site = ${kind.name}__site[q];
            const int instance = ${kind.name}__list[2 * (${kind.name}__first + q)];
            const real v = ${calls.voltage};
% for s, name in enumerate(kind.states):
            real s_${name} = ${calls.state(s)};
% endfor
            ${calls.advance}
% if spec.samples:
            ${spec.sampled_states(kind, "step - 1")}
% endif
% for s, name in enumerate(kind.states):
            ${kind.name}__states[${s} * ${kind.name}__count + instance] = s_${name};
% endfor
        }
    }
% endif
% endfor
