TITLE a linear KINETIC scheme with CONSERVE and STEADYSTATE
NEURON {
    SUFFIX nmkin
    RANGE gbar, i, flux, before
    NONSPECIFIC_CURRENT i
}
PARAMETER { gbar = 3e-4 }
ASSIGNED { v i alpha beta flux before }
STATE { c1 c2 o b }
INITIAL {
    SOLVE scheme STEADYSTATE sparse
}
BREAKPOINT {
    SOLVE scheme METHOD sparse
    i = gbar*o*(v + 80)
}
KINETIC scheme {
    before = alpha
    rates(v)
    ~ c1 <-> c2 (2*alpha, beta)
    ~ c2 <-> o (alpha, 2*beta)
    flux = f_flux - b_flux
    ~ o <-> b (0.2, 0.1*beta)
    CONSERVE c1 + c2 + o + b = 1
}
PROCEDURE rates(u) {
    alpha = exp((u + 40)/20)
    beta = exp(-(u + 40)/25)
}
