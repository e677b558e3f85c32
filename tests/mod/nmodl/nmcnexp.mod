TITLE cnexp: each state where it stands, nocmodl's form of each
NEURON {
    SUFFIX nmcnexp
    RANGE i, k, minf
    NONSPECIFIC_CURRENT i
}
PARAMETER { k = 0.3 }
ASSIGNED { v i minf }
STATE { a b c d e }
INITIAL { a = 0.1 b = 0.2 c = 1 d = 0.5 e = 0.25 }
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = 1e-5*(a + b + c + d)*(v + 60)
}
DERIVATIVE states {
    LOCAL r
    minf = 1/(1 + exp(-(v + 40)/9))
    a' = (minf - a)/3
    r = k*a
    b' = r - b*k + a/2
    c' = -(c + a)/k*0.1
    d' = r*1e-2
    e' = k*e - 1.5*e*e
}
