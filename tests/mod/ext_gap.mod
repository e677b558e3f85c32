: half of a gap junction
NEURON {
    POINT_PROCESS ext_gap
    NONSPECIFIC_CURRENT i
    RANGE g
    POINTER vgap
}
PARAMETER { g = 1e-3 (uS) }
ASSIGNED { v (mV) vgap (mV) i (nA) }
BREAKPOINT { i = g*(v - vgap) }
