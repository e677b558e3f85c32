: A synapse that keeps an array and a number which hoc does not see, and sends itself events.
NEURON {
    POINT_PROCESS ext_array
    NONSPECIFIC_CURRENT i
    RANGE g
}
PARAMETER { tau = 5 (ms) }
ASSIGNED {
    i (nA)
    v (mV)
    kept[3]
    count
}
STATE { g (uS) }
INITIAL {
    g = 0
    kept[0] = 0.3
    kept[1] = 0.1
    kept[2] = 0.2
    count = 0
}
BREAKPOINT {
    SOLVE decay METHOD cnexp
    kept[1] = kept[1]*0.999 + 0.0001
    i = g*v*(0.1 + kept[1])
}
DERIVATIVE decay { g' = -g/tau }
NET_RECEIVE(w (uS)) {
    if (flag == 1) {
        g = g + 0.3*w
    } else {
        count = count + 1
        kept[0] = kept[0]*0.8 + 0.1
        kept[2] = kept[0] + 0.1*kept[2]
        g = g + w*kept[2]*count
        net_send(6, 1)
    }
}
