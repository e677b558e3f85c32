TITLE an integrate-and-fire cell that is no part of a cable
NEURON {
    ARTIFICIAL_CELL nmcell
    RANGE tau, refrac, m, spikes
}
PARAMETER { tau = 10 refrac = 3 }
ASSIGNED { m t0 refractory spikes }
INITIAL { m = 0 t0 = 0 refractory = 0 spikes = 0 }
NET_RECEIVE(w) {
    IF (refractory == 0) {
        m = m*exp(-(t - t0)/tau) + w
        t0 = t
        IF (m > 1) {
            refractory = 1
            m = 2
            spikes = spikes + 1
            net_send(refrac, 1)
            net_event(t)
        }
    } ELSE IF (flag == 1) {
        refractory = 0
        m = 0
        t0 = t
    }
}
