: half a gap junction whose other side ParallelContext.target_var sets
NEURON {
    POINT_PROCESS imp_gap
    RANGE g, vother, i
    NONSPECIFIC_CURRENT i
}
PARAMETER {
    g = 0.001 (uS)
    vother (mV)
}
ASSIGNED {
    v (mV)
    i (nA)
}
BREAKPOINT {
    i = g*(v - vother)
}
