<%page args="spec"/>\
<%
    from clhines.simulator.mechanisms.emit.exponentials import TESTS
    here = {"v": "v_now", "dt": "dt", "t begin": "t_begin", "t now": "t_mid", "t end": "t_end", "pointer": "v[{}]"}
    after = {**here, "t now": "t_end"}
    later = {**here, "t begin": "t_next", "t now": "t_next + half_dt", "t end": "t_next + half_dt + half_dt"}
    always = spec.always
    constant_parameters = "".join(f"    const real *constants_{kind.number},\n" for kind in spec.grouped if kind.constants)
    events = "dt, capacity, v, spike_count,\n                spike_source, spike_time, mem, clock, ints, at);"
%>\
<%def name="lead(block)">\
## Store GLOBAL variables as their mechanism's last instance has set them; all cells read them in this step.
% for kind, name in spec.read_last(block):
    if (block == 0) {
        const int j = last_${kind.number};
        ${kind.places.turn(name, "turn")} = ${kind.places.state(name)};
    }
% endfor
</%def>\
<%def name="each(kind)">\
    for (int p = ${kind.width} * ints[group_${kind.number} + block]; p < ${kind.width} * ints[group_${kind.number} + block + 1]; p++) {
        const int j = ints[member_${kind.number} + p];
        if (j < 0) continue;
        const int a = ints[lane_${kind.number} + p];\
</%def>\
<%def name="addresses(kind, events)">\
<% k = kind.number %>\
${kind.addresses()}\
% if events:
        __global const int *asides_of_${k} = ints + aside_${k};
        __global long *sums_of_${k} = due + sum_${k};
% endif
</%def>\
<%def name="groups(kind)">\
<% k = kind.number %>\
    for (int q = ints[group_${k} + block], last = ints[group_${k} + block + 1]; q < last; q++) {
        __global const int *place = lanes_of_${k} + ${kind.width} * q;
        const int run = runs_of_${k}[q];
</%def>\
<%def name="each_group(kind, *blocks)">\
    {
${addresses(kind, "receive" in blocks)}\
${groups(kind)}\
% if any(kind.asks(block, "v") for block in blocks if block in dict(kind.vectors)):
        const ${kind.vector} v_now = at_${kind.width}(v, place, run);
% endif
</%def>\
<%def name="current(kind, values, row=False)">\
<% w = kind.width %>\
${kind.call_group("current", values, always, 8)}\
% if kind.asks("current", "i"):
<% share = f"LOOSE_{w}(shares_of_{kind.number} + {w} * q) * " if kind.kind == "density" else "" %>\
% if row:   # rounded before they are added, as without rows
        const real${w} conductance = ${share}g_g, inward = -(${share}i_i);
        row_d += conductance;
        row_b += inward;
% else:
% if kind.conducts:
        add_${w}(${share}g_g, d, place, run);
% endif
        add_${w}(-(${share}i_i), b, place, run);
% endif
% endif
</%def>\
## Sums as reals: PoCL 3 cannot compile convert_float8 of a long8 for processors with AVX-512.
<%def name="as_real(sums, width)">\
% if spec.real == "float" and width > 4:
(${spec.real}${width})(${as_real(f"({sums}).lo", width // 2)}, ${as_real(f"({sums}).hi", width // 2)})\
% else:
convert_${spec.real}${width}(${sums})\
% endif
</%def>\
<%def name="due_events(kind, t)">\
<% k, w, wide = kind.number, kind.width, "events" in dict(kind.vectors) %>\
        {   // usually no instance in a group has an event
            const int aside = asides_of_${k}[q];
            __global loose_long${w} *sum = (__global loose_long${w} *)(sums_of_${k} + aside);
            const int apart = aside < 0${"" if wide else " || SOME(*sum != 0)"};
            if (apart) take_sums_${k}(q, ${t}, dt, due, scale_of_events, v, mem, clock, ints, at);
% if wide:
            else if (SOME(*sum != 0)) {
                const ${kind.vector} weights = ${as_real("*sum", w)} * scale_of_events;
                *sum = 0;
${kind.call_group("events", {**here, "sum": "weights"}, always, 16)}\
            }
% endif
        }
</%def>\
// Many steps on a CPU. A work-item has a block of whole cells, which it advances until an
// event from another block may be due. A node's place is its index in all arrays by node: nodes are in
// elimination order, and cells with one shape side by side in tiles. A group has some instances in one
// mechanism, sorted by place: ${"`run`"} is their first place if the places are consecutive, else minus their number.
//
//     tile of 4 cells:  place 0..3 node 0 in cells A B C D, place 4..7 their node 1, ...
//
// A step: events, currents (begin_block), solve, states, thresholds, records (finish_block).
// spec: ${spec.real}, ${len(spec.kinds)} mechanisms, secondorder ${spec.secondorder}
//
// Arguments:
${part("simulator/common/run_arguments")}\
//   first_block       first of num_blocks blocks to advance, from step first_step on
//   first_time        index in step_begin of first_step;  first_row: its record row
//   keeps_ions        whether to sum all ions' currents in each step: records need them
//   keeps_states      whether records need states after each step
//   u, base           coupling with the parent, and the pivot's constant part, at each place. If the whole pivot is
//                     constant, `base` has its inverse, and `d` the elimination factor, u / pivot
//   constant_g, _b    constant mechanisms' conductance and current at each place
//   v                 voltages, mV; d, b, x: scratch for the system and its solution, the change of v
//   v_first           each block's first recorded voltage; v_index: its place; v_column: its column in v_rows
//   mem_block         for each value recorded from an artificial cell the block that stores it
//   first_of, offset, weight_of   with one block, for connections with delays in whole steps, sorted by source: each
//                     source's first connection; each connection's sum as an index in `incoming`, and its weight
% if "double" in (spec.real, spec.instant):
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
${TESTS}\
% for w in spec.widths:
typedef ${spec.real}${w} real${w};
typedef real${w} __attribute__((aligned(sizeof(real)))) loose_real${w};
typedef int${w} __attribute__((aligned(sizeof(int)))) loose_int${w};
#define LOOSE_${w}(p) (*(__global loose_real${w} *)(p))
% if spec.grid:
typedef long${w} __attribute__((aligned(sizeof(long)))) loose_long${w};
% endif
% endfor

// Return an instance's index for variable `line`: groups of `width` instances follow each other, and each
// stores a vector for each of its `lines` variables. `position` is group * width + lane.
static inline int in_group(const int position, const uint width, const uint lines, const uint line)
{
    const uint p = position;
    return (p / width * lines + line) * width + p % width;
}

${spec.shared_helpers}\
${part("simulator/common/arena_functions")}\
${part("solver/common/reciprocal") + part("simulator/common/diffusing_rows") if spec.diffuses else ""}\
${part("simulator/common/runaway")}\
% for w in spec.group_widths:
// Read numbers at a group's places
static inline real${w} at_${w}(__global const real *a, __global const int *place, const int run)
{
    if (run >= 0) return LOOSE_${w}(a + run);
    return (real${w})(${", ".join(f"a[place[{lane}]]" for lane in range(w))});
}

// Write numbers to `count` places that are not consecutive; not inlined, so that other numbers stay in registers
static __attribute__((noinline)) void keep_apart_${w}(const real${w} x, __global real *a,
    __global const int *place, const int count)
{
    for (int k = 0; k < count; k++) a[place[k]] = ((const real *)&x)[k];
}

// Add numbers at `count` places one by one, as several instances may be at a node
static __attribute__((noinline)) void add_apart_${w}(const real${w} x, __global real *a,
    __global const int *place, const int count)
{
    for (int k = 0; k < count; k++) a[place[k]] += ((const real *)&x)[k];
}

// Write numbers to a group's places
static inline void keep_${w}(const real${w} x, __global real *a, __global const int *place, const int run)
{
    if (run >= 0) LOOSE_${w}(a + run) = x;
    else keep_apart_${w}(x, a, place, -run);
}

// Add numbers at a group's places
static inline void add_${w}(const real${w} x, __global real *a, __global const int *place, const int run)
{
    if (run >= 0) LOOSE_${w}(a + run) += x;
    else add_apart_${w}(x, a, place, -run);
}

% endfor
% for kind in spec.summed_kinds:
<% k, w = kind.number, kind.width %>\
// Deliver the events to a group's instances, one by one
static __attribute__((noinline)) void take_sums_${k}(
    const int q, const instant t, const real dt, __global long *due, const real scale_of_events,
    ${spec.v_space} const real *v, __global real *mem, __global instant *clock, __global int *ints,
    __global const int *at)
{
    for (int p = ${w} * q; p < ${w} * (q + 1); p++) {
        const int j = ints[member_${k} + p];
        if (j < 0 || due[sum_${k} + j] == 0) continue;
        const int a = ints[lane_${k} + p];
        take_sum_${k}(j, a, t, v[a], dt, due, scale_of_events, v, mem, clock, ints, at);
    }
}

% endfor
// Let other blocks see events from earlier launches. One work-item.
__kernel void publish(${signature(spec, "publish")})
{
    if (get_global_id(0) > 0) return;
    clock[launch_begin] = step_begin[first_time];
    for (int s = 0; s < num_sources; s++) {
        if (ints[event_shown + s] == ints[event_count + s]) continue;
        ints[event_shown + s] = ints[event_count + s];
        mark_targets(s, ints, at);
    }
}

// Deliver events due until the step's middle to a block's artificial cells, or to all of its targets if
// they send each other events within a step.
static __attribute__((noinline)) void block_events(
    const int block, const instant t_begin, const instant t_mid, const real dt, const int capacity,
    ${spec.v_type}v, __global int *spike_count, __global int *spike_source,
    __global instant *spike_time, __global real *mem, __global instant *clock, __global int *ints,
    __global const int *at)
{
    for (int k = ints[block_target + block]; k < ints[block_target + block + 1]; k++) {
        const int target = ints[block_targets + k];
${part("simulator/common/at_target", 8, kinds=spec.net_kinds if spec.layered else spec.loose_kinds)}\
    }
}

<%
    rows = []
    for kind in [*spec.ahead, *(k for k in spec.early if k not in spec.ahead)] if spec.in_rows else []:
        takes = kind in spec.summed_kinds
        events = capture(due_events, kind, "t_mid") if takes else ""
        rows.append((kind, capture(addresses, kind, takes), events, capture(current, kind, here, True)))
%>\
${part("simulator/common/block_rows", rows=rows, after=after, parameters=constant_parameters) if rows else ""}\
// Deliver events until the step's middle, then add the currents at this time to d and b. ${"`ahead`"}: some
// mechanisms have done both when the step before ended. ${"`sums`"}: ion currents are added up, too.
static __attribute__((noinline)) void begin_block(
    const int block, const int first, const int end, const int sums, const int ahead, const instant t_begin,
    const instant half_dt, const ulong step, const ulong seed, const real dt, const int capacity,
${constant_parameters}\
% if spec.sets_v and spec.constant:
    __global const real *constant_g, __global const real *constant_b,
% endif
    __global const real *v, __global real *d, __global real *b, __global int *spike_count,
    __global int *spike_source, __global instant *spike_time,
% if spec.grid:
    const int slots, const int num_targets, const real scale_of_events, __global long *incoming,
% endif
    __global real *mem, __global instant *clock, __global int *ints, __global const int *at)
{
    const instant t_mid = t_begin + half_dt, t_end = t_mid + half_dt;
% if spec.sets_v and spec.constant:   # events may have set v
    for (int i = first; i < end; i++) b[i] = constant_b[i] - constant_g[i] * v[i];
% endif
    // phase 1: events
% if spec.summed_kinds:
    __global long *due = incoming + (long)(step % slots) * num_targets;
% endif
% for kind in spec.summed_kinds:
    ${"if (!ahead) " if kind in spec.ahead else ""}{
${each_group(kind, "receive")}\
${due_events(kind, "t_mid")}\
    }
    }
    }
% endfor
% if not spec.layered:
% for kind in spec.net_kinds:
% if kind.kind != "artificial":
<% k = kind.number %>\
${each(kind)}
% if spec.wide and not kind.watches:
        if (!ints[stale + target_${k} + j] && clock[next_due + target_${k} + j] > ${spec.soon}) continue;
% endif
        events_of_${k}(j, a, t_begin, t_mid, ${events}
    }
% endif
% endfor
% endif
    // phase 2: played values
% if spec.played:
    for (int p = ints[first_played + first]; p < ints[first_played + end]; p++)
        play(p, t_mid, t_mid, mem, clock, ints, at);
% endif
    // phase 3: currents
% if spec.turns:
    const int turn = (int)(step % ${spec.turns});
${lead("current")}\
% endif
% for kind in spec.grouped:
% if kind.has("before_breakpoint"):
${each(kind)}
        const real v_now = v[a];
${kind.call("before_breakpoint", here, 8)}\
    }
% endif
% endfor
% for ion in spec.ions:
    ${"" if ion in always else "if (sums) "}{
        __global real *i = mem + ion_i${ion}, *di = mem + ion_di${ion};
        for (int a = first; a < end; a++) i[a] = 0;
        for (int a = first; a < end; a++) di[a] = 0;
    }
% if ion in spec.nernst:
    for (int a = first; a < end; a++)
        if (ints[advances_${ion} + a]) to_nernst_${ion}(mem, at, a);
% endif
% endfor
% if spec.ahead:
    if (!ahead) {
% for kind in spec.ahead:
${each_group(kind, "current")}\
${current(kind, here)}\
    }
    }
% endfor
    }
% endif
% for kind in [*(k for k in spec.early if k not in spec.ahead), *(k for k in spec.grouped if k not in spec.early)]:
% if kind.has("current"):
<%
    k, w = kind.number, kind.width
    noise = f"normal(seed, (ulong)(number_{k} + j), step)"
%>\
% if "current" in dict(kind.vectors):
${each_group(kind, "current")}\
${current(kind, here)}\
    }
    }
