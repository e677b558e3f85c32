<%page args="spec"/>\
<%
    W, V = spec.width, f"real{spec.width}"
    new = "(v_old[{0}] + 2 * x[{0}])" if spec.secondorder else "(v_old[{0}] + x[{0}])"
    constants = "constant_g, constant_b, " if spec.constant else ""
    right = f"passive({{0}}, above, below, beside, u, {constants}v)"
%>\
## Part of steps.mako: its kernels for CPUs, which advance several instances at once, in vectors.
// A step for a range of entries in the solver's order and a range of active nodes, which have mechanisms. ${W}
// instances of a mechanism at consecutive nodes advance together. A range's last vector is filled with copies
// of the last instance, which are not stored.

// Read n < ${W} numbers
${spec.static} ${V} few(__global const real *a, const int n)
{
    real part[${W}];
    for (int k = 0; k < ${W}; k++) part[k] = a[min(k, n - 1)];
    return vload${W}(0, part);
}

${spec.static} void keep_few(const ${V} x, __global real *a, const int n)
{
    real part[${W}];
    vstore${W}(x, 0, part);
    for (int k = 0; k < n; k++) a[k] = part[k];
}

// Read n <= ${W} numbers
static inline ${V} some(__global const real *a, const int n)
{
    return n == ${W} ? vload${W}(0, a) : few(a, n);
}

static inline void keep(const ${V} x, __global real *a, const int n)
{
    if (n == ${W}) vstore${W}(x, 0, a);
    else keep_few(x, a, n);
}

// Read n numbers at nodes in ascending order
${spec.static} ${V} some_at(__global const real *a, __global const int *node, const int n)
{
    if (node[0] == node[n - 1]) return a[node[0]];
    real part[${W}];
    for (int k = 0; k < ${W}; k++) part[k] = a[node[min(k, n - 1)]];
    return vload${W}(0, part);
}

${spec.static} void keep_at(const ${V} x, __global real *a, __global const int *node, const int n)
{
    real part[${W}];
    vstore${W}(x, 0, part);
    for (int k = 0; k < n; k++) a[node[k]] = part[k];
}

// Add n numbers at nodes
${spec.static} void add_at(const ${V} x, __global real *a, __global const int *node, const int n)
{
    real part[${W}];
    vstore${W}(x, 0, part);
    for (int k = 0; k < n;) {
        const int i = node[k];
        real sum = a[i];
        do sum += part[k]; while (++k < n && node[k] == i);
        a[i] = sum;
    }
}

// The same for a mechanism with at most one instance per node: ${W} consecutive nodes are read and written
// as a vector.
static inline int is_row(__global const int *node, const int n)
{
    return n == ${W} && node[${W - 1}] - node[0] == ${W - 1};
}

static inline ${V} some_of(__global const real *a, __global const int *node, const int n)
{
    return is_row(node, n) ? vload${W}(0, a + node[0]) : some_at(a, node, n);
}

static inline void keep_of(const ${V} x, __global real *a, __global const int *node, const int n)
{
    if (is_row(node, n)) vstore${W}(x, 0, a + node[0]);
    else keep_at(x, a, node, n);
}

static inline void add_of(const ${V} x, __global real *a, __global const int *node, const int n)
{
    if (is_row(node, n)) vstore${W}(vload${W}(0, a + node[0]) + x, 0, a + node[0]);
    else add_at(x, a, node, n);
}

% for ion in spec.nernst:
// Set ${ion}'s reversal potentials at n active nodes by Nernst's equation where a mechanism advances it
${spec.static} void to_nernsts_${ion}(const int a, const int n, __global real *mem,
    __global const int *ints, __global const int *at)
{
    const ${V} inside = some(mem + ion_${ion}i + a, n), outside = some(mem + ion_${ion}o + a, n);
    const real scale = mem[nernst_${ion}];
    ${V} e = scale * log(outside / inside);
    e = outside <= 0 ? (${V})-1e6 : e;
    e = inside <= 0 ? (${V})1e6 : e;
    real part[${W}];
    vstore${W}(e, 0, part);
    for (int k = 0; k < n; k++)
        if (ints[advances_${ion} + a + k]) mem[ion_e${ion} + a + k] = scale == 0 ? 0 : part[k];
}

% endfor
// Current into a node from neighbours and constant conductances; `above`, `below` and `beside` are the
// indices of its parent, first child and next sibling in the solver's order, -1 for none.
static real passive(
    const int i, __global const int *above, __global const int *below, __global const int *beside,
    __global const real *u, ${"__global const real *constant_g, __global const real *constant_b, " if spec.constant else ""}__global const real *v)
{
    const real v_now = v[i];
    real right = ${"constant_b[i] - constant_g[i] * v_now" if spec.constant else "0"};
    if (above[i] >= 0) right += u[i] * (v_now - v[above[i]]);  // u is minus the conductance
    for (int c = below[i]; c >= 0; c = beside[c]) right += u[c] * (v_now - v[c]);
    return right;
}

