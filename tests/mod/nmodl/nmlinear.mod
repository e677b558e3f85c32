TITLE LINEAR and NONLINEAR, solved in each step
NEURON {
    SUFFIX nmlinear
    RANGE i, k
    NONSPECIFIC_CURRENT i
}
PARAMETER { k = 2 }
ASSIGNED { v i }
STATE { xx yy zz p q }
INITIAL { p = 1 q = 1 SOLVE three }
BREAKPOINT {
    SOLVE three
    SOLVE two
    i = 1e-6*(xx + yy - zz + p + q)*(v + 60)
}
LINEAR three {
    LOCAL s
    s = v/50
    ~ xx + yy + zz = k
    ~ 2*xx - yy = s
    ~ xx - s*yy + 3*zz = 1
}
NONLINEAR two {
    ~ p*p + q = 3 + v/100
    ~ p - q*q*q + exp(p/5) = k
}
