: graded synapse: its state, its events and its condition see the voltage at another place
NEURON {
    POINT_PROCESS ext_pre
    NONSPECIFIC_CURRENT i
    RANGE gmax, g, got, met
    POINTER vpre
}
PARAMETER { gmax = 0.01 (uS) tau = 4 (ms) }
STATE { s }
ASSIGNED { v (mV) vpre (mV) i (nA) g (uS) got (mV) met }
INITIAL { s = 0 got = 0 met = 0 net_send(0, 1) }
BREAKPOINT {
    SOLVE states METHOD cnexp
    g = gmax*s
    i = g*v
}
DERIVATIVE states { s' = 0.3*(1 - s)/(1 + exp(-(vpre + 20)/5)) - s/tau }
NET_RECEIVE(w) {
    if (flag == 1) {
        WATCH (vpre > -30) 2
    } else if (flag == 2) {
        met = met + 1
        s = s + 0.05
        net_event(t)
    } else {
        got = vpre
        s = s + w*(vpre + 100)/100
    }
}
