TITLE Hyperpolarization-activated current, after Hay et al. (2011)

NEURON {
    SUFFIX ih_kole
    NONSPECIFIC_CURRENT i
    RANGE gbar, e
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 2e-4 (S/cm2)
    e = -45 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    minf
    mtau (ms)
}

STATE { m }

INITIAL {
    settle()
    m = minf
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*m*(v - e)
}

DERIVATIVE states {
    settle()
    m' = (minf - m)/mtau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, b
    a = 0.001*6.43*linoid(-v - 154.9, 11.9)
    b = 0.001*193*exp(v/33.1)
    minf = a/(a + b)
    mtau = 1/(a + b)
}

FUNCTION linoid(x, y) {
    if (fabs(x/y) < 1e-6) {
        linoid = y*(1 + x/y/2)
    } else {
        linoid = x/(1 - exp(-x/y))
    }
}
UNITSON
