<%page args="spec"/>\
<%
    double = spec.real == "double"
    quick = spec.ptx and double
    names = list(spec.coefficients)
    powers = sorted((int(n[4:]) for n in names if n.startswith("exp_")), reverse=True)
    even = sorted((int(n[10:]) for n in names if n.startswith("bernoulli_")), reverse=True)
    end = "" if double else "f"
    magic = f"{1.5 * 2.0 ** (52 if double else 23)}{end}"   # added to a small number leaves it whole, in the last bits
    least = f"{2.0 ** (-900 if double else -100)!r}{end}"
    lowest, highest = (f"-{708 if double else 87}.0{end}", f"{710 if double else 89}.0{end}")
    over = (lambda a, b: f"{a} * node_inverse_({b})") if quick else (lambda a, b: f"{a} / ({b})")
%>\
// numbers of the series below, arguments of the kernel
typedef struct { real ${", ".join(names)}; } node_series_;

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
// exp(r) - 1 of x = k*log(2) + r, and 2^k; k is that of ${lowest} to ${highest}, where 2^k is infinite
static real node_reduced_(const node_series_ c_, const real x, real *scale)
{
    const real within = x < ${lowest} ? ${lowest} : x > ${highest} ? ${highest} : x;
    const real shifted = fma(within, c_.log_inverse, ${magic}), k = shifted - ${magic};
    const real r = fma(-k, c_.log_low, fma(-k, c_.log_high, within));
    real sum = c_.exp_${powers[0]};
% for k in powers[1:]:
    sum = fma(sum, r, c_.exp_${k});
% endfor
    sum = fma(fma(sum, r, 0.5${end}), r, 1.0${end});
% if double:
    *scale = as_double((int2)(0, (as_int2(shifted).x + 1023) << 20));
% else:
    *scale = as_float((as_int(shifted) - as_int(${magic}) + 127) << 23);
% endif
    return r * sum;
}

static real node_exp_(const node_series_ c_, const real x)
{
% if double:
    real scale;
    const real part = node_reduced_(c_, x, &scale);
    return fma(part, scale, scale);
% else:
    return exp(x);
% endif
}

// (exp(b*dt) - 1) / b, the integral of exp(b*s) over a step
static real node_weight_(const node_series_ c_, const real b, const real dt)
{
    real scale;
    const real z = b * dt, part = node_reduced_(c_, z, &scale);
    const bool is_zero = fabs(z) < ${least};
    const real grown = fma(part, scale, scale - 1.0${end}), below = is_zero ? 1.0${end} : b;
    return ${over("grown", "below")} + (is_zero ? dt : 0.0${end});
}

// x / (exp(x) - 1), e = exp(x); its series near x = 0
static real node_bernoulli_(const node_series_ c_, const real x, const real e)
{
    const real y = x * x;
    real sum = c_.bernoulli_${even[0]};
% for k in even[1:]:
    sum = fma(sum, y, c_.bernoulli_${k});
% endfor
    real far = ${over("x", f"e - 1.0{end}")};
% if quick:
    __asm__ volatile("" : "+d"(far));   // both are computed: a branch would keep gates apart
% endif
    return fabs(x) < ${spec.near}${end} ? fma(sum, y, fma(x, -0.5${end}, 1.0${end})) : far;
}

// derivative of x / (exp(x) - 1), e = exp(x)
static real node_bernoulli_slope_(const node_series_ c_, const real x, const real e)
{
    const real y = x * x;
    real sum = ${2 * even[0] + 2} * c_.bernoulli_${even[0]};
% for k in even[1:]:
    sum = fma(sum, y, ${2 * k + 2} * c_.bernoulli_${k});
% endfor
    const real far = ${over(f"(1.0{end} - x - {over('x', f'e - 1.0{end}')})", f"e - 1.0{end}")};
    return fabs(x) < ${spec.near}${end} ? fma(sum, x, -0.5${end}) : far;
}

