: watches a variable of an ion, of which NEURON compares the copy of the mechanism
NEURON { POINT_PROCESS ext_iona USEION ca READ cai RANGE level, n, last, seen }
PARAMETER { level = 1e-4 }
ASSIGNED { v (mV) cai  n last (ms) seen }

INITIAL { n = 0 last = -1 seen = 0 net_send(0, 1) }
BREAKPOINT { }
NET_RECEIVE(w) {
    if (flag == 1) {
        WATCH (cai > level) 2
    } else if (flag == 2) {
        n = n + 1
        last = t
        net_event(t)
        WATCH (cai < level) 1
    } else {
        seen = cai
    }
}
