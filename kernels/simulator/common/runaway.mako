<%page args="spec"/>\
// Whether a soma's voltage runs off: 1 + the first step after which it is not finite, or
// -1 - the first after which it is 1e6 mV or more, or 0; `known` is of the steps before.
static int runaway(const real v, const int known, const int step)
{
    if (fabs(v) < (real)1e6 || known > 0) return known;
    return !isfinite(v) ? step + 1 : known ? known : -1 - step;
}

