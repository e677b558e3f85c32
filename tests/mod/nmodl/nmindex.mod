: elements of ASSIGNED arrays and of LOCALs whose index is computed, as whole numbers are
NEURON { POINT_PROCESS nmindex  NONSPECIFIC_CURRENT i  RANGE ring, g, at, lag, sum, i }
PARAMETER { lag = 2  tau = 3 (ms) }
ASSIGNED { v (mV)  i (nA)  ring[6]  g[3]  at  sum  many[300] }
STATE { m }
INITIAL {
    FROM k = 0 TO 5 { ring[k] = 0.1*k }
    FROM k = 0 TO 2 { g[k] = 0.2*k }
    FROM k = 0 TO 299 { many[k] = 0.01*k }
    at = 0
    sum = 0
    m = 0
}
BREAKPOINT {
    LOCAL w[3]
    SOLVE s METHOD cnexp
    FROM k = 0 TO 2 { w[k] = 1 + k }
    w[at/2] = 5
    i = 0.0005*(m + g[(at + lag)/3])*w[at - at/3*3]*(v + 20)
}
DERIVATIVE s { m' = (0.3*ring[at] - m)/tau }
NET_RECEIVE (w) {
    at = at + 1
    if (at > 5) { at = 0 }
    ring[at] = w + 0.5*ring[at + lag - (at + lag)/6*6]
    many[50*at + 7] = w
    sum = many[50*at + lag]
    FROM k = 0 TO at { sum = sum + ring[k] }
    g[at - at/3*3] = g[at/2] + w
}
