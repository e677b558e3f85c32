<%page args="spec"/>\
<%
    far = spec.storage == "global"   # chains that exceed local memory
    hybrid = spec.switch > 1         # else CR goes on until one unknown is left
%>\
// Methods cr, cyclic reduction (Hockney 1965); pcr, parallel cyclic reduction (Hockney and Jesshope
// 1981); and cr_pcr, which begins with CR and ends with PCR (Zhang, Cohen and Owens 2010). A
// work-group per chain. Valero-Lara et al. 2018, section 4.1, describe all three.
// spec: ${spec}
// layout: flat, a chain's node j directly after node j - 1, the root first.
//
// A system's row j:  low[j] * x[j - s] + mid[j] * x[j] + up[j] * x[j + s] = right[j]
// where s is the distance between the remaining unknowns. A step of CR eliminates every second
// unknown; a step of PCR eliminates the neighbours from each row, which leaves two systems of half
// the size:
//
//     CR    0 1 2 3 4 5 6 7  ->  0 . 2 . 4 . 6 .  ->  0 . . . 4 . . .
//     PCR   0 1 2 3 4 5 6 7  ->  0 2 4 6 | 1 3 5 7  ->  0 4 | 2 6 | 1 5 | 3 7
//
// Loops with a barrier run at least once, even without work: PoCL compiles everything after a
// barrier that some paths skip twice, and there are up to five such loops.
% if far:
//
// Chains that exceed local memory: CR in scratch arrays of the even nodes until the remaining
// unknowns fit into local memory, and back.
% endif
//
// Arguments; arrays of values are in device order and have num_values values per row; a launch solves
// row first_row:
${part("solver/common/arguments")}\
//   cell_start     where each chain has its first value
//   cell_size      rows in each chain
//   cell_number    the chain's number in the batch, its index in status
% if far:
//   scratch_start  where each chain's first row is in far_low, far_mid, far_up, far_right
% endif
${part("solver/common/precision")}\
typedef ${spec.real}4 row;   // low, mid, up, right

#define WORK_GROUP ${spec.work_group}
#define CAPACITY ${spec.capacity}   // unknowns in local memory
#define SWITCH ${spec.switch}   // most unknowns at which PCR begins; 1: no PCR
#define AT(k) ((k) + ((k) >> ${spec.bank_shift}))   // place of unknown k, without bank conflicts
#define ROOM ${spec.places + spec.more_places}
% if hybrid:
#define OTHER ${spec.places}   // second set of rows, for every second PCR step
% endif
${part("solver/common/bad_pivots", growth=False)}\

// Return whether a pivot is positive and has a finite, normal inverse.
static bool good(real pivot)
{
    return pivot > (real)SMALLEST && pivot < (real)LARGEST;
}

static row nothing(void)   // row for a neighbour beyond the ends
{
    return (row)(0, 1, 0, 0);
}

// Eliminate both neighbours from row `me`, and return it.
static row freed(row me, row before, row after)
{
    const real f = me.x / before.y, h = me.z / after.y;
    return (row)(-f * before.x, me.y - f * before.z - h * after.x, -h * after.z,
                 me.w - f * before.w - h * after.w);
}

static row local_row(__local const real *rows, int place)
{
    return (row)(rows[place], rows[place + ROOM], rows[place + 2 * ROOM], rows[place + 3 * ROOM]);
}

static void keep_local(__local real *rows, int place, row r)
{
    rows[place] = r.x;
    rows[place + ROOM] = r.y;
    rows[place + 2 * ROOM] = r.z;
    rows[place + 3 * ROOM] = r.w;
}

// Return row j in a chain with n nodes; u[j] = A[parent, j] and l[j] = A[j, parent].
static row given_row(__global const real *d, __global const real *u, __global const real *l,
                     __global const real *b, int j, int n)
{
    return (row)(j ? l[j] : (real)0, d[j], j + 1 < n ? u[j + 1] : (real)0, b[j]);
}

