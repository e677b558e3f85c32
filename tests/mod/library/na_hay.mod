TITLE Transient sodium current, after Hay et al. (2011)

NEURON {
    SUFFIX na_hay
    NONSPECIFIC_CURRENT i
    RANGE gbar, ena
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 2 (S/cm2)
    ena = 50 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    celsius (degC)
    minf
    mtau (ms)
    hinf
    htau (ms)
}

STATE { m h }

INITIAL {
    settle()
    m = minf
    h = hinf
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*m*m*m*h*(v - ena)
}

DERIVATIVE states {
    settle()
    m' = (minf - m)/mtau
    h' = (hinf - h)/htau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, b, qt
    qt = 2.3^((celsius - 21)/10)
    a = 0.182*linoid(v + 38, 6)
    b = 0.124*linoid(-v - 38, 6)
    minf = a/(a + b)
    mtau = 1/(qt*(a + b))
    a = 0.015*linoid(-v - 66, 6)
    b = 0.015*linoid(v + 66, 6)
    hinf = a/(a + b)
    htau = 1/(qt*(a + b))
}

FUNCTION linoid(x, y) {
    if (fabs(x/y) < 1e-6) {
        linoid = y*(1 + x/y/2)
    } else {
        linoid = x/(1 - exp(-x/y))
    }
}
UNITSON
