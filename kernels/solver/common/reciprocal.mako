<%page args="spec"/>\
static real reciprocal(real pivot)
{
% if spec.ptx and spec.real == "double":
    real y;   // accurate to 20 bits; one step of third order gives the rest
    __asm__("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(pivot));
    const real e = fma(-pivot, y, (real)1);
    return fma(y, fma(e, e, e), y);
% else:
    return (real)1 / pivot;
% endif
}
