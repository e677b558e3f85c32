TITLE a connection changes with each of its events
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
        A = A + 0.1*exp((tpre - t)/10)
        tpre = t
    } ELSE {
        post = post + 1
    }
}
