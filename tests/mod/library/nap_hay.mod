TITLE Persistent sodium current, after Hay et al. (2011)

NEURON {
    SUFFIX nap_hay
    NONSPECIFIC_CURRENT i
    RANGE gbar, ena
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.0017 (S/cm2)
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
    mtau = 6/(qt*(a + b))
    minf = 1/(1 + exp((v + 52.6)/(-4.6)))
    a = 2.88e-6*linoid(-v - 17, 4.63)
    b = 6.94e-6*linoid(v + 64.4, 2.63)
    htau = 1/(qt*(a + b))
    hinf = 1/(1 + exp((v + 48.8)/10))
}

FUNCTION linoid(x, y) {
    if (fabs(x/y) < 1e-6) {
        linoid = y*(1 + x/y/2)
    } else {
        linoid = x/(1 - exp(-x/y))
    }
}
UNITSON
