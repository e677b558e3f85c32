: variables that POINTERs of others read: one of its current, one of its states, one of both
NEURON {
    POINT_PROCESS ext_msg
    NONSPECIFIC_CURRENT i
    RANGE seen, late, gain
}
PARAMETER { gain = 1 }
STATE { msg }
ASSIGNED { v (mV) i (nA) seen late }
INITIAL { msg = 1 seen = 0.5 late = 0.25 }
BREAKPOINT {
    SOLVE states METHOD cnexp
    seen = msg + 0.01*gain*(v + 65)
    i = 1e-4*(v + 60)*msg
}
DERIVATIVE states {
    late = 0.1*t + msg
    msg' = (1 + 0.02*(v + 65) - msg)/3
}
NET_RECEIVE(w) { msg = msg + w }
