TITLE NONLINEAR with what the block sets behind its use
NEURON {
    SUFFIX nmsettled
    RANGE i, push
    NONSPECIFIC_CURRENT i
}
ASSIGNED { v i push }
STATE { p }
INITIAL { p = 1 push = 0 }
BREAKPOINT {
    SOLVE one
    i = 1e-5*p*(v + 60)
}
NONLINEAR one {
    ~ p*p + 0.5*p = 2 + push
    push = v/100 - 0.2*p
}
