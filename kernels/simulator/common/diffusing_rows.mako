<%page args="spec"/>\
## Part of blocks.mako and epoch_by_node.mako: functions for a row in the systems for states that diffuse along cells,
## see `DiffusingRows`. They compute its entries, eliminate it in its round, and compute its state. A row is
##     pivot * x + lower * (the parent's x) + sum over children of (the child's upper) * (the child's x) = right
## An elimination subtracts its contribution to the parent at once, and stores its contribution to the child in
## the child's `above_pivot` and `above_right`: a row may get one of each in a round. After its elimination
##     x = right - lower * (the parent's x) - pivot * (the child's x)
## The rows are in local memory if all of a cell fit there, and in `mem` otherwise.
<%
    space = "__local" if spec.diffusing_rows else "__global"
    rest = f"{space} DiffusingRow *rows, __global real *mem, __global const int *ints, {spec.arena.at})"
%>\

typedef struct { real pivot, right, upper, lower, above_pivot, above_right; } DiffusingRow;

// phase 7: states
// Assemble row r and eliminate its children that are leaves; a leaf itself is eliminated.
static void diffusing_row(const int r, const real dt, ${rest}
{
    const real volume = mem[ints[diffusing_volume + r]], flow = mem[ints[diffusing_flow + r]];
    const int above = ints[diffusing_above + r];
    const int first = ints[diffusing_first_child + r], end = ints[diffusing_first_child + r + 1];
    const real per_dt = reciprocal(dt), per_volume = reciprocal(volume);
    real pivot = per_dt, right = mem[ints[diffusing_value + r]] * per_dt, upper = 0, lower = 0;
    if (above >= 0) {
        const real mean = (flow + mem[ints[diffusing_flow + above]]) / 2;
        upper = -mem[diffusing_up + r] * mean * reciprocal(mem[ints[diffusing_volume + above]]);
        lower = -mem[diffusing_down + r] * mean * per_volume;
        pivot -= lower;
    }
    for (int k = first; k < end; k++) {
        const int c = ints[diffusing_child + k];
        const real mean = (mem[ints[diffusing_flow + c]] + flow) / 2;
        const real entry = mem[diffusing_up + c] * mean * per_volume;
        pivot += entry;
        if (ints[diffusing_first_child + c] < ints[diffusing_first_child + c + 1]) continue;
        const real below = mem[diffusing_down + c] * mean * reciprocal(mem[ints[diffusing_volume + c]]);
        const real share = entry * reciprocal(per_dt + below);
        pivot -= share * below;
        right += share * (mem[ints[diffusing_value + c]] * per_dt);
    }
    const bool is_leaf = above >= 0 && first == end;
    const real per_pivot = is_leaf ? reciprocal(pivot) : 1;
    rows[r].upper = upper;
    rows[r].lower = lower * per_pivot;
    rows[r].pivot = is_leaf ? 0 : pivot;
    rows[r].right = right * per_pivot;
    rows[r].above_pivot = rows[r].above_right = 0;
}

// Eliminate row r: its current parent and child become linked with each other.
static void diffusing_out(const int r, ${rest}
{
    const int above = ints[diffusing_links + 2 * r], child = ints[diffusing_links + 2 * r + 1];
    const real per_pivot = reciprocal(rows[r].pivot - rows[r].above_pivot);
    const real right = (rows[r].right - rows[r].above_right) * per_pivot;
    const real upper = rows[r].upper, lower = rows[r].lower * per_pivot;
    real next = 0;
    if (child >= 0) {
        const real entry = rows[child].upper, back = rows[child].lower;
        next = entry * per_pivot;
        rows[child].above_pivot += back * next;
        rows[child].above_right += back * right;
        rows[child].lower = -back * lower;
        rows[child].upper = -upper * next;
    }
    if (above >= 0) {
        rows[above].pivot -= upper * lower;
        rows[above].right -= upper * right;
    } else mem[ints[diffusing_value + r]] = right;
    rows[r].right = right;
    rows[r].lower = lower;
    rows[r].pivot = next;
}

// Compute row r's state after the step, from its links' states.
static void diffusing_back(const int r, ${rest}
{
    const int above = ints[diffusing_links + 2 * r], child = ints[diffusing_links + 2 * r + 1];
    const int other = child < 0 ? r : child;   // without a child the factor is 0
    const real x = rows[r].right - rows[r].lower * rows[above].right
        - rows[r].pivot * rows[other].right;
    rows[r].right = x;
    mem[ints[diffusing_value + r]] = x;
}
