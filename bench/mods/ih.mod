TITLE Hyperpolarization-activated current, after Hay et al. (2011)

NEURON {
    THREADSAFE
    SUFFIX ih
    NONSPECIFIC_CURRENT i
    RANGE gbar, e, i
    RANGE minf, mtau
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0 (S/cm2)
    e = -45 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    minf
    mtau (ms)
}

STATE { m }

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*m*(v - e)
}

INITIAL {
    rates(v)
    m = minf
}

DERIVATIVE states {
    rates(v)
    m' = (minf - m)/mtau
}

PROCEDURE rates(v (mV)) {
    LOCAL a, b
    TABLE minf, mtau FROM -120 TO 100 WITH 440
    a = 0.00643*linoid(v + 154.9, 11.9)
    b = 0.193*exp(v/33.1)
    minf = a/(a + b)
    mtau = 1/(a + b)
}

FUNCTION linoid(x (mV), y (mV)) (mV) {  : x/(exp(x/y) - 1)
    IF (fabs(x/y) < 1e-6) {
        linoid = y*(1 - x/y/2)
    } ELSE {
        linoid = x/(exp(x/y) - 1)
    }
}
