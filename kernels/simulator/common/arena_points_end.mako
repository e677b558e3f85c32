<%page args="spec"/>\
## Part of epoch_by_node.mako: end a step for the instances in arena_points.mako. Their states usually advance as the
## next step begins. Here they advance after a launch's last step, and after each step if values are recorded. Then
## instances that are alone at their nodes write their records; nodes write all other records.
<%
    some = [kind for kind in spec.loop.apart if kind.has("advance")]
%>\
% if some:
        if (step > ${spec.loop.opens} && (num_mem || step == first_step + num_steps)) {
% for kind in some:
            // phase 7: states
            for (int j = begin_${kind.number} + lane; j < end_${kind.number}; j += LANES) {
                const real v = V(ints[place_in_cell_${kind.number} + j]);
${kind.call("advance", spec.loop.old, 16)}\
            }
% endfor
% if spec.parts > 1:
${part("simulator/common/epoch_meeting", 12)}\
% else:
            MEET_ALL();
% endif
        }
% endif
% for k in [kind.number for kind in spec.loop.apart if kind.sole]:
        // phase 9: records
        for (int j = begin_${k} + lane; num_mem && step > ${spec.loop.opens} && j < end_${k}; j += LANES) {
            const int a = ints[node_of_${k} + j];
            for (int r = mem_first[a]; r < mem_first[a + 1]; r++)
                mem_rows[(long)(record_row + step - 1 - first_step) * num_mem + mem_column[r]] = mem[mem_index[r]];
        }
% endfor
