## Part of steps.mako, blocks.mako and arena_between.mako: compute sum `s` from the values that instances set and add by
## pointers in a step, in their order; then record it in `row`.
real sum = mem[ints[sum_set + s] < 0 ? ints[sum_at + s] : ints[sum_set + s]];
for (int k = ints[sum_first + s]; k < ints[sum_first + s + 1]; k++) sum += mem[ints[sum_from + k]];
mem[ints[sum_at + s]] = sum;
for (int r = mem_first[ints[sum_row + s]]; r < mem_first[ints[sum_row + s] + 1]; r++)
    mem_rows[row * num_mem + mem_column[r]] = mem[mem_index[r]];
