TITLE an electrode that sees v elsewhere, its area and the time
NEURON {
    POINT_PROCESS nmpoint
    RANGE amp, del, dur, i, seen
    POINTER other
    ELECTRODE_CURRENT i
}
PARAMETER { amp = 0.1 del = 1 dur = 5 }
ASSIGNED { i other area diam v seen }
BREAKPOINT {
    seen = other
    IF (t < del + dur && t >= del) {
        i = amp*(1 + sin(t)) + area*1e-7 - 1e-4*(v - other)*diam
    } ELSE {
        i = 0
    }
}