% else:
${each(kind)}
        const real v_now = v[a];
${kind.call("current", {**here, "noise": noise}, 8)}\
% if kind.asks("current", "i"):
        const real share = ${"mem[area + a] * (real)0.01" if kind.kind == "density" else "1"};
        d[a] += share * g_g;
        b[a] -= share * i_i;
% endif
    }
% endif
% endif
% endfor
}

${part("simulator/common/block_solve")}\
// End the step after the solve: states, spikes, recorded states. With ${"`ahead`"} also deliver events and add
// some mechanisms' currents for the next step, which begins at t_next and needs no sums of ion currents.
// ${"`tame`"}: all soma voltages are below 1e6 mV.
static __attribute__((noinline)) void finish_block(
    const int block, const int first, const int end, const int sums, const int ahead, const int tame,
    const instant t_begin, const instant t_next, const instant half_dt, const int done, const size_t row,
    const real dt, const int capacity, const int num_mem,
${constant_parameters}\
    __global const real *v, __global real *d, __global real *b, __global const real *x, __global int *failed, __global int *spike_count,
    __global int *spike_source, __global instant *spike_time,
% if spec.grid:
    __global int *grid_count, __global int *grid_source, __global int *grid_step,
    const int slots, const int num_targets, const real scale_of_events, __global long *incoming,
% endif
    __global const int *mem_first, __global const int *mem_column, __global const int *mem_index,
    __global real *mem_rows, __global real *mem, __global instant *clock, __global int *ints,
    __global const int *at)
{
    const instant t_mid = t_begin + half_dt, t_end = t_mid + half_dt;
% if any(kind in spec.ahead for kind in spec.summed_kinds):
    __global long *due = incoming + (long)((done + 1) % slots) * num_targets;
% endif
    // phase 6: continuously played values
% if spec.played:
    for (int p = ints[first_played + first]; p < ints[first_played + end]; p++)
        if (ints[played_continuous + p]) play(p, t_mid, t_end, mem, clock, ints, at);
% endif
% if spec.second_order_currents:
% for ion in spec.ions:
    ${"" if ion in always else "if (sums) "}for (int a = first; a < end; a++)
        mem[ion_i${ion} + a] += mem[ion_di${ion} + a] * x[a];
% endfor
% endif
    // phase 7: states
% if spec.turns:
    const int turn = done % ${spec.turns};
${lead("advance")}\
% endif
% for block in () if spec.in_rows else ("advance", "diffuse", "after_solve", "before_step"):
% for kind in spec.grouped:
% if kind.has(block):
% if block in dict(kind.vectors):
<%
    fused = block == "advance" and kind in spec.ahead
    more = ["current", *["receive"] * (kind in spec.summed_kinds)] if fused else []
%>\
${each_group(kind, block, *more)}\
${kind.call_group(block, after, always, 8)}\
% if fused:
        if (!ahead) continue;
% if kind in spec.summed_kinds:
        // phase 1: events, for the next step
${due_events(kind, "t_next + half_dt")}\
% endif
        // phase 3: currents, for the next step
${current(kind, later)}\
% endif
    }
    }
