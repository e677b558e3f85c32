TITLE derivimplicit of a linear system
NEURON {
    SUFFIX nmpumpd
    RANGE i
    NONSPECIFIC_CURRENT i
}
ASSIGNED { v i }
STATE { a b }
INITIAL { a = 1 b = 0 }
BREAKPOINT {
    SOLVE states METHOD derivimplicit
    i = 1e-5*a*(v + 60) - 1e-5*b
}
DERIVATIVE states {
    a' = -a*(2 + v/100) + b
    b' = a - 3*b + 0.1
}
