<%page args="spec"/>\
<%!
    from textwrap import indent

    def numbers_of(k, kind):
        """Parameters that differ between instances, and constants, of group q."""
        given = f"given_{k} + {kind.num_given} * (long)q"
        return given, f"numbers_{k}" if kind.num_constants else "0"
%>\
<%def name="voltages(k, W, name)">\
% if W == 1:
            const real ${name} = ((__global const real *)v)[*place];\
% else:
            const real${W} ${name} = run_${k}[q] >= 0
                ? *(__global const loose_real${W} *)((__global const real *)v + run_${k}[q])
                : gather_${W}((__global const real *)v, place);\
% endif
</%def>\
<%def name="advanced(k, kind, now, step)">\
<% given, constants = numbers_of(k, kind) %>\
            advance_${k}(${now}, (real)${step} * dt, dt, parameters_${k}, ${constants}, ${given}, held);
% if spec.samples:
            for (int e = samples_${k}[q]; e >= 0; e = sample_list[4 * e + 3]) {
                const int what = sample_list[4 * e];
                if (what < ${kind.num_states})
                    sampled[(long)(row + ${step} - first_step) * sampled_width + sample_list[4 * e + 2]]
                        = ((__global const real *)held)[what * ${kind.width} + sample_list[4 * e + 1]];
            }
% endif
</%def>\
<%def name="events(k, kind)">\
<%
    W, long = kind.width, f"__global loose_long{kind.width} *"
    given, constants = numbers_of(k, kind)
%>\
% if W > 1:
            const int aside = aside_${k}[q];
            ${long}sums = (${long})(incoming + due + target_${k} + aside);   // mostly all 0
% endif
% if kind.takes_events_at_once:
            if (aside >= 0 && SOME(*sums != 0)) {
                events_${k}(convert_${spec.real}${W}(*sums) * scale_of_events, parameters_${k}, ${constants},
                    ${given}, held);
                *sums = 0;
            }
            const bool some = aside < 0;
% else:
            const bool some = ${"true" if W == 1 else "aside < 0 || SOME(*sums != 0)"};
% endif
            for (int lane = 0; some && lane < ${W}; lane++) {
                const int j = member_${k}[${W} * (long)q + lane];
                if (j < 0) continue;
                __global long *weight = incoming + due + target_${k} + j;
                if (*weight == 0) continue;
                event_${k}((real)*weight * scale_of_events, lane, parameters_${k},
                    (__global const real *)(${given}), (__global real *)held);
                *weight = 0;
            }
</%def>\
<%def name="acted(k, kind)">\
<%
    W, real = kind.width, f"real{kind.width}"
    given, constants = numbers_of(k, kind)
%>\
% if W > 1 or kind.uses_noise:
            __global const int *member = member_${k} + ${W} * (long)q;
% endif
            ${real} current, slope, noise = 0;
% if kind.uses_noise:
            for (int lane = 0; lane < ${W}; lane++)
                if (member[lane] >= 0)
                    ((real *)&noise)[lane] = normal(seed, (ulong)(number_${k} + member[lane]),
                        (ulong)step);
% endif
            current_${k}(now, t_mid, dt, parameters_${k}, ${constants}, ${given}, held, noise,
                &current, &slope);
% if spec.samples:
            for (int e = samples_${k}[q]; e >= 0; e = sample_list[4 * e + 3])
                if (sample_list[4 * e] == ${kind.num_states})
                    sampled[(long)(row + step - first_step) * sampled_width + sample_list[4 * e + 2]]
                        = ((const real *)&current)[sample_list[4 * e + 1]];
% endif
            const ${real} factor = ${f"factor_{k}[q]" if kind.density else "1"};
            const ${real} diagonal = factor * slope, right = -factor * current;
