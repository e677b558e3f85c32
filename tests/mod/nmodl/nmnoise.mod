: a source whose intervals are random only where noise is above 0, drawn from NEURON's one generator
NEURON { ARTIFICIAL_CELL nmnoise  RANGE interval, begin, noise, sent }
PARAMETER { interval = 2 (ms)  begin = 0.5 (ms)  noise = 0 }
ASSIGNED { event (ms)  sent }
INITIAL {
    if (noise < 0) { noise = 0 }
    if (noise > 1) { noise = 1 }
    sent = 0
    event = begin + next(interval) - interval*(1 - noise)
    net_send(event, 1)
}
FUNCTION next(mean (ms)) (ms) {
    if (noise == 0) {
        next = mean
    } else {
        next = (1 - noise)*mean + noise*mean*exprand(1)
    }
}
NET_RECEIVE (w) {
    if (flag == 1) {
        sent = sent + 1
        net_event(t)
        event = event + next(interval)
        net_send(event - t, 1)
    }
}
