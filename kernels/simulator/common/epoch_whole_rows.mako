<%page args="spec, meet"/>\
## Part of epoch_by_instance.mako and epoch_by_node.mako: write all voltages into the step's row, if a record keeps
## this step; `keeps` is from epoch_records.mako. Row 0 is the chunk's first recorded step.
% if spec.whole:
        // phase 9: records
        if (keeps) {
            const int kept_before = (first_step - record_row) / record_every + 1;
            __global real *row_v = record_v + (long)((step + 1) / record_every - kept_before) * num_records + mine.s0;
            for (int k = lane; ${"part == 0" if spec.parts > 1 else "present"} && k < mine.s1; k += LANES) row_v[k] = V(k);
            ${meet};
        }
% endif
