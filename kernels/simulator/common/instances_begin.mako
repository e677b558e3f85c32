<%page args="spec"/>\
## Part of epoch_by_instance.mako and epoch_constant.mako: local memory for mechanisms' instances during a launch:
## slots, which hold an instance's conductance and current, side by side for each node; each instance's node, cell
## and slot, packed (`site`); the first step's events; states. Lanes with `active` >= 0 have instances: every
## step_of_active-th in a mechanism.
    // the work-group's instances
    const int active = lid${f" - {spec.lanes * spec.units}" if spec.chip.apart else ""}, step_of_active = ${spec.chip.step_of_active};
    // slots: an instance's conductance, and current into its node${" at v = 0" if spec.constant else ""}; the last slot is 0
    __local real slot_g[${spec.slots + 1}], slot_h[${spec.slots + 1}];
    if (lid == 0) slot_g[${spec.slots}] = slot_h[${spec.slots}] = 0;
% for kind in spec.sites:
    const int ${kind.name}__first = ${kind.name}__start[get_group_id(0)];
    const int ${kind.name}__here = ${kind.name}__start[get_group_id(0) + 1] - ${kind.name}__first;
    __local uint ${kind.name}__site[${kind.most}];   // ${spec.site}
    for (int q = lid; q < ${kind.name}__here; q += WORK_GROUP)
        ${kind.name}__site[q] = ${kind.name}__list[2 * (${kind.name}__first + q) + 1];
% if spec.is_ahead(kind):
    long ${kind.name}__next = 0;
    if (active >= 0 && active < ${kind.name}__here)
        ${kind.name}__next = incoming[(long)(first_step % slots) * num_targets + ${kind.first_target}
                                     + ${kind.name}__list[2 * (${kind.name}__first + active)]];
% endif
% if kind.states and kind.local:
    __local real ${kind.name}__local[${len(kind.states) * kind.most}];
    for (int q = active; q >= 0 && q < ${kind.name}__here; q += step_of_active) {   // same lanes as at the end
        const int j = ${kind.name}__list[2 * (${kind.name}__first + q)];
% for name in kind.states:
        ${kind.during(name)} = ${kind.places.state(name)};
% endfor
    }
% endif
% endfor
