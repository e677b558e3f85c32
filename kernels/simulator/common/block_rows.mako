<%page args="spec, rows, after, parameters"/>\
## Part of blocks.mako: a step of cells of one node. `rows` has for each mechanism its kind, the declarations of pointers
## to its groups' values, and statements that deliver events to group q and that add its currents to row_d and row_b;
## `after` has the names of values after the solve, `parameters` the declarations of constants.
<%
    first, w = rows[0][0].number, rows[0][0].width
%>\
// Take a step of cells of one node. Group q of each mechanism has the same ${w} cells, which take the whole step
// in registers. Return whether all voltages are below 1e6 mV.
static __attribute__((noinline)) int step_rows(
    const int block, const instant t_begin, const instant half_dt, const int step, const real dt, const int capacity,
${parameters.replace('*constants', '*given')}\
    __global const real *base,
% if spec.constant:
    __global const real *constant_g, __global const real *constant_b,
% endif
    __global real *v, __global int *spike_count, __global int *spike_source, __global instant *spike_time,
    __global int *grid_count, __global int *grid_source, __global int *grid_step,
    const int slots, const int num_targets, const real scale_of_events, __global long *incoming,
    __global real *mem, __global instant *clock, __global int *ints, __global const int *at)
{
    const instant t_mid = t_begin + half_dt, t_end = t_mid + half_dt;
    __global long *due = incoming + (long)(step % slots) * num_targets;
% for _, addresses, *_ in rows:
${addresses}\
% endfor
    __global const real *limit = mem + detector_threshold;
% for kind, *_ in rows:
% if kind.constants:
    const real constants_${kind.number}[] = {${", ".join(f"given_{kind.number}[{c}]" for c in range(len(kind.constants)))}};
% endif
% endfor
    int tame = 1;
    // phase 2: played values; there are none
    for (int q = ints[group_${first} + block], last = ints[group_${first} + block + 1]; q < last; q++) {
        const int run = ${w} * q;
        real${w} v_now = LOOSE_${w}(v + run), row_d = LOOSE_${w}(base + run);
% if spec.constant:
        real${w} row_b = LOOSE_${w}(constant_b + run) - LOOSE_${w}(constant_g + run) * v_now;
% else:
        real${w} row_b = 0;
% endif
% for _, _, events, current in rows:
        {
        // phase 1: events
${events}\
        // phase 3: currents
${current}\
        }
% endfor
        // phase 4: solve; phase 5: voltages
        v_now += row_b / row_d;
        LOOSE_${w}(v + run) = v_now;
        tame &= EVERY((v_now < (real)1e6) & (v_now > (real)-1e6));
% for kind, *_ in rows:
        {
        // phase 7: states
${kind.call_group("advance", after, spec.always, 8)}\
        }
% endfor
        // usually no cell of a group begins a spike; detector j is at place j
        __global loose_int${w} *held_ones = (__global loose_int${w} *)(ints + detector_held + run);
        const int${w} were = *held_ones, above = ${"" if spec.real == "float" else f"convert_int{w}"}(v_now > LOOSE_${w}(limit + run));
        if (SOME((above != 0) & (were == 0))) {
            for (int j = run; j < run + ${w}; j++) {
${part("simulator/common/detect", 16, v="v[j]", number="j", end="t_end", step="step")}\
            }
        } else *held_ones = were > 1 ? were - 1 : above & were;
    }
    return tame;
}

