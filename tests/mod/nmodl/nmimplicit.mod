TITLE derivimplicit of coupled states, linear and not
NEURON {
    SUFFIX nmimplicit
    RANGE i, k, before
    NONSPECIFIC_CURRENT i
}
PARAMETER { k = 0.3 }
ASSIGNED { v i before change }
STATE { a b c }
INITIAL { a = 0.1 b = 0.2 c = 0.6 }
BREAKPOINT {
    SOLVE states METHOD derivimplicit
    i = 1e-4*(a + b + c)*(v + 60)
}
DERIVATIVE states {
    before = change
    change = v/50
    a' = k*(1 - a - c) - 2*a*b
    b' = a*a - b*c - (v + 60)/500*b
    c' = b*b*b - c + k*t/50
}
