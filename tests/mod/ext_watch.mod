: watches the voltage, and lets a current flow between two crossings
NEURON {
    POINT_PROCESS ext_watch
    NONSPECIFIC_CURRENT i
    RANGE high, low, amp, on, when
}
PARAMETER { high = -40 (mV) low = -60 (mV) amp = 0.05 (nA) }
ASSIGNED { v (mV) i (nA) on when (ms) }
INITIAL { on = 0 when = -1 net_send(0, 1) }
BREAKPOINT { i = amp*on }
NET_RECEIVE(w) {
    if (flag == 1) {
        WATCH (v > high) 2
    } else if (flag == 2) {
        on = 1
        when = t
        net_event(t)
        WATCH (v < low) 3
    } else if (flag == 3) {
        on = 0
        WATCH (v > high) 2
    }
}
