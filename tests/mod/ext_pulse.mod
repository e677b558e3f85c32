: a pulse after each event; how long and how high depends on its time and on the order of events
NEURON {
    POINT_PROCESS ext_pulse
    NONSPECIFIC_CURRENT i
    RANGE dur, e, g, mixed, last, crossed
}
PARAMETER { dur = 1.2037 (ms) e = 0 (mV) }
ASSIGNED { v (mV) i (nA) g (uS) mixed last (ms) crossed }
INITIAL { g = 0 mixed = 0 last = -10 crossed = 0 }
BREAKPOINT { i = g*(1 + 0.1*mixed)*(v - e) }
NET_RECEIVE(w (uS)) {
    if (flag == 0) {
        mixed = 0.7*mixed + 1e3*w
        g = g + w
        net_send(dur + 0.3*exp((last - t)/5), 1)
        last = t
        WATCH (v > -20) 2
    } else if (flag == 1) {
        g = g - w
    } else {
        crossed = crossed + 1 + 0.01*mixed
    }
}
