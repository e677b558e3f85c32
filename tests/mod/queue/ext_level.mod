: watches the voltage beside a level, and counts how often it goes above
NEURON { POINT_PROCESS ext_level NONSPECIFIC_CURRENT i RANGE level, n, last, amp, on }
PARAMETER { level = -50 (mV) amp = 0 (nA) }
ASSIGNED { v (mV) i (nA) n last (ms) on }
INITIAL { n = 0 last = -1 on = 0 net_send(0, 1) }
BREAKPOINT { i = amp*on }
NET_RECEIVE(w) {
    if (flag == 1) {
        WATCH (v > level) 2
    } else if (flag == 2) {
        n = n + 1
        last = t
        on = 1
        net_event(t)
        WATCH (v < level) 3
    } else if (flag == 3) {
        on = 0
        WATCH (v > level) 2
    }
}
