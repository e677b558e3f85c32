TITLE runge
NEURON {
    SUFFIX nmrunge
    RANGE i, last
    NONSPECIFIC_CURRENT i
}
ASSIGNED { v i last }
STATE { a b }
INITIAL { a = 1 b = 0 last = 0 }
BREAKPOINT {
    SOLVE states METHOD runge
    i = 1e-4*a*(v + 60) - 1e-5*b
}
DERIVATIVE states {
    last = a*b + t
    a' = -a*b + 0.3*sin(t)
    b' = a*(1 + v/200) - b
}
