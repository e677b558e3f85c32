<%page args="spec"/>\
## Part of blocks.mako and epoch_by_node.mako: functions for a row in the systems for states that diffuse along cells,
## see `DiffusingRows`. They compute its entries, eliminate it in its round, and compute its state. A row is
##     pivot * x + lower * (the parent's x) + sum over children of (the child's upper) * (the child's x) = right
## An elimination subtracts its contribution to the parent at once, and stores its contribution to the child in
## the child's `above_pivot` and `above_right`: a row may get one of each in a round. After its elimination
##     x = right - lower * (the parent's x) - pivot * (the child's x)
<% rest = f"__global real *mem, __global const int *ints, {spec.arena.at})" %>\

// phase 7: states
// Assemble row r and eliminate its children that are leaves; a leaf itself is eliminated.
static void diffusing_row(const int r, const real dt, ${rest}
{
    const real volume = mem[ints[diffusing_volume + r]], flow = mem[ints[diffusing_flow + r]];
    const int above = ints[diffusing_above + r];
    const int first = ints[diffusing_first_child + r], end = ints[diffusing_first_child + r + 1];
    real pivot = 1 / dt, right = mem[ints[diffusing_value + r]] / dt, upper = 0, lower = 0;
    if (above >= 0) {
        const real mean = (flow + mem[ints[diffusing_flow + above]]) / 2;
        upper = -mem[diffusing_up + r] * mean / mem[ints[diffusing_volume + above]];
        lower = -mem[diffusing_down + r] * mean / volume;
        pivot -= lower;
    }
    for (int k = first; k < end; k++) {
        const int c = ints[diffusing_child + k];
        const real mean = (mem[ints[diffusing_flow + c]] + flow) / 2;
        const real entry = mem[diffusing_up + c] * mean / volume;
        pivot += entry;
        if (ints[diffusing_first_child + c] < ints[diffusing_first_child + c + 1]) continue;
        const real below = mem[diffusing_down + c] * mean / mem[ints[diffusing_volume + c]];
        const real share = entry / (1 / dt + below);
        pivot -= share * below;
        right += share * (mem[ints[diffusing_value + c]] / dt);
    }
    const bool is_leaf = above >= 0 && first == end;
    mem[diffusing_upper + r] = upper;
    mem[diffusing_lower + r] = is_leaf ? lower / pivot : lower;
    mem[diffusing_pivot + r] = is_leaf ? 0 : pivot;
    mem[diffusing_right + r] = is_leaf ? right / pivot : right;
    mem[diffusing_above_pivot + r] = mem[diffusing_above_right + r] = 0;
}

// Eliminate row r: its current parent and child become linked with each other.
static void diffusing_out(const int r, ${rest}
{
    const int above = ints[diffusing_links + 2 * r], child = ints[diffusing_links + 2 * r + 1];
    const real pivot = mem[diffusing_pivot + r] - mem[diffusing_above_pivot + r];
    const real right = (mem[diffusing_right + r] - mem[diffusing_above_right + r]) / pivot;
    const real upper = mem[diffusing_upper + r], lower = mem[diffusing_lower + r] / pivot;
    real next = 0;
    if (child >= 0) {
        const real entry = mem[diffusing_upper + child], back = mem[diffusing_lower + child];
        next = entry / pivot;
        mem[diffusing_above_pivot + child] += back * next;
        mem[diffusing_above_right + child] += back * right;
        mem[diffusing_lower + child] = -back * lower;
        mem[diffusing_upper + child] = -upper * next;
    }
    if (above >= 0) {
        mem[diffusing_pivot + above] -= upper * lower;
        mem[diffusing_right + above] -= upper * right;
    } else mem[ints[diffusing_value + r]] = right;
    mem[diffusing_right + r] = right;
    mem[diffusing_lower + r] = lower;
    mem[diffusing_pivot + r] = next;
}

// Compute row r's state after the step, from its links' states.
static void diffusing_back(const int r, ${rest}
{
    const int above = ints[diffusing_links + 2 * r], child = ints[diffusing_links + 2 * r + 1];
    const int other = child < 0 ? r : child;   // without a child the factor is 0
    const real x = mem[diffusing_right + r] - mem[diffusing_lower + r] * mem[diffusing_right + above]
        - mem[diffusing_pivot + r] * mem[diffusing_right + other];
    mem[diffusing_right + r] = x;
    mem[ints[diffusing_value + r]] = x;
}
