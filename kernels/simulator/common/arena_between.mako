<%page args="spec, sections"/>\
## Part of arena_lists.mako, before a pass over the lists of nodes: a barrier for all of the cell's lanes; then
## states diffuse, values that instances add by pointers are summed, or events act in layers: an instance that another
## one's event can reach in the same step is in a later layer. A pass does some `sections` in a step, see
## `ListLoop.passes`. In a launch's first pass, `opens`, there is no step before; the last one, `closes`, only ends a step.
<% e = spec.arena %>\
% if "states" in sections and (spec.reads_nodes or spec.leads):
        MEET_ALL();   // currents have set values that other nodes read
% endif
% if "end" in sections and "states" not in sections:
${part("simulator/common/arena_diffusion")}\
% endif
% if sections == ("begin",):
% if e.sums:
        MEET_ALL();   // all instances have added
        for (int n = present && !opens ? ints[cell_sum + mine.s6] + lane : 0, last = present && !opens ? ints[cell_sum + mine.s6 + 1] : 0; n < last; n += LANES) {
            const int s = ints[cell_sums + n];
            const long row = record_row + step - 1 - first_step;
${part("simulator/common/arena_sums", 12)}\
        }
% endif
        if (closes) break;
        MEET_ALL();   // the step before has ended at all nodes
% if spec.layers:
${part("simulator/common/layer_events")}\
% endif
% endif
