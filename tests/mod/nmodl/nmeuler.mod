TITLE euler
NEURON {
    SUFFIX nmeuler
    RANGE i
    NONSPECIFIC_CURRENT i
}
ASSIGNED { v i }
STATE { a b }
INITIAL { a = 1 b = 0 }
BREAKPOINT {
    SOLVE states METHOD euler
    i = 1e-4*a*(v + 60) - 1e-5*b
}
DERIVATIVE states {
    a' = -a*b + 0.3*sin(t)
    b' = a*(1 + v/200) - b
}