// Deliver events until the step's middle, then compute currents there: d and b in the system for the
// change in v, for a range of active nodes; other nodes only need b.
static void begin_block(
    const int from, const int to, const int first_place, const int end_place, const instant t_begin,
    const instant half_dt, const ulong step, const ulong seed, const real dt, const int capacity,
    __global const int *active, __global const int *above, __global const int *below,
    __global const int *beside, __global const real *u,
% if spec.constant:
    __global const real *constant_g, __global const real *constant_b,
% endif
    __global const real *v, __global real *d, __global real *b, __global int *spike_count,
    __global int *spike_source, __global instant *spike_time,
% if spec.grid:
    const int slots, const int num_targets, const real scale_of_events, __global long *incoming,
% endif
    __global real *mem,
    __global instant *clock, __global int *ints, __global const int *at)
{
    const instant t_mid = t_begin + half_dt, t_end = t_mid + half_dt;
    for (int i = first_place; i < end_place; i++) {
        if (active[i] >= 0) continue;
        b[i] = ${right.format("i")};
    }
    for (int a = from; a < to; a++) {
        const int i = ints[place_of + a];
        mem[here_v + a] = v[i];
        mem[here_d + a] = mem[base_d + a];
        mem[here_b + a] = ${right.format("i")};
    }
    // phase 1: events
% for kind in spec.summed_kinds:
<% k = kind.number %>\
    for (int j = ints[first_${k} + from]; j < ints[first_${k} + to]; j++)
        take_sum_${k}(j, ints[active_${k} + j], t_mid, mem[here_v + ints[active_${k} + j]], dt,
                   incoming + (long)(step % slots) * num_targets, scale_of_events, v, mem, clock,
                   ints, at);
% endfor
% if not spec.layered:
% for kind in spec.net_kinds:
% if kind.kind != "artificial":
<% k = kind.number %>\
    for (int j = ints[first_${k} + from]; j < ints[first_${k} + to]; j++) {
% if spec.wide and not kind.watches:
        if (!ints[stale + target_${k} + j] && clock[next_due + target_${k} + j] > ${spec.soon}) continue;
% endif
        events_of_${k}(j, ints[active_${k} + j], t_begin, t_mid, dt, capacity, v, spike_count,
                 spike_source, spike_time, mem, clock, ints, at);
    }
% endif
% endfor
% endif
    // phase 2: played values
% if spec.played:
    for (int p = ints[first_played + from]; p < ints[first_played + to]; p++)
        play(p, t_mid, t_mid, mem, clock, ints, at);
% endif
<% here = {"v": "v_now", "dt": "dt", "t begin": "t_begin", "t now": "t_mid", "t end": "t_end", "pointer": "v[{}]"} %>\
    // phase 3: currents
% for kind in spec.kinds:
% if kind.has("before_breakpoint") and kind.kind != "artificial":
<% k = kind.number %>\
    for (int j = ints[first_${k} + from]; j < ints[first_${k} + to]; j++) {
        const int a = ints[active_${k} + j];
        const real v_now = mem[here_v + a];
${kind.call("before_breakpoint", here, 8)}\
    }
% endif
% endfor
% for ion in spec.ions:
    {
        __global real *i = mem + ion_i${ion}, *di = mem + ion_di${ion};
        for (int a = from; a < to; a++) i[a] = 0;
        for (int a = from; a < to; a++) di[a] = 0;
% if ion in spec.nernst:
        for (int a = from; a < to; a += ${W})
            to_nernsts_${ion}(a, min(${W}, to - a), mem, ints, at);
% endif
    }
% endfor
% for kind in spec.kinds:
% if kind.has("current") and kind.kind != "artificial":
<%
    k = kind.number
    density = kind.kind == "density"
    factor = "mem[area + a] * (real)0.01 * " if density else ""
    values = {**here, "noise": f"normal(seed, (ulong)(number_{k} + j), step)"}
%>\
% if "current" in dict(kind.vectors):
<% suffix = "of" if kind.rows else "at" %>\
    for (int j = ints[first_${k} + from], end = ints[first_${k} + to]; j < end; j += ${W}) {
        const int n = min(${W}, end - j);
        __global const int *node = ints + active_${k} + j;
% if kind.asks("current", "v"):
        const ${V} v_now = some_${suffix}(mem + here_v, node, n);
% endif
${spec.call_vectors(kind, "current", values, 8)}\
% if kind.asks("current", "i"):
% if density:
        const ${V} share = some_${suffix}(mem + area, node, n) * (real)0.01;
        add_${suffix}(share * g_g, mem + here_d, node, n);
        add_${suffix}(-(share * i_i), mem + here_b, node, n);
% else:
        add_at(g_g, mem + here_d, node, n);
        add_at(-i_i, mem + here_b, node, n);
% endif
% endif
    }
% else:
    for (int j = ints[first_${k} + from]; j < ints[first_${k} + to]; j++) {
        const int a = ints[active_${k} + j];
        const real v_now = mem[here_v + a];
${kind.call("current", values, 8)}\
% if kind.asks("current", "i"):
        mem[here_d + a] += ${factor}g_g;
        mem[here_b + a] -= ${factor}i_i;
% endif
    }
% endif
% endif
% endfor
    for (int a = from; a < to; a++) {
        const int i = ints[place_of + a];
        d[i] = mem[here_d + a];
        b[i] = mem[here_b + a];
    }
}

