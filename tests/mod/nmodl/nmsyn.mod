TITLE a synapse with weights of its own for each connection, and events to itself
NEURON {
    POINT_PROCESS nmsyn
    RANGE tau, e, i, g, onset, n, total
    NONSPECIFIC_CURRENT i
}
PARAMETER { tau = 3 e = 0 late = 1.3 U = 0.4 trec = 20 }
ASSIGNED { v i onset n total moved }
STATE { g s }
INITIAL {
    g = 0
    n = 0
    total = 0
    onset = -1
    moved = 0
    net_send(2.2, 1)
}
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = g*(v - e)
}
DERIVATIVE states {
    g' = -g/tau
    s' = (0.1 - s)/tau
}
NET_RECEIVE(w, R, last, k) {
    INITIAL {
        R = 1
        last = t
        k = 0
    }
    IF (flag == 0) {
        R = 1 - (1 - R*(1 - U))*exp(-(t - last)/trec)
        last = t
        k = k + 1
        IF (onset < 0 && moved == 0) {
            moved = 1
            net_move(t + 1.7)
        }
        g = g + w*R
        IF (w > 0.004) { net_send(late, k + 1) }
    } ELSE IF (flag == 1) {
        onset = t
    } ELSE {
        s = s + flag*0.01
        g = g + s*w + v*1e-7
        n = n + 1
        total = total + R
    }
}
