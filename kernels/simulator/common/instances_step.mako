<%page args="spec"/>\
## A step of the mechanisms, instance by instance: states advance over the step before, events act, and
## conductance and current are left in the instance's slot. Nothing else of a node is read than v of the
## step's begin.
% for calls in spec.instances:
<% kind = calls.kind %>\
            for (int q = active; q < ${kind.name}__here; q += step_of_active) {
                const uint site = ${kind.name}__site[q];
% if calls.needs_instance:
                const int instance = ${kind.name}__list[2 * (${kind.name}__first + q)];
% endif
% if kind.takes_events:
                __global long *due = incoming + (long)(step % ring) * num_targets + ${kind.first_target} + instance;
% if calls.is_ahead:
                const long weight = ${kind.name}__next;
                if (step + 1 < first_step + num_steps)
                    ${kind.name}__next = incoming[(long)((step + 1) % ring) * num_targets + ${kind.first_target} + instance];
% else:
                const long weight = *due;
% endif
% endif
                const real v = ${calls.voltage};
% for s, name in enumerate(kind.states):
                real s_${name} = ${calls.state(s)};
% endfor
% if kind.states:
                // phase 7: states, of the step before
                if (step > first_step)
                    ${calls.advance}
% endif
% if kind.states and spec.samples:
                if (step > first_step) ${spec.sampled_states(kind, "step - 1")}
% endif
% if kind.takes_events:
                // phase 1: events
                if (weight) {
                    *due = 0;
                    ${calls.event}
                }
% endif
% for s, name in enumerate(kind.states):
                ${calls.state(s)} = s_${name};
% endfor
                // phase 3: currents
                real i, g;
% if kind.uses_noise:
                const real noise = normal(seed, (ulong)(${kind.number} + instance), (ulong)step);
% endif
                ${calls.current}
% if kind.density:
                const real factor = ${calls.factor};
% endif
<% all_g, all_i = (f"factor * {x}" if kind.density else x for x in "gi") %>\
                const real all_g = ${all_g}, all_i = ${all_i};
                slot_g[${spec.site.read("slot", "site")}] = all_g;
                slot_h[${spec.site.read("slot", "site")}] = ${"all_g * v - all_i" if spec.constant else "-all_i"};
% if spec.samples:   # last: between current and slots it would keep a compiler from fusing what it fuses without
                ${spec.sampled_current(kind, calls.current)}
% endif
            }
% endfor
