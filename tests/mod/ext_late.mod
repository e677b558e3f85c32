COMMENT
Moves the voltage of its node when an event comes, and sets it a while later. The argument of
NET_RECEIVE that is called flag is the flag of the event.
ENDCOMMENT

NEURON {
    POINT_PROCESS ext_late
    RANGE seen, jump
}

PARAMETER { jump = 4 (mV) }

ASSIGNED {
    v (mV)
    seen (mV)
}

INITIAL { seen = 0 }

NET_RECEIVE(flag) {
    if (flag == 5) {
        v = -60
    } else {
        seen = v
        v = v + jump
        net_send(1.7, 5)
    }
}
