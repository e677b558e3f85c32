: an artificial cell that integrates and fires
NEURON {
    ARTIFICIAL_CELL ext_fire
    RANGE tau, refrac, m, fired
}
PARAMETER { tau = 5 (ms) refrac = 1.3 (ms) }
ASSIGNED { m t0 (ms) silent fired }
INITIAL { m = 0 t0 = 0 silent = 0 fired = 0 net_send(3.21, 7) }
NET_RECEIVE(w) {
    m = m*exp(-(t - t0)/tau)
    t0 = t
    if (flag == 1) {
        silent = 0
    } else if (flag == 7) {
        net_event(t)
        net_send(4.4, 7)
    } else if (silent == 0) {
        m = m + w
        if (m > 1) {
            net_event(t)
            fired = fired + 1
            m = 0
            silent = 1
            net_send(refrac, 1)
        }
    }
}
