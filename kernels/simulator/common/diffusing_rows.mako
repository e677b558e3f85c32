<%page args="spec"/>\
## Functions of a row of the systems of states that diffuse along cells, see `DiffusingRows`: its entries, its
## elimination when all of its children are eliminated, and its state when that of its parent is known. A row has
##     pivot * x + lower * (the parent's x) + sum over children of (the child's upper) * (the child's x) = right
## Eliminated, `pivot` is the factor of the parent's x, and `right` what is left of the right-hand side.
<% rest = f"__global real *mem, __global const int *ints, {spec.arena.at})" %>\

// phase 7: states
// Row r of what diffuses: the diagonal, the entries with its parent, and the right-hand side.
static void diffusing_row(const int r, const real dt, ${rest}
{
    const real volume = mem[ints[diffusing_volume + r]], flow = mem[ints[diffusing_flow + r]];
    const int above = ints[diffusing_above + r], end = ints[diffusing_children + 2 * r + 1];
    real pivot = 1 / dt, upper = 0, lower = 0;
    if (above >= 0) {
        const real mean = (flow + mem[ints[diffusing_flow + above]]) / 2;
        upper = -mem[diffusing_up + r] * mean / mem[ints[diffusing_volume + above]];
        lower = -mem[diffusing_down + r] * mean / volume;
        pivot -= lower;
    }
    for (int c = ints[diffusing_children + 2 * r]; c < end; c++)
        pivot += mem[diffusing_up + c] * ((mem[ints[diffusing_flow + c]] + flow) / 2) / volume;
    mem[diffusing_upper + r] = upper;
    mem[diffusing_lower + r] = lower;
    mem[diffusing_pivot + r] = pivot;
    mem[diffusing_right + r] = mem[ints[diffusing_value + r]] / dt;
}

// Eliminate row r, whose children are eliminated.
static void diffusing_out(const int r, ${rest}
{
    const int end = ints[diffusing_children + 2 * r + 1];
    real pivot = mem[diffusing_pivot + r], right = mem[diffusing_right + r];
    for (int c = ints[diffusing_children + 2 * r]; c < end; c++) {
        pivot -= mem[diffusing_upper + c] * mem[diffusing_pivot + c];
        right -= mem[diffusing_upper + c] * mem[diffusing_right + c];
    }
    mem[diffusing_pivot + r] = mem[diffusing_lower + r] / pivot;
    mem[diffusing_right + r] = right / pivot;
}

// The state of row r after the step, whose parent has its own.
static void diffusing_back(const int r, ${rest}
{
    const int above = ints[diffusing_above + r];
    real x = mem[diffusing_right + r];
    if (above >= 0) x -= mem[diffusing_pivot + r] * mem[diffusing_right + above];
    mem[diffusing_right + r] = x;
    mem[ints[diffusing_value + r]] = x;
}
