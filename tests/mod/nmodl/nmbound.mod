: a variable that derivimplicit's block bounds by another, of its own value
NEURON { SUFFIX nmbound  NONSPECIFIC_CURRENT i  RANGE g, tau, most }
PARAMETER { g = 1e-4 }
ASSIGNED { v i tau most }
STATE { a b }
INITIAL { tau = 30  bound(v)  a = 0.5  b = 0.1 }
BREAKPOINT { SOLVE s METHOD derivimplicit  i = g*a*(v + 60) }
DERIVATIVE s {
    bound(v)
    a' = (0.3 - a*b)/tau
    b' = (a - b)/4
}
PROCEDURE bound(u) {
    most = 2 + 20/(1 + exp((u + 60)/8))
    if (tau/most > 0.9) { tau = 0.9*most }
}