// Return 1 + the first bad node of an elimination from the tip, as all methods report it; 0 if none.
static int first_bad(__global const real *d, __global const real *u, __global const real *l, int n)
{
    real pivot = d[n - 1];
    for (int j = n - 1; j > 0; --j) {
        if (!good(pivot)) return j + 1;
        pivot = d[j - 1] - l[j] * (u[j] / pivot);
    }
    return good(pivot) ? 0 : 1;
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void solve(${signature(spec)})   // status per cell: 0, or see STATUS in kernel_spec.py
{
    const int lane = get_local_id(0), chain = get_group_id(0);
    const int nodes = cell_size[chain];
    d += cell_start[chain];
    u += cell_start[chain];
% if spec.symmetric:
    __global const real *l = u;
% else:
    l += cell_start[chain];
% endif
    b += (long)first_row * num_values + cell_start[chain];
    x += (long)first_row * num_values + cell_start[chain];
    __local real rows[4 * ROOM];
    __local real *solution = rows + 3 * ROOM;   // overwrites `right`
    __local int found;
    int bad = 0;   // 1 + a node with a bad pivot in this elimination order
    if (lane == 0) found = 0;

% if far:
    // eliminate the odd nodes; even node 2 k goes to place k in scratch
    far_low += scratch_start[chain];
    far_mid += scratch_start[chain];
    far_up += scratch_start[chain];
    far_right += scratch_start[chain];
    const int evens = (nodes + 1) / 2;
    for (int k = lane; k < evens; k += WORK_GROUP) {
        const int j = 2 * k;
        const row before = j ? given_row(d, u, l, b, j - 1, nodes) : nothing();
        const row after = j + 1 < nodes ? given_row(d, u, l, b, j + 1, nodes) : nothing();
        if (!good(after.y)) bad = max(bad, j + 2);
        const row r = freed(given_row(d, u, l, b, j, nodes), before, after);
        far_low[k] = r.x;
        far_mid[k] = r.y;
        far_up[k] = r.z;
        far_right[k] = r.w;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
<%  scratch = lambda i: f"(row)(far_low[{i}], far_mid[{i}], far_up[{i}], far_right[{i}])" %>\
    int apart = 1, n = evens;   // remaining unknowns in scratch: 0, apart, 2 * apart, ...
    do {
        const int count = n > CAPACITY ? n : 0;
        for (int k = lane; 2 * k < count; k += WORK_GROUP) {
            const int i = 2 * k * apart;
            row before = nothing(), after = nothing();
            if (k) before = ${scratch("i - apart")};
            if (2 * k + 1 < count) after = ${scratch("i + apart")};
            if (!good(after.y)) bad = max(bad, 2 * (i + apart) + 1);
            const row r = freed(${scratch("i")}, before, after);
            far_low[i] = r.x;
            far_mid[i] = r.y;
            far_up[i] = r.z;
            far_right[i] = r.w;
        }
        if (count) {
            n = (n + 1) / 2;
            apart *= 2;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    } while (n > CAPACITY);
    const int scale = 2 * apart;   // distance between the remaining unknowns, in nodes
    for (int k = lane; k < n; k += WORK_GROUP) keep_local(rows, AT(k), ${scratch("k * apart")});
% else:
    const int n = nodes, scale = 1;
    for (int j = lane; j < n; j += WORK_GROUP)
        keep_local(rows, AT(j), given_row(d, u, l, b, j, n));
% endif
    barrier(CLK_LOCAL_MEM_FENCE);

    // CR, reduction: the remaining unknowns are 0, s, 2 * s, ...
    int s = 1, left = n;
    do {
        const int count = left > SWITCH ? left : 0;
        for (int k = lane; 2 * k < count; k += WORK_GROUP) {
            const int i = 2 * k * s;
            const row before = k ? local_row(rows, AT(i - s)) : nothing();
            const row after = 2 * k + 1 < count ? local_row(rows, AT(i + s)) : nothing();
            if (!good(after.y)) bad = max(bad, (i + s) * scale + 1);
            keep_local(rows, AT(i), freed(local_row(rows, AT(i)), before, after));
        }
        if (count) {
            left = (left + 1) / 2;
            s *= 2;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (left > SWITCH);

% if hybrid:
    // PCR: a step writes to the other set of rows, so it needs only one barrier
    int from = 0, gap = s, to = OTHER, next_gap = 1;   // places and the distance between unknowns
    int t = 1;
    do {
        for (int k = lane; k < left; k += WORK_GROUP) {
            const row me = local_row(rows, from + AT(k * gap));
            const row before = k >= t ? local_row(rows, from + AT((k - t) * gap)) : nothing();
            const row after = k + t < left ? local_row(rows, from + AT((k + t) * gap)) : nothing();
            if (!good(me.y)) bad = max(bad, k * s * scale + 1);
            keep_local(rows, to + AT(k * next_gap), freed(me, before, after));
        }
        const int place = from, distance = gap;
        from = to;
        gap = next_gap;
        to = place;
        next_gap = distance;
        t *= 2;
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (t < left);
    for (int k = lane; k < left; k += WORK_GROUP) {
        const row me = local_row(rows, from + AT(k * gap));
        if (!good(me.y)) bad = max(bad, k * s * scale + 1);
        solution[AT(k * s)] = me.w / me.y;
    }
% else:
    if (lane == 0) {   // the root
        if (!good(rows[ROOM])) bad = max(bad, 1);
        solution[0] /= rows[ROOM];
    }
% endif
    barrier(CLK_LOCAL_MEM_FENCE);

    // CR, substitution
    do {
        s /= 2;
        const int count = s ? (n - 1) / s + 1 : 0;
        for (int k = lane; 2 * k + 1 < count; k += WORK_GROUP) {
            const int i = (2 * k + 1) * s;
            const row me = local_row(rows, AT(i));
            real right = me.w - me.x * solution[AT(i - s)];
            if (2 * k + 2 < count) right -= me.z * solution[AT(i + s)];
            solution[AT(i)] = right / me.y;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (s > 1);
% if far:
    for (int k = lane; k < n; k += WORK_GROUP) far_right[k * apart] = solution[AT(k)];
    barrier(CLK_GLOBAL_MEM_FENCE);
    do {
        apart /= 2;
        const int count = apart ? (evens - 1) / apart + 1 : 0;
        for (int k = lane; 2 * k + 1 < count; k += WORK_GROUP) {
            const int i = (2 * k + 1) * apart;
            real right = far_right[i] - far_low[i] * far_right[i - apart];
            if (2 * k + 2 < count) right -= far_up[i] * far_right[i + apart];
            far_right[i] = right / far_mid[i];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    } while (apart > 1);
    for (int k = lane; k < evens; k += WORK_GROUP) {
        const int j = 2 * k + 1;
        x[2 * k] = far_right[k];
        if (j < nodes) {
            const row me = given_row(d, u, l, b, j, nodes);
            real right = me.w - me.x * far_right[k];
            if (k + 1 < evens) right -= me.z * far_right[k + 1];
            x[j] = right / me.y;
        }
    }
% else:
    for (int j = lane; j < n; j += WORK_GROUP) x[j] = solution[AT(j)];
% endif

    // a bad pivot is rare: then one lane eliminates from the tip to find the node to report
    if (bad) atomic_max(&found, bad);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0) {
        const int named = found ? first_bad(d, u, l, nodes) : 0;
        const int node = named ? named : found;
        status[cell_number[chain]] = node ? node | BAD : 0;
    }
}
