<%page args="spec"/>\
## Part of epoch_functions.mako and gradients.mako: exponentials, quotients and series that rate functions call.
<%
    double, quick, numbers = spec.real == "double", spec.ptx, spec.series_numbers
    c, end = numbers.coefficients, numbers.suffix
    powers = sorted((int(n[4:]) for n in c if n.startswith("exp_")), reverse=True)
    even = sorted((int(n[10:]) for n in c if n.startswith("bernoulli_")), reverse=True)
    magic = f"{1.5 * 2.0 ** (52 if double else 23)}{end}"   # added to a small number leaves it whole, in the last bits
    most = 708 if double else 87
    over = (lambda a, b: f"{a} * node_inverse_({b})") if quick else (lambda a, b: f"{a} / ({b})")
%>\
// coefficients for the series below
typedef struct { real ${", ".join(numbers.arguments)}; } node_series_;

% if quick and double:
// 1 / x to rounding, without a slow path: 0 if x is infinite, NaN if the result is
static real node_inverse_(const real x)
{
    real y;   // accurate to 20 bits; one step of third order makes it accurate
    __asm__("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    // y is 0 for x from 2^1023 on: use a finite x, as 0 * infinity is NaN. As integers, the first minimum
    // limits positive numbers, the second negative ones.
    const int2 word = as_int2(x);
    const int high = as_int(min(as_uint(min(word.y, 0x7fe00000)), 0xffe00000u));
    const real e = fma(-as_double((int2)(word.x, high)), y, (real)1);
    return fma(y, fma(e, e, e), y);
}

% elif quick:
// 1 / x to one unit in the last place, without a slow path: subnormal results are 0
static real node_inverse_(const real x)
{
    real y;
    __asm__("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

% endif
// x, limited to ${most} in magnitude
static real node_within_(const real x)
{
% if double:
    const int2 word = as_int2(x);   // as integers, the first minimum limits positive numbers, the second negative ones
    const int most = as_int2(${most}.0).y, high = min(word.y, most);
    return as_double((int2)(word.x, as_int(min(as_uint(high), as_uint(most) | 0x80000000u))));
% else:
    return fmin(fmax(x, -${most}.0f), ${most}.0f);
% endif
}

// exp(r) - 1 for x = k*log(2) + r, and 2^k
static real node_reduced_(const node_series_ series__, const real x, real *scale)
{
    const real shifted = fma(x, ${c["log_inverse"]}, ${magic}), k = shifted - ${magic};
    const real r = fma(-k, ${c["log_low"]}, fma(-k, ${c["log_high"]}, x));
    real sum = ${c[f"exp_{powers[0]}"]};
% for k in powers[1:]:
    sum = fma(sum, r, ${c[f"exp_{k}"]});
% endfor
% if double:
    *scale = as_double((int2)(0, (as_int2(shifted).x + 1023) << 20));
% else:
    *scale = as_float((as_int(shifted) - as_int(${magic}) + 127) << 23);
% endif
    return r * sum;
}

// exp(x), with x limited to ${most} in magnitude
static real node_exp_(const node_series_ series__, const real x)
{
% if quick and not double:
    const real within = node_within_(x), high = within * 1.44269502f;
    const real low = fma(within, 1.92596299e-8f, fma(within, 1.44269502f, -high));
    real y;   // 2^(high + low)
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(high));
    return fma(y, low * 0.693147182f, y);
% else:
    real scale;
    const real part = node_reduced_(series__, node_within_(x), &scale);
    return fma(part, scale, scale);
% endif
}

// (exp(b*dt) - 1) / b, the integral of exp(b*s) over a step
static real node_weight_(const node_series_ series__, const real rate, const real dt)
{
    const real b = rate - ${c["nearly_zero"]};   // not 0
    real scale;
    const real part = node_reduced_(series__, node_within_(b * dt), &scale);
    const real grown = fma(part, scale, scale - 1.0${end});
    return ${over("grown", "b")};
}

// exp(x) - 1
static real node_grown_(const node_series_ series__, const real x)
{
    real scale;
    const real part = node_reduced_(series__, node_within_(x), &scale);
    return fma(part, scale, scale - 1.0${end});
}

% for number in spec.terms:
// exp(x) - 1 for x so little below 0 that ${number} series terms suffice
static real node_grown_${number}_(const node_series_ series__, const real x)
{
    real sum = ${c[f"exp_{number - 1}"]};
% for k in reversed(range(number - 1)):
    sum = fma(sum, x, ${c[f"exp_{k}"]});
% endfor
    return x * sum;
}

% endfor
// x / (exp(x) - 1), e = exp(x); its series near x = 0
static real node_bernoulli_(const node_series_ series__, const real x, const real e)
{
% if spec.branches:
    if (fabs(x) >= ${numbers.near}${end}) return ${over("x", f"e - 1.0{end}")};
% endif
    const real y = x * x;
    real sum = ${c[f"bernoulli_{even[0]}"]};
% for k in even[1:]:
    sum = fma(sum, y, ${c[f"bernoulli_{k}"]});
% endfor
% if spec.branches:
    return fma(sum, y, fma(x, -0.5${end}, 1.0${end}));
% else:
    real far = ${over("x", f"e - 1.0{end}")};
% if quick and double:
    __asm__ volatile("" : "+d"(far));   // compute both: a branch would keep the compiler from interleaving gates
% endif
    return fabs(x) < ${numbers.near}${end} ? fma(sum, y, fma(x, -0.5${end}, 1.0${end})) : far;
% endif
}

// derivative of x / (exp(x) - 1), e = exp(x)
static real node_bernoulli_slope_(const node_series_ series__, const real x, const real e)
{
<%
    far_slope = over(f"(1.0{end} - x - {over('x', f'e - 1.0{end}')})", f"e - 1.0{end}")
    if quick: far_slope = f"(1.0{end} - x - x * inverse) * inverse"
%>\
% if spec.branches:
    if (fabs(x) >= ${numbers.near}${end}) {
% if quick:
        const real inverse = node_inverse_(e - 1.0${end});
% endif
        return ${far_slope};
    }
% elif quick:
    const real inverse = node_inverse_(e - 1.0${end});
% endif
    const real y = x * x;
    real sum = ${2 * even[0] + 2} * ${c[f"bernoulli_{even[0]}"]};
% for k in even[1:]:
    sum = fma(sum, y, ${2 * k + 2} * ${c[f"bernoulli_{k}"]});
% endfor
% if spec.branches:
    return fma(sum, x, -0.5${end});
% else:
    const real far = ${far_slope};
    return fabs(x) < ${numbers.near}${end} ? fma(sum, x, -0.5${end}) : far;
% endif
}

