<%page args="spec"/>\
## Part of epoch_by_instance.mako and epoch_constant.mako: a step for mechanisms, instance by instance: states advance
## over the step before, events act, and the instance stores its conductance, slot_g, and its part of the right-hand
## side, slot_h, at its slot in local memory. Only v at a step's begin is read from a node. With n = step_of_active, a
## lane advances every n-th instance of a mechanism, from number `active` on: X__list has the instances' numbers,
## X__site packs slot, cell and node.
% for kind in spec.sites:
            for (int q = active; q < ${kind.name}__here; q += step_of_active) {
                const uint site = ${kind.name}__site[q];
                const int j = ${kind.name}__list[2 * (${kind.name}__first + q)];
% if kind.summed:
                __global long *due = incoming + (long)(step % slots) * num_targets + ${kind.first_target} + j;
% if spec.is_ahead(kind):
                const long sum = ${kind.name}__next;
                if (step + 1 < first_step + num_steps)
                    ${kind.name}__next = incoming[(long)((step + 1) % slots) * num_targets + ${kind.first_target} + j];
% else:
                const long sum = *due;
% endif
% endif
                const real v = ${spec.voltage};
% for name in kind.states:
                real s_${name} = ${kind.during(name)};
% endfor
% if kind.has("advance"):
                // phase 7: states, in the step before
                if (step > first_step) {
${kind.advance(20)}\
                }
% endif
% if spec.samples:
                // phase 9: records
                if (step > first_step)
${part("simulator/common/instances_rows", 16, kind=kind)}\
% endif
% if kind.summed:
                // phase 1: events
                if (sum) {
                    *due = 0;
${kind.event(20)}\
                }
% endif
% for name in kind.states:
                ${kind.during(name)} = s_${name};
% endfor
                // phase 3: currents
% if kind.uses_noise:
                const real noise = normal(seed, (ulong)(number_${kind.number} + j), (ulong)step);
% endif
${kind.current(16)}\
% if kind.kind == "density":
                const real factor = ${spec.factor_of(kind)};
% endif
<% all_g, all_i = (f"factor * {x}" if kind.kind == "density" else x for x in ("g_g", "i_i")) %>\
                const real all_g = ${all_g}, all_i = ${all_i};
                slot_g[${spec.site.read("slot", "site")}] = all_g;
                slot_h[${spec.site.read("slot", "site")}] = ${"all_g * v - all_i" if spec.constant else "-all_i"};
% if kind.current_place:   # last: before the slots it would change which operations a compiler fuses
                if (mem_first[ints[owner_${kind.number}] + j] < mem_first[ints[owner_${kind.number}] + j + 1]) {
${kind.current_again(20) if spec.fused else ""}\
                    ${kind.current_place} = ${kind.recorded_current};
                }
% endif
            }
% endfor
