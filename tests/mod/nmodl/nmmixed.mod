: an ELECTRODE_CURRENT makes all currents go as an electrode's; values that events alone set
NEURON {
    POINT_PROCESS nmmixed
    NONSPECIFIC_CURRENT i
    ELECTRODE_CURRENT k
    RANGE i, g, last, seen
}
PARAMETER { g = 0.0004 (uS) }
ASSIGNED { v (mV) i (nA) k (nA) last seen }
INITIAL { last = 0 seen = 0 }
BREAKPOINT {
    i = g*(v + 60)
    k = 0.002 - 2*g*v*v/100
}
NET_RECEIVE(w) {
    last = v
    seen = w*t
}
