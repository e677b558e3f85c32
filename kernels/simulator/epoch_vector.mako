<%page args="spec"/>\
<%
    from clhines.simulator.mechanisms.emit.exponentials import TESTS
    w, flat = spec.lanes, spec.flat
    lanes = "real" if w == 1 else f"{spec.real}{w}"
    columns = 9 + 2 * len(spec.kinds)
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
${part("simulator/common/points_step")}\
% else:
${part("simulator/common/cells_step")}\
% endif
        // phase 9: records
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
${part("simulator/common/deliver_spikes")}\
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
