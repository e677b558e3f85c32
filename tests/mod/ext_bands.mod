: says in which band r is, which jumps in events: two conditions may come true at once
NEURON {
    POINT_PROCESS ext_bands
    RANGE r, band, came, tick, seen
}
PARAMETER { tick = 0.31 (ms) }
ASSIGNED { r band came seen (ms) }
INITIAL { r = 0.4 band = 2 came = 0 seen = 0 net_send(0, 2) net_send(tick, 4) }
NET_RECEIVE(w) {
    if (flag == 4) {
        r = 3.9*r*(1 - r)
        net_send(tick, 4)
    } else {
        came = came + 1
        seen = t
        band = flag
        if (flag == 3) {
            WATCH (r < 0.3) 1
            WATCH (r < 0.7) 2
        } else if (flag == 2) {
            WATCH (r < 0.3) 1
            WATCH (r > 0.7) 3
        } else if (flag == 1) {
            WATCH (r > 0.7) 3
            WATCH (r > 0.3) 2
        }
    }
}
