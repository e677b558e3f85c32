<%page args="spec, rows, after, parameters"/>\
## Part of blocks.mako: a step for cells with one node. `rows` has for each mechanism its kind, declarations of pointers
## to its groups' values, and statements that deliver events to group q ("" without events) and that add its currents to
## row_d and row_b; `after` names values after the solve, `parameters` declares constants.
<%
    first, w = rows[0][0].number, rows[0][0].width
%>\
// Deliver a step's events, to whole groups. Each delivery in this kernel sets bit t in the step's words in ${"`marked`"}
// for its target t. If there are also events from outside, ${"`unmarked`"} is 1: first find their targets by their sums.
static __attribute__((noinline)) void take_marked(
    const int step, const int unmarked, const instant t_mid, const real dt, const int slots, const int num_targets,
    const real scale_of_events,
${parameters}\
    __global long *incoming, __global const real *v, __global real *mem, __global instant *clock, __global int *ints,
    __global const int *at)
{
    const int words = (num_targets + 31) / 32;
    __global uint *marks = (__global uint *)ints + marked + step % slots * words;
    __global long *due = incoming + (long)(step % slots) * num_targets;
% for _, addresses, events, _ in rows:
${addresses if events else ""}\
% endfor
    for (int word = 0; word < words; word++) {
        uint bits = marks[word];
        for (int t = 32 * word, end = min(t + 32, num_targets); unmarked && t < end; t++)
            bits |= (uint)(due[t] != 0) << t % 32;
        marks[word] = 0;
        while (bits) {
            const int bit = 31 - clz(bits), target = 32 * word + bit;
            bits ^= 1u << bit;
% for kind, _, events, _ in rows:
% if events:
            if (target >= sum_${kind.number} && target < sum_${kind.number} + count_${kind.number}) {
                const int q = ints[position_${kind.number} + target - sum_${kind.number}] / ${w};
                const real${w} v_now = LOOSE_${w}(v + ${w} * q);
${events}\
            }
% endif
% endfor
        }
    }
}

// Advance cells with one node by a step. In each mechanism group q has the same ${w} cells, which take the whole step
// in registers. In the last group's idle lanes ${"`v`"} and ${"`base`"} have more numbers, and detectors are left out. Return
// whether all voltages are below 1e6 mV.
static __attribute__((noinline)) int step_rows(
    const int block, const instant t_begin, const instant half_dt, const int step, const real dt, const int capacity,
${parameters.replace('*constants', '*given')}\
    __global const real *base,
% if spec.constant:
    __global const real *constant_g, __global const real *constant_b,
% endif
    __global real *v, __global int *spike_count, __global int *spike_source, __global instant *spike_time,
    __global int *grid_count, __global int *grid_source, __global int *grid_step,
    __global real *mem, __global instant *clock, __global int *ints, __global const int *at)
{
    const instant t_mid = t_begin + half_dt, t_end = t_mid + half_dt;
% for kind, *_ in rows:
${kind.addresses()}\
% endfor
    __global const real *limit = mem + detector_threshold;
% for kind, *_ in rows:
% if kind.constants:
    const real constants_${kind.number}[] = {${", ".join(f"given_{kind.number}[{c}]" for c in range(len(kind.constants)))}};
% endif
% endfor
    __global int *held_of = ints + detector_held;   // read before the loop, as a store may change the region's place
    ${"int" if spec.real == "float" else "long"}${w} tame = -1;
    const int most = count_${first} - ${w};   // where the last group that can be full begins
    // phase 1: events; `take_marked` has delivered them. phase 2: played values; there are none
    for (int q = ints[group_${first} + block], last = ints[group_${first} + block + 1]; q < last; q++) {
        const int run = ${w} * q;
        real${w} v_now = LOOSE_${w}(v + run), row_d = LOOSE_${w}(base + run);
% if spec.constant:
        real${w} row_b = LOOSE_${w}(constant_b + run) - LOOSE_${w}(constant_g + run) * v_now;
% else:
        real${w} row_b = 0;
% endif
% for *_, current in rows:
        {
        // phase 3: currents
${current}\
        }
% endfor
        // phase 4: solve; phase 5: voltages
        v_now += row_b / row_d;
        LOOSE_${w}(v + run) = v_now;
        tame &= (v_now < (real)1e6) & (v_now > (real)-1e6);
% for kind, *_ in rows:
        {
        // phase 7: states
${kind.call_group("advance", after, spec.always, 8)}\
        }
% endfor
        // usually no cell in a group begins a spike; detector j is at place j
        __global loose_int${w} *held_ones = (__global loose_int${w} *)(held_of + run);
        const int${w} were = *held_ones, above = ${"" if spec.real == "float" else f"convert_int{w}"}(v_now > LOOSE_${w}(limit + run));
        if (SOME((above != 0) & (were == 0)${f" | (int{w})-(run > most)" if spec.idle_lanes else ""})) {
            for (int j = run; j < run + ${w} && j < most + ${w}; j++) {
${part("simulator/common/detect", 16, v="v[j]", number="j", end="t_end", step="step")}\
            }
        } else *held_ones = were > 1 ? were - 1 : above & were;
    }
    return EVERY(tame);
}

