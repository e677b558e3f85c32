<%page args="spec"/>\
## Part of contraction.mako: write each cell's status from the `bad` of its segments.
    if (bad) {   // the largest key wins: CLEAN before others, then the deepest, whatever the lanes' order
% if spec.shared:
        const int node = (bad & ~(BAD | CLEAN)) - 1, at = row[is_leaf ? length - 1 - node : node] + column;
% if spec.expands:
        const int key = whole ? lane_rank[first + lane] + bad
                              : (bad & (BAD | CLEAN)) | (node_rank[block.s0 + at] + 1);
% else:
        const int key = (bad & (BAD | CLEAN)) | (node_rank[block.s0 + at] + 1);
% endif
% else:
        const int key = lane_rank[first + lane] + bad;
% endif
        atomic_max(cell_bad + lane_slot[first + lane], key);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% if spec.expands:
    if (lane < block.s7 - block.s6 && whole) status[cell_number[block.s6 + lane]] = cell_bad[lane];
    if (lane < block.s7 - block.s6 && !whole && cell_bad[lane])
        atomic_max(status + cell_number[block.s6 + lane], cell_bad[lane]);
% elif spec.shared:
    if (lane < block.s7 - block.s6 && cell_bad[lane])
        atomic_max(status + cell_number[block.s6 + lane], cell_bad[lane]);
% elif spec.flags_infinite:
    if (lane < block.s7 - block.s6)
        status[cell_number[block.s6 + lane]] = cell_bad[lane] | (odd ? ${spec.not_finite} : 0);
% else:
    if (lane < block.s7 - block.s6) status[cell_number[block.s6 + lane]] = cell_bad[lane];
% endif
