: its current, its state and its events see variables of others, which act before it
NEURON {
    POINT_PROCESS ext_reads
    NONSPECIFIC_CURRENT i
    POINTER a, b
    RANGE got
}
STATE { x }
ASSIGNED { v (mV) i (nA) a b got }
INITIAL { x = a got = 0 }
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = 1e-3*a*(v + 50)
}
DERIVATIVE states { x' = (b - x)/2 }
NET_RECEIVE(w) { got = w*a }
