: watches a variable of an ion, of which NEURON compares the copy of the mechanism
NEURON { POINT_PROCESS ext_ione USEION ca READ cai NONSPECIFIC_CURRENT i RANGE level, n, last, seen }
PARAMETER { level = 1e-4 }
ASSIGNED { v (mV) cai i n last (ms) seen }
STATE { s }
INITIAL { n = 0 last = -1 seen = 0 net_send(0, 1) }
BREAKPOINT { SOLVE state METHOD cnexp i = 0 } DERIVATIVE state { s' = -s }
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
