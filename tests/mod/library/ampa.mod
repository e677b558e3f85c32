TITLE Conductance of AMPA receptors, two exponentials

NEURON {
    POINT_PROCESS ampa
    RANGE taurise, taudecay, e
    NONSPECIFIC_CURRENT i
}

UNITS {
    (mV) = (millivolt)
    (nA) = (nanoamp)
    (uS) = (microsiemens)
}

PARAMETER {
    taurise = 0.2 (ms)
    taudecay = 1.7 (ms)
    e = 0 (mV)
}

ASSIGNED {
    v (mV)
    i (nA)
    factor
}

STATE {
    A (uS)
    B (uS)
}

INITIAL {
    LOCAL tp
    tp = taurise*taudecay/(taudecay - taurise)*log(taudecay/taurise)
    factor = 1/(exp(-tp/taudecay) - exp(-tp/taurise))
    A = 0
    B = 0
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = (B - A)*(v - e)
}

DERIVATIVE states {
    A' = -A/taurise
    B' = -B/taudecay
}

NET_RECEIVE(weight (uS)) {
    A = A + weight*factor
    B = B + weight*factor
}
