COMMENT
Resets the voltage of its node: when it crosses a level, and when it falls below another.
ENDCOMMENT

NEURON {
    POINT_PROCESS ext_reset
    RANGE high, low, reset, lost, seen, when, g, tau, e
    NONSPECIFIC_CURRENT i
}

PARAMETER {
    high = -50 (mV)
    low = -66.5 (mV)
    reset = -62 (mV)
    tau = 5 (ms)
    e = -20 (mV)
}

ASSIGNED {
    v (mV)
    i (nA)
    seen (mV)
    lost (mV)
    when (ms)
}

STATE { g (uS) }

INITIAL {
    g = 0
    seen = 0
    lost = 0
    when = 0
    net_send(0, 1)
}

BREAKPOINT {
    SOLVE decay METHOD cnexp
    i = g*(v - e)
}

DERIVATIVE decay { g' = -g/tau }

PROCEDURE back() { v = reset + 1 }

NET_RECEIVE(w (uS)) {
    if (flag == 1) {
        v = -30 : is lost, as WATCH brings back what the node has
        WATCH (v > high) 2
        WATCH (v < low) 3
        lost = v
        v = v + 2.5
    } else if (flag == 2) {
        seen = v
        when = t
        v = reset
        net_event(t)
    } else if (flag == 3) {
        back()
        seen = v
    } else {
        g = g + w
    }
}
