<%page args="spec, meet"/>\
## Part of epoch_by_instance.mako and epoch_by_node.mako: write all voltages into the row of the step, if a record keeps
## this step; `keeps` is from epoch_records.mako.
% if spec.whole:
        // phase 9: records
        if (keeps)
            for (int k = lane; ${"part == 0" if spec.parts > 1 else "present"} && k < mine.s1; k += LANES)
                record_v[(long)(record_row + step - first_step) * num_records + mine.s0 + k] = V(k);
        ${meet};
% endif
