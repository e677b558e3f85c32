<%page args="spec"/>\
<%
    double = spec.real == "double"
    quick = spec.ptx and double
    series, log2 = spec.series, spec.reduction
    end = "" if double else "f"
    magic = 1.5 * 2.0 ** (52 if double else 23)   # added to a small number leaves it whole, in the last bits
    tiny = 2.0 ** (-54 if double else -25)
    lowest, highest = (-700, 710) if double else (-80, 89)
    over = (lambda a, b: f"{a} * node_inverse_({b})") if quick else (lambda a, b: f"{a} / ({b})")
%>\
<%def name="horner(name, x)">\
    real sum = ${series[name][0]};
% for c in series[name][1:]:
    sum = fma(sum, ${x}, ${c});
% endfor
</%def>\
% if quick:
// 1 / x to rounding, without a slow path: subnormal results are 0
static real node_inverse_(const real x)
{
    real y;   // good to 20 bits and more; one step of third order, which 0 and infinity need not
    __asm__("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const real e = fma(-x, y, (real)1);
    const real better = fma(y, fma(e, e, e), y);
    return (as_uint2(y).y & 0x7fffffff) - 1u < 0x7fefffffu ? better : y;
}

% endif
// x / (exp(x) - 1), e = exp(x); its series near x = 0
static real node_bernoulli_(const real x, const real e)
{
    const real y = x * x;
${horner("bernoulli", "y")}\
    const real far = ${over("x", f"e - 1.0{end}")};
    return fabs(x) < ${spec.near}${end} ? fma(sum, y, fma(x, -0.5${end}, 1.0${end})) : far;
}

// derivative of x / (exp(x) - 1), e = exp(x)
static real node_bernoulli_slope_(const real x, const real e)
{
    const real y = x * x;
${horner("slope", "y")}\
    const real far = ${over(f"(1.0{end} - x - {over('x', f'e - 1.0{end}')})", f"e - 1.0{end}")};
    return fabs(x) < ${spec.near}${end} ? fma(sum, x, -0.5${end}) : far;
}

// (exp(b*dt) - 1) / b, the integral of exp(b*s) over a step
static real node_weight_(const real b, const real dt)
{
    const real z = b * dt;
    const real within = z < ${lowest}.0${end} ? ${lowest}.0${end} : z > ${highest}.0${end} ? ${highest}.0${end} : z;
    const real shifted = fma(within, ${log2["inverse"]}, ${magic}${end}), k = shifted - ${magic}${end};
    const real r = fma(k, -(${log2["low"]}), fma(k, -(${log2["high"]}), within));
${horner("exponential", "r")}\
    const real part = r * sum;   // exp(r) - 1
% if double:
    const real scale = as_double((int2)(0, (as_int2(shifted).x + 1023) << 20));
% else:
    const real scale = as_float((as_int(shifted) - as_int(${magic}${end}) + 127) << 23);
% endif
    const real grown = fma(part, scale, scale - 1.0${end});
    return fabs(z) < ${f"{tiny!r}"}${end} ? dt : ${over("grown", "b")};
}

