<%page args="spec"/>\
## Part of epoch_by_instance.mako, epoch_constant.mako and epoch_by_node.mako: each lane writes the recorded voltages in
## its segment into the step's row, if a record keeps this step. Records with all voltages are written in
## epoch_whole_rows.mako.
<% detects = spec.detects %>\
        const bool keeps = record_every == 1 || (uint)(step + 1) % (uint)record_every == 0;
        for (int q = ${"" if detects else "!keeps ? end_record : "}first_record; q < end_record; ++q) {   // ${spec.recorded}, column
            const int2 it = vload2(q, record_list);
            real seen = ${"a0" if spec.constant else f"V({spec.recorded.read('node', 'it.x')})" if spec.potentials else f"V(column + row[{spec.recorded.read('node', 'it.x')}])"};
% if spec.constant:
% for j in range(1, spec.segment):
            if (${spec.recorded.read("node", "it.x")} == ${j}) seen = a${j};
% endfor
% endif
% if detects:
            if (it.y < 0) {   // a detector
                const int d = ~it.y;
${part("simulator/common/detect", 16, v="seen", number="d")}\
                continue;
            }
            if (!keeps) continue;
% endif
            // phase 9: records
            record_v[(long)(record_row + step - first_step) * num_records + it.y] = seen;
        }
