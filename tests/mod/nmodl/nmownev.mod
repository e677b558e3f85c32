: a source at a node that sends by self events of its own, and draws several numbers for each
NEURON { POINT_PROCESS nmownev  RANGE mean, spread, count, left, seed }
UNITS { (mV) = (millivolt) }
PARAMETER { mean = 2 (ms)  spread = 0.3  count = 4  seed = -1 }
ASSIGNED { left  hidden }
INITIAL {
    if (seed >= 0) { set_seed(seed) }
    left = 0
    hidden = scop_random()
    net_send(exprand(mean), 2)
}
NET_RECEIVE (w) {
    if (flag == 2) {
        left = floor(count*scop_random())
        net_send(0, 1)
        net_send(mean + exprand(mean), 2)
    }
    if (flag == 1) {
        net_event(t)
        left = left - 1
        hidden = hidden + normrand(0, spread)
        if (left > 0) { net_send(0.1*mean*scop_random() + 0.001, 1) }
    }
}
