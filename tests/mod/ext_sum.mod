: a synapse that writes an ion's current, moves its own event, and looks at all its connections
NEURON {
    POINT_PROCESS ext_sum
    USEION ca READ eca WRITE ica
    RANGE tau, g, sum, dose
}
PARAMETER { tau = 3 (ms) dose = 1e-4 (uS) }
ASSIGNED { v (mV) eca (mV) ica (nA) sum }
STATE { g (uS) }
INITIAL {
    g = 0
    sum = 0
    net_send(6, 1)
}
BREAKPOINT {
    SOLVE states METHOD cnexp
    ica = g*(v - eca)
}
DERIVATIVE states { g' = -g/tau }
NET_RECEIVE(w, seen, total) {
    INITIAL { seen = 0 total = 0 }
    if (flag == 0) {
        seen = seen + 1
        g = g + w*seen
        if (sum < 100) { net_move(t + 1.7) }
    } else {
        sum = sum + 1
        FOR_NETCONS(w2, seen2, total2) { total2 = total2 + w2*sum }
        g = g + dose
        net_send(6, 1)
    }
}
