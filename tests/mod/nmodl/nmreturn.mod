: VERBATIM that leaves a function early, as files do where a weight is 0 or a table is used
NEURON {
    POINT_PROCESS nmreturn
    NONSPECIFIC_CURRENT i
    RANGE g, ignored, taken, class, factor
}
ASSIGNED { v (mV) i (nA) ignored taken class factor }
STATE { g (uS) }
INITIAL {
    g = 0
    ignored = 0
    taken = 0
    class = 0
    classify(v)
    if (v > 0) {
VERBATIM
        return;
ENDVERBATIM
    }
    taken = 0.5
}
BREAKPOINT {
    SOLVE state METHOD cnexp
    i = g*v
}
DERIVATIVE state { g' = -g/3 }
PROCEDURE classify(x) {
    factor = 1
    if (x < -60) {
        class = 1
        if (x < -64) {
            class = 2
VERBATIM
            return 0;
ENDVERBATIM
        }
        factor = 2
    } else if (x < -40) {
        class = 3
VERBATIM
        return 0;
ENDVERBATIM
    }
    factor = factor + 0.25
    class = class + 10
VERBATIM
    return 0;
ENDVERBATIM
}
NET_RECEIVE(w (uS), seen) {
    INITIAL { seen = 3 }
    seen = seen + 1
    if (!(w > 0)) {
        ignored = ignored + 1
VERBATIM
        return;
ENDVERBATIM
    }
    classify(v)
    if (class > 9) {
        g = g + factor*w/2
    } else {
        if (seen > 5) {
VERBATIM
            /* enough */
            return;
ENDVERBATIM
        }
        g = g + factor*w
    }
    taken = taken + 1
}
