TITLE a table that depends on what INITIAL sets for all instances
NEURON {
    SUFFIX nmscaled
    RANGE gbar, i, alpha
    GLOBAL q10, base, scale, fixed
    NONSPECIFIC_CURRENT i
}
PARAMETER { gbar = 3e-4 q10 = 2.5 base = 20 fixed = 0 celsius (degC) }
ASSIGNED { v i alpha beta scale }
STATE { m }
INITIAL {
    IF (fixed > 0) { scale = fixed } ELSE { scale = q10^((celsius - base)/10) }
    rates(v)
    m = alpha/(alpha + beta)
}
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*m*(v + 80)
}
DERIVATIVE states {
    rates(v)
    m' = alpha*(1 - m) - beta*m
}
PROCEDURE rates(u) {
    TABLE alpha, beta DEPEND celsius FROM -100 TO 60 WITH 90
    alpha = scale*0.3/(1 + exp(-(u + 30)/9))
    beta = scale*0.2/(1 + exp((u + 45)/7))
}
