TITLE sends by WATCH when its clock comes to a time, and again after each event
NEURON { POINT_PROCESS ext_clock RANGE start, at, n }
PARAMETER { start = 3 (ms) }
ASSIGNED { at (ms) n v (mV) }
INITIAL {
    n = 0
    at = start
    net_send(0, 1)
}
NET_RECEIVE(w) {
    if (flag == 0) {
        at = t + w
        WATCH (t > at) 2
    } else if (flag == 1) {
        WATCH (t > at) 2
    } else {
        n = n + 1
        net_event(t)
    }
}
