<%page args="spec"/>\
static real reciprocal(real pivot)
{
% if spec.ptx and spec.real == "double":
    real y;   // good to 20 bits and more; one step of third order
    __asm__("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(pivot));
    const real e = fma(-pivot, y, (real)1);
    return fma(y, fma(e, e, e), y);
% else:
    return (real)1 / pivot;
% endif
}
