<%page args="spec"/>\
## Part of blocks.mako: functions that solve for the change in v in a block's tiles, and set v. A tile is a
## vector per node: the nodes of several cells with one shape. d, b, u: diagonal, right-hand side and what ties a node to
## its parent; x: change in v; base: the part of d that no step changes, or the inverse pivot of nodes whose pivots are
## constant; constant_b - constant_g * v: their current.
<%
    new = "v[i] + 2 * moved" if spec.secondorder else "v[i] + moved"
%>\
<%def name="right(i, v)">\
${f"constant_b[{i}] - constant_g[{i}] * {v}" if spec.constant else "0"}\
</%def>\
<%def name="moved()">\
        const ${"real" if spec.width == 1 else f"real{spec.width}"} next = ${new};
        x[i] = moved;
        v[i] = next;
        b[i] = ${right("i", "next")};\
</%def>\
// Set v at the step's end, and b and d for the next step, for a range of nodes; pivots before
// ${"`first_d`"} are constant.
static void move(
    int i, const int first_d, const int end, __global const real *base,
% if spec.constant:
    __global const real *constant_g, __global const real *constant_b,
% endif
    __global real *v, __global real *d, __global real *b, __global const real *x)
{
<% many, one = (lambda a: f"LOOSE_{spec.width}({a} + i)"), (lambda a: f"{a}[i]") %>\
    for (int k = first_d; k < end; k++) d[k] = base[k];
% for at, until, step, type in ((many, f"end - {spec.width - 1}", f"i += {spec.width}", f"real{spec.width}"), (one, "end", "i++", "real")):
    for (; i < ${until}; ${step}) {
        const ${type} next = ${at("v")} + ${"2 * " if spec.secondorder else ""}${at("x")};
        ${at("v")} = next;
        ${at("b")} = ${f"{at('constant_b')} - {at('constant_g')} * next" if spec.constant else "0"};
    }
% endfor
}
% for w in spec.tile_widths:
<% lanes = "real" if w == 1 else f"real{w}" %>\

// Solve for the change in v in a tile with ${w} lane(s), and set v at the step's end. The current
// between a node and its parent is added when the node is eliminated. The first nodes have constant
// pivots: ${"`base`"} has the inverse pivot and ${"`d`"} the factor. Return whether all roots are below 1e6 mV.
static __attribute__((noinline)) int solve_${w}(
    const int place, const int n, const int num_constant, const int roots,
    __global const int *restrict parent,
    __global const real *restrict u_, __global const real *restrict base_,
% if spec.constant:
    __global const real *restrict constant_g_, __global const real *restrict constant_b_,
% endif
    __global real *v_, __global real *d_, __global real *b_, __global real *x_)
{
    typedef ${"real" if w == 1 else f"loose_real{w}"} lanes;
    __global const lanes *restrict u = (__global const lanes *)(u_ + place);
    __global const lanes *restrict base = (__global const lanes *)(base_ + place);
% if spec.constant:
    __global const lanes *restrict constant_g = (__global const lanes *)(constant_g_ + place);
    __global const lanes *restrict constant_b = (__global const lanes *)(constant_b_ + place);
% endif
    __global lanes *v = (__global lanes *)(v_ + place), *d = (__global lanes *)(d_ + place);
    __global lanes *b = (__global lanes *)(b_ + place), *x = (__global lanes *)(x_ + place);
    // phase 4: solve
    for (int i = 0; i < num_constant; i++) {
        const int p = parent[i];
        const ${lanes} flow = u[i] * (v[i] - v[p]), right = b[i] + flow;  // u is minus the conductance
        b[i] = right * base[i];
        b[p] -= flow + d[i] * right;
    }
    for (int i = num_constant; i < n - roots; i++) {
        const int p = parent[i];
        const ${lanes} inverse = 1 / d[i], factor = u[i] * inverse;
        const ${lanes} flow = u[i] * (v[i] - v[p]), right = b[i] + flow;
        d[i] = factor;
        b[i] = right * inverse;
        d[p] -= factor * u[i];
        b[p] -= flow + factor * right;
    }
    // phase 5: voltages
% if w == spec.width:
    for (int i = n - roots; i < n; i++) {
        const ${lanes} moved = b[i] / d[i];
${moved()}
        d[i] = base[i];
    }
    for (int i = n - roots - 1; i >= num_constant; i--) {
        const ${lanes} moved = b[i] - d[i] * x[parent[i]];
${moved()}
        d[i] = base[i];
    }
    for (int i = num_constant - 1; i >= 0; i--) {
        const ${lanes} moved = b[i] - d[i] * x[parent[i]];
${moved()}
    }
% else:
    for (int i = n - roots; i < n; i++) x[i] = b[i] / d[i];
    for (int i = n - roots - 1; i >= 0; i--) x[i] = b[i] - d[i] * x[parent[i]];
    move(place, place + ${w} * num_constant, place + ${w} * n, base_, ${"constant_g_, constant_b_, " if spec.constant else ""}v_, d_, b_, x_);
% endif
    int tame = 1;
    for (int i = n - roots; i < n; i++) tame &= ${"" if w == 1 else "EVERY"}(fabs(v[i]) < (real)1e6);
    return tame;
}
% endfor

