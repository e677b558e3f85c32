: sends itself events with flag 1 and others, and moves one: NEURON moves the last one with flag 1
NEURON { ARTIFICIAL_CELL ext_moves RANGE first, second, order, by }
PARAMETER { first = 5 (ms) second = 3 (ms) by = 1.5 (ms) order = 0 }
NET_RECEIVE(w) {
    if (flag == 0) {
        if (w < 0) {
            net_move(t + by)
        } else if (order == 0) {
            net_send(first, 1)
            net_send(second, 2)
        } else if (order == 1) {
            net_send(second, 2)
            net_send(first, 1)
        } else {
            net_send(first, 1)
            net_send(second, 1)
            net_send(1, 2)
        }
    } else {
        net_event(t)
    }
}
