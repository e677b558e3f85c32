<%page args="spec"/>\
## Record voltages: each lane writes its segment's voltages into the row of the step.
        for (int q = first_record; q < end_record; ++q) {   // ${spec.recorded}, column
            const int2 it = vload2(q, record_list);
            real seen = ${"a0" if spec.constant else f"V(column + row[{spec.recorded.read('node', 'it.x')}])"};
% if spec.constant:
% for j in range(1, spec.segment):
            if (${spec.recorded.read("node", "it.x")} == ${j}) seen = a${j};
% endfor
% endif
% if spec.detects:
            if (it.y < 0) {   // a detector
                const int d = ~it.y;
${part("simulator/common/detect", 16, v="seen", number="d")}\
                continue;
            }
% endif
            // phase 9: records
            record_v[(long)(record_row + step - first_step) * num_records + it.y] = seen;
        }