<%def name="all(block)">\
% for kind in spec.kinds:
% if kind.has(block) and kind.kind != "artificial":
<% k = kind.number %>\
<% values = {"v": "v_now", "dt": "dt", "t begin": "t_begin", "t now": "t_end", "t end": "t_end", "pointer": new} %>\
% if block in dict(kind.vectors):
    for (int j = ints[first_${k} + from], end = ints[first_${k} + to]; j < end; j += ${W}) {
        const int n = min(${W}, end - j);
        __global const int *node = ints + active_${k} + j;
% if kind.asks(block, "v"):
        const ${V} v_now = some_${"of" if kind.rows else "at"}(mem + here_v, node, n);
% endif
${spec.call_vectors(kind, block, values, 8)}\
    }
% else:
    for (int j = ints[first_${k} + from]; j < ints[first_${k} + to]; j++) {
        const int a = ints[active_${k} + j];
        const real v_now = mem[here_v + a];
${kind.call(block, values, 8)}\
    }
% endif
% endif
% endfor
</%def>\
<%def name="to_states()">\
    // phase 5: voltages
    for (int p = first_place; p < end_place; p++) v_new[p] = ${new.format("p")};
    for (int a = from; a < to; a++) {  // a node's v may belong to another work-item
        const int p = ints[place_of + a];
        mem[here_v + a] = ${new.format("p")};
    }
    // phase 6: continuously played values
% if spec.played:
    for (int p = ints[first_played + from]; p < ints[first_played + to]; p++)
        if (ints[played_continuous + p]) play(p, t_mid, t_end, mem, clock, ints, at);
% endif
% if spec.second_order_currents:
    for (int a = from; a < to; a++) {
        const int p = ints[place_of + a];
% for ion in spec.ions:
        mem[ion_i${ion} + a] += mem[ion_di${ion} + a] * x[p];
% endfor
    }
% endif
    // phase 7: states
${all("advance")}\
</%def>\
// From x, the change in v, end the step: voltages, states, spikes, recorded states.
static void finish_block(
    const int from, const int to, const int first_place, const int end_place, const instant t_begin,
    const instant half_dt, const int done, const size_t row, const real dt, const int capacity,
    const int num_mem, __global const real *x, __global const real *v_old, __global real *v_new,
    __global int *failed, __global int *spike_count, __global int *spike_source,
    __global instant *spike_time,
% if spec.grid:
    __global int *grid_count, __global int *grid_source, __global int *grid_step,
% endif
    __global const int *mem_first, __global const int *mem_column, __global const int *mem_index,
    __global real *mem_rows, __global real *mem,
    __global instant *clock, __global int *ints, __global const int *at)
{
    const instant t_mid = t_begin + half_dt, t_end = t_mid + half_dt;
${to_states()}\
% for block in ("after_solve", "before_step"):
${all(block)}\
% endfor
    for (int c = ints[first_cell + from]; c < ints[first_cell + to]; c++) {
        const real soma = mem[here_v + ints[soma_of + c]];
        if (!(fabs(soma) < (real)1e6)) failed[c] = runaway(soma, failed[c], done);
    }
    for (int j = ints[first_detector + from]; j < ints[first_detector + to]; j++) {
${part("simulator/common/detect", 8, v="mem[here_v + ints[detector_at + j]]", number="j", end="t_end", step="done")}\
    }
    // phase 9: records
    for (int r = mem_first[from]; r < mem_first[to]; r++)
        mem_rows[row * num_mem + mem_column[r]] = mem[mem_index[r]];
}
