<%page args="spec"/>\
## Part of the same templates as epoch_records.mako: find this lane's entries, first_record to end_record, among the
## cell's recorded voltages, which are sorted by lane.
<% reads = "used" + (" && part == 0" if spec.by_node and spec.parts > 1 else "") %>\
% for name, lane in (("first", "lane"), ("end", "lane + 1")):
    int ${name}_record = ${reads} ? record_start[mine.s6] : 0;
    for (int end = ${reads} ? record_start[mine.s6 + 1] : 0; ${name}_record < end;) {
        const int middle = (${name}_record + end) / 2, word = record_list[2 * middle];
        if ((${spec.recorded.read("lane", "word")}) < ${lane}) ${name}_record = middle + 1;
        else end = middle;
    }
% endfor
