<%page args="spec"/>\
<%
    width, lanes = spec.width, spec.lanes
    suffix = str(width) if width > 1 else ""
    mask = ("long" if spec.real == "double" else "int") + suffix if suffix else "int"

    def load(array, masked, otherwise="0"):
        """Row i of vector v; `otherwise` in lanes whose chain has ended."""
        terms = []
        for k in range(width):
            lane = "v * WIDTH + %d" % k
            value = "%s[first[%s] + i]" % (array, lane)
            terms.append("i < rows[%s] ? %s : (real)%s" % (lane, value, otherwise) if masked else value)
        return "(wide)(%s)" % ", ".join(terms)
%>\
// Thomas algorithm, a chain per lane, on the caller's arrays in natural order.
// spec: ${spec}
//
// A block has ${lanes} chain${"s, one per lane" if lanes > 1 else ""}. The eliminated matrix is stored as it is used, row by row,
// lanes side by side:
//
//     inverse   1 / pivot              pivot[i] = d[i] - u[i + 1] low[i + 1]
//     up        u / pivot              backward sweep:  g[i] = b[i] - up[i + 1] g[i + 1]
//     low       l / pivot              forward sweep:   x[i] = g[i] inverse[i] - low[i] x[i - 1]
//
// So a row only waits for the previous row's multiplication and subtraction.
//
// Arguments, besides these three; arrays of values are in natural order:
${part("solver/common/arguments")}\
//   block_first   each block's first row in the eliminated matrix, and the end
//   lane_first    each lane's first row in d, u, l, b, x; a lane without a chain repeats its block's first
//   lane_rows     rows in each lane's chain;  lane_chain: its number, -1 without a chain
//   values        scratch for one block per work-item, of `room` rows
//   not_finite    out: 1 if a value in x is not finite
${part("solver/common/precision")}\
typedef ${spec.real}${suffix} wide;
typedef ${mask} mask;
${part("solver/common/bad_pivots", growth=True)}\
#define WIDTH ${width}   // lanes in a vector
#define VECTORS ${spec.vectors}   // vectors in a block: independent operations hide each other's latency
#define LANES ${lanes}
<%def name="block_begins()">\
        const int top = block_first[block], most = block_first[block + 1] - top;
        long first[LANES];
% if spec.ragged:
        int rows[LANES], least = most;
% endif
        for (int k = 0; k < LANES; ++k) {
            first[k] = lane_first[block * LANES + k];
% if spec.ragged:
            rows[k] = lane_rows[block * LANES + k];
            least = min(least, rows[k]);
% endif
        }
</%def>\
<%def name="eliminate_row(masked)">\
            for (int v = 0; v < VECTORS; ++v) {
                const long to = ((long)top + i) * VECTORS + v;
                const wide before = ${load("d", masked, "1")}, pivot = before - carry[v];
                const mask good = pivot > (real)SMALLEST && pivot < (real)LARGEST;
                grown[v] = fabs(carry[v]) > GROWTH * fabs(before) ? (mask)(i + 1) : grown[v];
                bad[v] = good || bad[v] != 0 ? bad[v] : (mask)(i + 1);
                wide coupling = 0, below = 0;   // at a root
                const wide one = 1 / pivot;
                if (i) {
                    coupling = ${load("u", masked)};
                    below = ${"coupling" if spec.symmetric else load("l", masked)} * one;
                }
                carry[v] = coupling * below;
                inverse[to] = one;
                low[to] = below;
% if not spec.symmetric:
                up[to] = coupling * one;
% endif
            }
</%def>\
<%def name="backward_row(masked)">\
            for (int v = 0; v < VECTORS; ++v) {
                const long at = ((long)top + i) * VECTORS + v;
                const wide g = ${load("b", masked)} - carry[v];
                carry[v] = ${"low" if spec.symmetric else "up"}[at] * g;
                kept[i * VECTORS + v] = g * inverse[at];
            }
</%def>\
<%def name="forward_row(masked)">\
            for (int v = 0; v < VECTORS; ++v) {
                before[v] = kept[i * VECTORS + v] - low[((long)top + i) * VECTORS + v] * before[v];
                found[v] += before[v] * 0;   // NaN if a value is not finite
% for k in range(width):
                ${"if (i < rows[v * WIDTH + %d]) " % k if masked else ""}x[first[v * WIDTH + ${k}] + i] = before[v]${".s%x" % k if suffix else ""};
% endfor
            }
</%def>\

// Each work-item eliminates several blocks.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void eliminate(${signature(spec, "eliminate")})
{
    const long item = get_global_id(0), items = get_global_size(0);
    const int end = (int)(num_blocks * (item + 1) / items);
    for (int block = (int)(num_blocks * item / items); block < end; ++block) {
${block_begins()}\
        wide carry[VECTORS];   // contribution from the row below
        mask bad[VECTORS], grown[VECTORS];   // 1 + row with a bad pivot, or with lost digits
        for (int v = 0; v < VECTORS; ++v) {
            carry[v] = 0;
            bad[v] = grown[v] = 0;
        }
        int i = most - 1;
% if spec.ragged:
        for (; i >= least; --i) {
${eliminate_row(True)}\
        }
% endif
        for (; i >= 0; --i) {
${eliminate_row(False)}\
        }
        for (int v = 0; v < VECTORS; ++v) {
            const mask state = bad[v] != 0 ? bad[v] | BAD : grown[v];
% for k in range(width):
            status[lane_chain[block * LANES + v * WIDTH + ${k}]] = (int)state${".s%x" % k if suffix else ""};
% endfor
        }
    }
}

// A task is a block with a right-hand side. Each work-item has several${", and scratch for a block in `values`" if lanes > 1 else ""}.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void substitute(${signature(spec, "substitute")})
{
    const long item = get_global_id(0), items = get_global_size(0), tasks = (long)num_blocks * num_rhs;
% if lanes > 1:
    __global wide *const kept = values + item * room * VECTORS;
% endif
    for (long task = tasks * item / items; task < tasks * (item + 1) / items; ++task) {
        const long row = task / num_blocks;
        const int block = (int)(task - row * num_blocks);
        __global const real *const b = all_b + row * size;
        __global real *const x = all_x + row * size;
${block_begins()}\
% if lanes == 1:
        __global real *const kept = x + first[0];
% endif
        wide carry[VECTORS], before[VECTORS], found[VECTORS];
        for (int v = 0; v < VECTORS; ++v) carry[v] = before[v] = found[v] = 0;
        int i = most - 1;
% if spec.ragged:
        for (; i >= least; --i) {
${backward_row(True)}\
        }
% endif
        for (; i >= 0; --i) {
${backward_row(False)}\
        }
        for (i = 0; i < ${"least" if spec.ragged else "most"}; ++i) {
${forward_row(False)}\
        }
% if spec.ragged:
        for (; i < most; ++i) {
${forward_row(True)}\
        }
% endif
        for (int v = 0; v < VECTORS; ++v)
            if (${"any(found[v] != 0)" if suffix else "found[v] != 0"}) atomic_or(not_finite, 1);   // rare
    }
}