% else:
${each(kind)}
        const real v_now = v[a];
${kind.call(block, after, 8)}\
    }
% endif
% endif
% endfor
${part("simulator/common/block_diffusion", 4) if block == "diffuse" and spec.diffuses else ""}\
% endfor
% if spec.sums:
    for (int n = ints[block_sum + block]; n < ints[block_sum + block + 1]; n++) {
        const int s = ints[block_sums + n];
${part("simulator/common/arena_sums", 8)}\
    }
% endif
    for (int k = ints[first_cell + first]; k < ints[first_cell + end] && !tame; k++) {
        const int c = ints[cell_of + k];
        const real soma = v[ints[soma_of + k]];
        if (!(fabs(soma) < (real)1e6)) failed[c] = runaway(soma, failed[c], done);
    }
% if not spec.in_rows:
    // skip a vector of detectors if none of them changes
    __global const int *nodes = ints + detector_at, *follow = ints + detector_run, *held_ = ints + detector_held;
    __global const real *limit = mem + detector_threshold;
    const int last_detector = ints[first_detector + end];
    for (int j = ints[first_detector + first]; j < last_detector; j++) {
<% w = spec.width %>\
        if (follow[j] && j <= last_detector - ${w} && !SOME(LOOSE_${w}(v + nodes[j]) > LOOSE_${w}(limit + j))
            && !SOME(*(__global const loose_int${w} *)(held_ + j) != 0)) {
            j += ${w - 1};
            continue;
        }
${part("simulator/common/detect", 8, v="v[ints[detector_at + j]]", number="j", end="t_end", step="done")}\
    }
