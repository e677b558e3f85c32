: a synapse that stays open for a time after each event; state per connection
NEURON {
    POINT_PROCESS ext_nmda
    NONSPECIFIC_CURRENT i
    RANGE tau, dur, e, g, open
}
PARAMETER { tau = 20 (ms) dur = 2 (ms) e = 0 (mV) }
ASSIGNED { v (mV) i (nA) open }
STATE { g (uS) }
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = g*(v - e)
}
INITIAL { g = 0 open = 0 }
DERIVATIVE states { g' = open - g/tau }
NET_RECEIVE(weight, gain, on, last (ms)) {
    INITIAL { on = 0 last = -1e3 }
    if (flag == 0) {
        if (on == 0) {
            on = 1
            open = open + weight*gain*(1 - exp(-(t - last)/50))
        }
        net_send(dur, 1)
        last = t
    }
    if (flag == 1 && on == 1) {
        on = 0
        open = open - open/2
        g = g + 1e-4*weight
    }
}
