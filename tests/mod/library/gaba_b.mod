TITLE Conductance of GABA-B receptors, after Destexhe et al. (1996)

NEURON {
    POINT_PROCESS gaba_b
    RANGE e, cmax, duration
    NONSPECIFIC_CURRENT i
}

UNITS {
    (mV) = (millivolt)
    (nA) = (nanoamp)
    (uS) = (microsiemens)
    (mM) = (milli/liter)
}

PARAMETER {
    e = -95 (mV)
    cmax = 0.5 (mM)
    duration = 0.3 (ms)
    k1 = 0.52 (/ms mM)
    k2 = 0.0013 (/ms)
    k3 = 0.098 (/ms)
    k4 = 0.033 (/ms)
    kd = 100
}

ASSIGNED {
    v (mV)
    i (nA)
    c (mM)
    g (uS)
}

STATE { r s }

INITIAL {
    c = 0
    g = 0
    r = 0
    s = 0
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = g*s^4/(s^4 + kd)*(v - e)
}

DERIVATIVE states {
    r' = k1*c*(1 - r) - k2*r
    s' = k3*r - k4*s
}

NET_RECEIVE(weight (uS)) {
    if (flag == 0) {
        c = cmax
        g = weight
        net_send(duration, 1)
    } else {
        c = 0
    }
}
