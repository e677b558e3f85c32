<%page args="spec"/>\
## Part of pivots.mako: 1 / pivot, faster on NVIDIA's devices in float64.
static real reciprocal(real pivot)
{
% if spec.ptx and spec.real == "double":
    real y;   // accurate to 20 bits; a third-order step makes it accurate
    __asm__("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(pivot));
    const real e = fma(-pivot, y, (real)1);
    return fma(y, fma(e, e, e), y);
% else:
    return (real)1 / pivot;
% endif
}