</%def>\
<%def name="groups(k, kind, end)">\
% if spec.rows[k]:
            {
                const int q = table[${9 + 2 * k}] + i;
% else:
            for (int q = next_${k}; q < ${end}; q++) {
% endif
                __global real${kind.width} *held = held_${k} + ${kind.num_states} * (long)q;
% if kind.width == 1:
                __global const int *place = place_${k} + q;
% endif
${indent(capture(caller.body), "    ")}\
            }
</%def>\
<%def name="after(solved)">\
            const lanes solved = ${solved};
            x[i & ${spec.window - 1}] = solved;
% if not spec.flat:
            const lanes next = v[i] + ${"2 * " if spec.secondorder else ""}solved;
            v[i] = next;
            b[i] = constant_b[i] - constant_g[i] * next;
% endif
</%def>\
<%
    from clhines.simulator.mechanisms.emit.exponentials import TESTS
    w, mask = spec.lanes, f"{'long' if spec.real == 'double' else 'int'}{spec.lanes}"
    lanes = "real" if w == 1 else f"{spec.real}{w}"
    columns = 9 + 2 * len(spec.kinds)
    flat = spec.flat
    widths = sorted({kind.width for kind in spec.kinds} | ({flat} if flat else set()))
%>\
// Whole epochs of a network: one work-item takes all the steps of a block, of rows of ${w} cell(s) of
// one shape, lane by lane. Slots of a block are in the order of elimination: first those whose pivots
// never change, then those with instances below or at them, the roots last, row by row. A place is a
// slot and a lane of it: slot * ${w} + lane. Instances of a kind are taken in groups, by place.
// spec: ${spec.real}, ${w} lanes, ${len(spec.kinds)} kinds, secondorder ${spec.secondorder}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
typedef ${lanes} lanes;

% if max([w, *widths]) > 1:
${TESTS}\
% endif
% for width in widths:
% if width == 1:
typedef real real1;
% else:
typedef ${spec.real}${width} real${width};
typedef real${width} __attribute__((aligned(sizeof(real)))) loose_real${width};
typedef long${width} __attribute__((aligned(sizeof(long)))) loose_long${width};
typedef int${width} __attribute__((aligned(sizeof(int)))) loose_int${width};

static real${width} gather_${width}(__global const real *a, __global const int *place)
{
    return (real${width})(${", ".join(f"a[place[{lane}]]" for lane in range(width))});
}

// One after another, as several instances may be at one place.
static void scatter_${width}(__global real *a, __global const int *place,
    __global const int *member, const real${width} x)
{
    for (int lane = 0; lane < ${width}; lane++)
        if (member[lane] >= 0) a[place[lane]] += ((const real *)&x)[lane];
}

% endif
% endfor
% if any(kind.uses_noise for kind in spec.kinds):
${spec.noise}
% endif
% if flat:
// The end of a step, and right-hand sides of the next, of n numbers of a block.
static void end_step(const int n, __global const real *constant_g,
    __global const real *constant_b, __global const real *x,
    __global real *v, __global real *b)
{
<% many, one = f"*(__global loose_real{flat} *)(", "*(" %>\
% for first, end, step, at in (("int i = 0", f"i <= n - {flat}", f"i += {flat}", many), ("int i = n - n % " + str(flat), "i < n", "i++", one)):
    for (${first}; ${end}; ${step}) {
        const real${flat if at == many else ""} next = ${at}v + i) + ${"2 * " if spec.secondorder else ""}${at}x + i);
        ${at}v + i) = next;
        ${at}b + i) = ${at}constant_b + i) - ${at}constant_g + i) * next;
    }
% endfor
}

% endif
${part("simulator/common/runaway")}\
// What crosses the threshold, and where a voltage runs off, of the cells of a row: rarely any.
% if w > 1:
__attribute__((noinline))
% endif
static void spikes(
    const lanes before, const lanes after, __global const int *cell, const int step,
    const lanes threshold, __global int *failed, const int capacity,
    __global int *spike_source, __global int *spike_step,
    __global int *spike_count)
{
    for (int lane = 0; lane < ${w}; lane++) {
        const int c = cell[lane];
        if (c < 0) continue;
        const real old = ((const real *)&before)[lane], new = ((const real *)&after)[lane];
        const real limit = ((const real *)&threshold)[lane];
${part("simulator/common/detect", 8, crosses="old <= limit && new > limit", source="c")}\
        if (!(fabs(new) < (real)1e6)) failed[c] = runaway(new, failed[c], step);
    }
}

% for k, kind in enumerate(spec.kinds):
// ---- kind ${k}: ${kind.name}

