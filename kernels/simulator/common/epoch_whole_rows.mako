<%page args="spec, meet"/>\
## Write all voltages into the row of the step, side by side, if a record keeps it.
% if spec.whole:
        // phase 9: records
        if (keeps)
            for (int k = lane; ${"part == 0" if spec.parts > 1 else "present"} && k < mine.s1; k += LANES)
                record_v[(long)(record_row + step - first_step) * num_records + mine.s0 + k] = V(k);
        ${meet};
% endif
