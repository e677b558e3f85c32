: a scheme that secondorder advances by half a step and extrapolates; begun: INITIAL alone sets it
NEURON {
    SUFFIX ext_second
    NONSPECIFIC_CURRENT i
    RANGE g, begun
}
PARAMETER { g = 1e-4 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) begun alpha beta }
STATE { closed open }
INITIAL {
    begun = v/10
    closed = 0.9
    open = 0.1
}
BREAKPOINT {
    SOLVE scheme METHOD sparse
    i = g*open*(v + 70)
}
KINETIC scheme {
    alpha = exp((v + 40)/30)
    beta = exp(-(v + 40)/30)
    ~ closed <-> open (alpha, beta)
}
