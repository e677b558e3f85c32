TITLE Conductance with depression and facilitation, after Tsodyks, Pawelzik and Markram (1998)

NEURON {
    POINT_PROCESS tsodyks_markram
    RANGE tau, taurec, taufacil, use, e
    NONSPECIFIC_CURRENT i
}

UNITS {
    (mV) = (millivolt)
    (nA) = (nanoamp)
    (uS) = (microsiemens)
}

PARAMETER {
    tau = 3 (ms)
    taurec = 800 (ms)
    taufacil = 0 (ms)
    use = 0.5
    e = 0 (mV)
}

ASSIGNED {
    v (mV)
    i (nA)
    x
    u
    last (ms)
}

STATE { g (uS) }

INITIAL {
    g = 0
    x = 1
    u = 0
    last = 0
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = g*(v - e)
}

DERIVATIVE states { g' = -g/tau }

: between spikes by closed forms
NET_RECEIVE(weight (uS)) {
    LOCAL released
    x = 1 - (1 - x)*exp(-(t - last)/taurec)
    if (taufacil > 0) {
        u = u*exp(-(t - last)/taufacil)
        u = u + use*(1 - u)
    } else {
        u = use
    }
    last = t
    released = u*x
    x = x - released
    g = g + weight*released
}
