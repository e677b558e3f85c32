TITLE cnexp that NEURON solves by derivimplicit
NEURON {
    SUFFIX nmfall
    RANGE i, k, hold
    NONSPECIFIC_CURRENT i
}
PARAMETER { k = 0.3 }
ASSIGNED { v i hold }
STATE { a b }
INITIAL { a = 0.1 b = 0.2 }
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = 1e-4*(a + b)*(v + 60)
}
DERIVATIVE states {
    hold = a*b
    a' = k*(1 - a)/(1 + a) - b*half(a)
    b' = (1 + v/100)*a - b*exp(b/3)
}
FUNCTION half(x) { half = x*x/(0.5 + x*x) }