% endif
    // phase 9: records
    for (int r = mem_first[first]; r < mem_first[end]; r++)
        mem_rows[row * num_mem + mem_column[r]] = mem[mem_index[r]];
}

// One work-item per cell block.
__kernel void advance(${signature(spec, "advance")})
{
    const int block = first_block + get_global_id(0);
    if (block >= num_blocks) return;
    const int first = ints[block_place + block], end = ints[block_place + block + 1];
% for kind in spec.grouped:
% if kind.constants:
    real constants_${kind.number}[${len(kind.constants)}];
${kind.call_constants()}
% endif
% endfor
<%
    constants = "".join(f"constants_{kind.number}, " for kind in spec.grouped if kind.constants)
%>\
    for (int i = first; i < end; i++) b[i] = ${"constant_b[i] - constant_g[i] * v[i]" if spec.constant else "0"};
% if spec.alone:
    int delivered = min(*grid_count, capacity);
% endif
    int ahead = 0;
    for (int s = 0; s < num_steps; s++) {
        const instant t_begin = step_begin[first_time + s], t_mid = t_begin + half_dt;
        const size_t row = first_row + s;
        // add up ion currents if they may be read
        const int sums = keeps_ions || s == num_steps - 1, begun = ahead;
        ahead = ${"0" if spec.in_rows else "!keeps_ions && !keeps_states && s + 2 < num_steps"};
        block_events(block, t_begin, t_mid, dt, capacity, v, spike_count, spike_source,
                     spike_time, mem, clock, ints, at);
% if spec.in_rows:
        take_marked(first_step + s, unmarked, t_mid, dt, slots, num_targets, scale_of_events, ${constants}incoming, v, mem, clock, ints, at);
        const int tame = step_rows(
            block, t_begin, half_dt, first_step + s, dt, capacity, ${constants}base, ${"constant_g, constant_b, " if spec.constant else ""}v, spike_count,
            spike_source, spike_time, ${"grid_count, grid_source, grid_step, " if spec.grid else ""}mem, clock, ints, at);
% else:
        begin_block(block, first, end, sums, begun, t_begin, half_dt, (ulong)(first_step + s), seed, dt,
                    capacity, ${constants}${"constant_g, constant_b, " if spec.sets_v and spec.constant else ""}v, d, b, spike_count, spike_source, spike_time,
                    ${"slots, num_targets, scale_of_events, incoming, " if spec.grid else ""}mem, clock, ints, at);
        int tame = 1;
% for w in spec.tile_widths:
        for (int k = ints[tile_${w} + block]; k < ints[tile_${w} + block + 1]; k++) {
            __global const int *tile = ints + tiles_${w} + 5 * k;
            tame &= solve_${w}(tile[0], tile[1], tile[2], tile[3], ints + parents + tile[4], u, base, ${"constant_g, constant_b, " if spec.constant else ""}v, d, b, x);
        }
% endfor
% endif
        finish_block(block, first, end, sums, ahead, tame, t_begin, ahead ? step_begin[first_time + s + 1] : t_mid,
                     half_dt, first_step + s, row, dt, capacity, num_mem, ${constants}v, d, b, x, failed, spike_count, spike_source, spike_time,
                     ${"grid_count, grid_source, grid_step, slots, num_targets, scale_of_events, incoming, " if spec.grid else ""}mem_first, mem_column, mem_index, mem_rows, mem, clock, ints, at);
% if spec.played:
        for (int k = ints[block_loose_play + block]; k < ints[block_loose_play + block + 1]; k++) {
            const int p = ints[block_loose_plays + k];
            play(p, t_mid, ints[played_continuous + p] ? t_mid + half_dt : t_mid, mem, clock, ints, at);
        }
% endif
        for (int e = ints[block_emitter + block]; e < ints[block_emitter + block + 1]; e++) {
            const int source = ints[block_emitters + e];
            if (ints[event_count + source] == ints[event_live + source]) continue;
            ints[event_count + source] = ints[event_live + source];
            mark_targets(source, ints, at);
        }
        for (int r = v_first[block]; r < v_first[block + 1]; r++)
            v_rows[row * num_v + v_column[r]] = v[v_index[v_column[r]]];
        for (int r = mem_first[num_nodes]; r < ${"mem_first[num_nodes + 1]" if spec.sums else "num_mem"}; r++)
            if (mem_block[r - mem_first[num_nodes]] == block)
                mem_rows[row * num_mem + mem_column[r]] = mem[mem_index[r]];
% if spec.alone:
${part("simulator/common/block_delivery", 8)}\
% endif
    }
}
