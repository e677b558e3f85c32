<%page args="spec"/>\
## Part of steps.mako, blocks.mako and the epoch_*.mako templates with steps.
// Return whether a soma's voltage diverges: 1 + the first step after which it is not finite, or -1 - the first
// step after which it is 1e6 mV or more, else 0. `known` is the earlier steps' result.
static int runaway(const real v, const int known, const int step)
{
    if (fabs(v) < (real)1e6 || known > 0) return known;
    return !isfinite(v) ? step + 1 : known ? known : -1 - step;
}

