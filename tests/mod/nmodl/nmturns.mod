: weights of the event itself, changed by its own branch or by FOR_NETCONS, and used after it
NEURON {
    POINT_PROCESS nmturns
    NONSPECIFIC_CURRENT i
    RANGE g, on, last
}
ASSIGNED { v (mV) i (nA) on last }
STATE { g (uS) }
INITIAL { g = 0 on = 0 last = 0 }
BREAKPOINT {
    SOLVE state METHOD cnexp
    i = g*v
}
DERIVATIVE state { g' = -g/3 }
NET_RECEIVE(w (uS), A, tpre (ms)) {
    INITIAL { A = 0.001 tpre = -1 }
    IF (flag == 0 && w > 0) {
        g = g + w + A
        tpre = t
        IF (on == 1) { A = A*0.8 }
        net_send(0.7, 5)
    } ELSE IF (flag == 0) {
        on = 1
        FOR_NETCONS(w1, A1, tp) { A1 = A1 + 0.0005*exp((tp - t)/5) }
    }
    IF (flag == 5) {
        FOR_NETCONS(w1, A1, tp) { A1 = 0.9*A1 }
        last = A
        g = g + A
    }
}