${kind.source}
${kind.wrappers(k)}
% endfor
// blocks, by block: first slot, slots, constant slots, first entry of `parents`, first variable slot,
//     first and end of what is recorded of it, first row, rows, and for each kind first and end of its
//     groups
// parents, by shapes of rows and slot: the parent's slot in the block
// constant_gs to us, by slot and lane; inverses are those of the constant slots
// base_ds, ds and fs, by variable slot and lane
// xs, by block, ${spec.window} slots and lane: ${"no block has more slots" if spec.flat else "a slot's parent is nearer than that"}
// cells, by row and lane; -1 for no cell; thresholds likewise
// failed: by cell
// record_slot: slot and lane in the block, of each column of record_column
// Of each kind, by group and lane: `member`, the instance, or ~instance of one whose numbers fill a
//     lane that has none of its own, and its place in the block; by group: `run`, the first place of
//     consecutive ones, else -1, and `aside`, the first of consecutive instances, else -1; by
//     instance: `position`, group * width + lane
% if spec.rows and spec.alone:
// touched: by slot, how many targets have events, if fewer than `most`, and these; what was sent
//     before the launch is not listed
% endif
% if spec.alone:
// first_of: by source, its first connection; offset, weight_of: by connection, see delivery.mako
% endif
% if spec.samples:
// samples_K: by group, first of what is recorded of it, in lists of state (after the last: current),
//     lane, column and next entry
% endif
__kernel void epoch(${signature(spec, "epoch")})
{
    const int block = get_global_id(0);
    __global const int *restrict table = blocks + ${columns} * block;
    const int n = table[1], num_constant = table[2], first_root = n - table[8];
    const long slot = table[0], variable = table[4];
    __global const int *restrict parent = parents + table[3];
    __global const lanes *restrict constant_g = constant_gs + slot;
    __global const lanes *restrict constant_b = constant_bs + slot;
    __global const lanes *restrict inverse = inverses + slot;
    __global lanes *v = vs + slot;
    __global lanes *b = bs + slot;
    __global lanes *x = xs + ${spec.window} * (long)block;   // changes of v of the last slots
    __global const lanes *restrict u = us + slot;
    __global lanes *restrict f = fs + variable - num_constant;
    __global const lanes *restrict base_d = base_ds + variable - num_constant;
    __global lanes *d = ds + variable - num_constant;
    __global const int *restrict cell = cells + ${w} * table[7];
    __global const lanes *restrict threshold = thresholds + table[7];
% if spec.alone:
    int delivered = min(*spike_count, capacity);
% if spec.rows:
    const int most = num_targets / ${spec.share_of_lists}, stride = most + 2;
    for (int s = 0; s < slots; s++) touched[stride * s] = 0;
% endif
% endif

% for k, kind in enumerate(spec.kinds):
<% first, end, W, n = f"table[{9 + 2 * k}]", f"table[{10 + 2 * k}]", kind.width, kind.num_states %>\
% if kind.num_constants:
    real numbers_${k}[${kind.num_constants}];
    constants_${k}(dt, parameters_${k}, numbers_${k});
% endif
% if n:
    for (int q = ${first}; q < ${end}; q++)
        for (int lane = 0; lane < ${W}; lane++) {
            const int j = member_${k}[${W} * (long)q + lane];
            __global real *held = (__global real *)(held_${k} + ${n} * (long)q) + lane;
            for (int s = 0; s < ${n}; s++)
                held[s * ${W}] = states_${k}[(long)s * count_${k} + (j >= 0 ? j : ~j)];
        }
% endif
% endfor

% if spec.rows:
    bool alike = true;
    for (int i = 1; i < n; i++)
        alike = alike && EVERY((constant_g[i] == *constant_g) & (constant_b[i] == *constant_b)
            & (base_d[i] == *base_d) & (threshold[i] == *threshold));
    const int each = alike ? 0 : 1;   // numbers of all rows are those of the first, in the nearest cache
% else:
    for (int i = 0; i < n; i++) b[i] = constant_b[i] - constant_g[i] * v[i];
    for (int i = num_constant; i < n; i++) d[i] = base_d[i];
% endif
    for (int step = first_step;; step++) {
        const bool begun = step > first_step, closes = step == first_step + steps;
        const real t_mid = ((real)step + (real)0.5) * dt;
        const long due = (long)(step % slots) * num_targets;

% if spec.rows:
        if (closes) break;
% if any(kind.takes_events for kind in spec.kinds):

        // events
% if spec.alone:
        __global int *list = touched + stride * (step % slots);
        const int listed = step < first_step + slots ? most : *list;
        *list = 0;
        for (int e = 1; e <= listed && listed < most; e++) {
            __global long *sum = incoming + due + list[e];
            const real weight = (real)*sum * scale_of_events;
            if (*sum == 0) continue;
            *sum = 0;
% for k, kind in enumerate(spec.kinds):
% if kind.takes_events:
            if (list[e] >= target_${k} && list[e] < target_${k} + count_${k}) {
                const int j = list[e] - target_${k};
                const uint at = ${"j" if spec.rows[k] else f"position_{k}[j]"}, q = at / ${kind.width};
                event_${k}(weight, at % ${kind.width}, parameters_${k},
                    (__global const real *)(${numbers_of(k, kind)[0]}),
                    (__global real *)(held_${k} + ${kind.num_states} * (long)q));
            }
% endif
% endfor
        }
% endif
% for k, kind in enumerate(spec.kinds):
% if kind.takes_events:
        for (int q = table[${9 + 2 * k}]; q < table[${10 + 2 * k}]; q++) {
% if spec.alone:
            if (listed < most) break;
% endif
            __global real${kind.width} *held = held_${k} + ${kind.num_states} * (long)q;
${events(k, kind)}\
        }
% endif
% endfor
% endif

        // row by row: currents, the change of v, and states after the step
% for k, one in enumerate(spec.rows):
% if not one:
        int next_${k} = table[${9 + 2 * k}];
% endif
% endfor
        for (int i = 0; i < n; i++) {
            const lanes before = v[i];
            lanes left = base_d[i * each], rest = constant_b[i * each] - constant_g[i * each] * before;
% for k, kind in enumerate(spec.kinds):
% if not spec.rows[k]:
            int end_${k} = next_${k};
            while (end_${k} < table[${10 + 2 * k}]
                && ${"place" if kind.width == 1 else "run"}_${k}[end_${k}] < ${w} * (i + 1)) end_${k}++;
% endif
<%call expr="groups(k, kind, f'end_{k}')">\
            const real${kind.width} now = ${"((__global const real *)v)[*place]" if kind.width == 1 else "before"};
${acted(k, kind)}\
% if kind.width == 1:
            ((real *)&left)[*place - ${w} * i] += diagonal;
            ((real *)&rest)[*place - ${w} * i] += right;
% elif spec.rows[k]:
            left += diagonal;
            rest += right;
% else:
            const ${mask} own = convert_${mask}(*(__global const loose_int${w} *)member) >= 0;
            left += own ? diagonal : (lanes)0;
            rest += own ? right : (lanes)0;
% endif
</%call>\
% endfor
            const lanes next = before + ${"2 * " if spec.secondorder else ""}(rest / left);
            v[i] = next;
            if (!EVERY((next <= threshold[i * each]) & (fabs(next) < (real)1e6))) {
% if spec.prefetch:
                const int known = *spike_count;
% endif
                spikes(before, next, cell + ${w} * i, step, threshold[i * each],
                    failed, capacity, spike_source, spike_step, spike_count);
% if spec.prefetch:
                for (int k = known; k < *spike_count && k < capacity; k++)   // for their delivery
                    for (int c = first_of[spike_source[k]]; c < first_of[spike_source[k] + 1]; c += 8) {
                        __builtin_prefetch((const void *)(size_t)(weight_of + c));
                        __builtin_prefetch((const void *)(size_t)(offset + c));
                    }
% endif
            }
% for k, kind in enumerate(spec.kinds):
% if kind.num_states:
<%call expr="groups(k, kind, f'end_{k}')">\
${advanced(k, kind, "((__global const real *)v)[*place]" if kind.width == 1 else "next", "step")}\
</%call>\
% endif
% if not spec.rows[k]:
            next_${k} = end_${k};
% endif
% endfor
        }

% else:
        // instances: states after the last step, events, currents
% for k, kind in enumerate(spec.kinds):
<% W, real = kind.width, f"real{kind.width}" %>\
        for (int q = table[${9 + 2 * k}]; q < table[${10 + 2 * k}]; q++) {
            __global ${real} *held = held_${k} + ${kind.num_states} * (long)q;
            __global const int *place = place_${k} + ${W} * (long)q;
${voltages(k, W, "now")}
% if kind.num_states:
            if (begun) {
${indent(capture(advanced, k, kind, "now", "(step - 1)"), "    ")}\
            }
% endif
            if (closes) continue;
% if kind.takes_events:
${events(k, kind)}\
% endif
${acted(k, kind)}\
% if W == 1:
            ((__global real *)d)[*place] += diagonal;
            ((__global real *)b)[*place] += right;
% else:
            if (run_${k}[q] >= 0) {
                *(__global loose_${real} *)((__global real *)d + run_${k}[q]) += diagonal;
                *(__global loose_${real} *)((__global real *)b + run_${k}[q]) += right;
            } else {
                scatter_${W}((__global real *)d, place, member, diagonal);
                scatter_${W}((__global real *)b, place, member, right);
            }
% endif
        }
% endfor
        if (closes) break;

        // elimination, of the change of v: with the currents between neighbours at the step's begin; the
        // constant part moves right-hand sides only
        for (int i = 0; i < num_constant; i++) {
            const int p = parent[i];
            const lanes flow = u[i] * (v[i] - v[p]), right = b[i] + flow;
            b[i] = right;
            b[p] -= flow + u[i] * inverse[i] * right;
        }
        for (int i = num_constant; i < first_root; i++) {
            const int p = parent[i];
            const lanes inv = 1 / d[i], factor = u[i] * inv;
            const lanes flow = u[i] * (v[i] - v[p]), right = b[i] + flow;
            f[i] = factor;
            b[i] = right * inv;
            d[p] -= factor * u[i];
            b[p] -= flow + factor * right;
        }

        // substitution, and what the next step begins with; spikes
        for (int i = first_root; i < n; i++) {
            const lanes before = v[i];
${after("b[i] / d[i]")}\
% if flat:
            const lanes next = before + ${"2 * " if spec.secondorder else ""}solved;
% else:
            d[i] = base_d[i];
% endif
% if w > 1:
            if (!EVERY(((before > threshold[i - first_root]) | (next <= threshold[i - first_root]))
                & (fabs(next) < (real)1e6)))
% endif
            spikes(before, next, cell + ${w} * (i - first_root), step, threshold[i - first_root],
                failed, capacity, spike_source, spike_step, spike_count);
        }
        for (int i = first_root - 1; i >= num_constant; i--) {
${after(f"b[i] - f[i] * x[parent[i] & {spec.window - 1}]")}\
% if not flat:
            d[i] = base_d[i];
% endif
        }
        for (int i = num_constant - 1; i >= 0; i--) {
${after(f"inverse[i] * (b[i] - u[i] * x[parent[i] & {spec.window - 1}])")}\
        }
% if flat:
        end_step(n, (__global const real *)constant_g, (__global const real *)constant_b,
            (__global const real *)x, (__global real *)v, (__global real *)b);
        for (int i = num_constant; i < n; i++) d[i] = base_d[i];
% endif

% endif
        // recording
        for (int k = table[5]; k < table[6]; k++) {
% if spec.detects:
            if (record_column[k] < 0) {  // a detector
                const int d = ~record_column[k];
${part("simulator/common/detect", 16, v="((__global const real *)v)[record_slot[k]]", number="d")}\
                continue;
            }
% endif
            const long at = (long)(row + step - first_step) * width + record_column[k];
            record_v[at] = ((__global const real *)v)[record_slot[k]];
        }
% if spec.alone:

        // delivery of what has spiked in this step; there is no other work-item
        const int found = *spike_count < capacity ? *spike_count : capacity;
        for (; delivered < found; delivered++) {
            const int from = spike_source[delivered], end = first_of[from + 1];
            for (int c = first_of[from]; c < end;) {   // run by run of one delay
                const uint delay = offset[c] / num_targets, base = delay * num_targets;
                const int slot = (step + 1 + delay) % slots;
                __global long *sums = incoming + (long)slot * num_targets;
% if spec.rows:
                __global int *list = touched + stride * slot;
                int count = *list;
% endif
                for (uint at; c < end && (at = offset[c] - base) < (uint)num_targets; c++) {
% if spec.rows:
                    list[1 + count] = at;
                    count += sums[at] == 0 && count < most;
% endif
                    sums[at] += weight_of[c];
                }
% if spec.rows:
                *list = count;
% endif
            }
        }
% endif
    }
% for k, kind in enumerate(spec.kinds):
<% W, n = kind.width, kind.num_states %>\
% if n:
    for (int q = table[${9 + 2 * k}]; q < table[${10 + 2 * k}]; q++)
        for (int lane = 0; lane < ${W}; lane++) {
            const int j = member_${k}[${W} * (long)q + lane];
            if (j < 0) continue;
            __global const real *held = (__global const real *)(held_${k} + ${n} * (long)q) + lane;
            for (int s = 0; s < ${n}; s++) states_${k}[(long)s * count_${k} + j] = held[s * ${W}];
        }
% endif
% endfor
}
