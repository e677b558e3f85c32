TITLE derivimplicit of coupled states, linear and not
NEURON {
    SUFFIX nmimplicit
    RANGE i, k
    NONSPECIFIC_CURRENT i
}
PARAMETER { k = 0.3 }
ASSIGNED { v i }
STATE { a b c }
INITIAL { a = 0.1 b = 0.2 c = 0.6 }
BREAKPOINT {
    SOLVE states METHOD derivimplicit
    i = 1e-4*(a + b + c)*(v + 60)
}
DERIVATIVE states {
    a' = k*(1 - a - c) - 2*a*b
    b' = a*a - b*c - (v + 60)/500*b
    c' = b*b*b - c + k*t/50
}
