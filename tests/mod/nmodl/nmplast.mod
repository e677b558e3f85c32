TITLE all connections change with each event
NEURON {
    POINT_PROCESS nmplast
    RANGE tau, i, post
    NONSPECIFIC_CURRENT i
}
PARAMETER { tau = 4 }
ASSIGNED { v i post }
STATE { g }
INITIAL { g = 0 post = 0 }
BREAKPOINT { SOLVE states METHOD cnexp i = g*v }
DERIVATIVE states { g' = -g/tau }
NET_RECEIVE(w, A, tpre) {
    INITIAL { A = 0 tpre = -1e9 }
    IF (w >= 0) {
        g = g + w*(1 + A)
        tpre = t
    } ELSE {
        post = post + 1
        FOR_NETCONS(w1, A1, tp) {
            IF (w1 >= 0) { A1 = A1 + 0.1*exp((tp - t)/10) }
        }
    }
}
