: a channel whose rates are GLOBAL, so that each instance leaves its own there
NEURON {
    SUFFIX ext_globals
    NONSPECIFIC_CURRENT i
    RANGE gbar
    GLOBAL ninf, ntau
}
PARAMETER { gbar = 2e-4 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) ninf ntau (ms) }
STATE { n }
INITIAL {
    rates(v)
    n = ninf
}
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*n*(v + 80)
}
DERIVATIVE states {
    rates(v)
    n' = (ninf - n)/ntau
}
PROCEDURE rates(u (mV)) {
    ninf = 1/(1 + exp(-(u + 45)/8))
    ntau = 2 + 3*ninf
}
