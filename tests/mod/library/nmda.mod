TITLE Conductance of NMDA receptors, after Jahr and Stevens (1990)

NEURON {
    POINT_PROCESS nmda
    RANGE taurise, taudecay, e, mg
    NONSPECIFIC_CURRENT i
}

UNITS {
    (mV) = (millivolt)
    (nA) = (nanoamp)
    (uS) = (microsiemens)
    (mM) = (milli/liter)
}

PARAMETER {
    taurise = 0.29 (ms)
    taudecay = 43 (ms)
    e = 0 (mV)
    mg = 1 (mM)
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
    i = (B - A)*1/(1 + exp(-0.062(/mV)*v)*(mg/3.57(mM)))*(v - e)
}

DERIVATIVE states {
    A' = -A/taurise
    B' = -B/taudecay
}

NET_RECEIVE(weight (uS)) {
    A = A + weight*factor
    B = B + weight*factor
}
