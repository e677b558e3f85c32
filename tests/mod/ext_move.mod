: sends itself an event when one comes, later ones move it; counts those that have come
NEURON {
    ARTIFICIAL_CELL ext_move
    RANGE came, last
}
ASSIGNED { came last (ms) waits }
INITIAL { came = 0 last = -1 waits = 0 }
NET_RECEIVE(w (ms)) {
    if (flag == 1) {
        came = came + 1
        last = t
        waits = 0
        net_event(t)
    } else if (waits == 0) {
        waits = 1
        net_send(w, 1)
    } else {
        net_move(t + w)
    }
}
