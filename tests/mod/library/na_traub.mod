TITLE Transient sodium current, after Traub and Miles (1991)

NEURON {
    SUFFIX na_traub
    NONSPECIFIC_CURRENT i
    RANGE gbar, ena, vt
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.05 (S/cm2)
    ena = 50 (mV)
    vt = -63 (mV)
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
    LOCAL a, b, q
    q = 3^((celsius - 36)/10)
    a = 0.32*linoid(v - vt - 13, 4)
    b = 0.28*linoid(40 - (v - vt), 5)
    minf = a/(a + b)
    mtau = 1/(q*(a + b))
    a = 0.128*exp((17 - (v - vt))/18)
    b = 4/(1 + exp((40 - (v - vt))/5))
    hinf = a/(a + b)
    htau = 1/(q*(a + b))
}

FUNCTION linoid(x, y) {
    if (fabs(x/y) < 1e-6) {
        linoid = y*(1 + x/y/2)
    } else {
        linoid = x/(1 - exp(-x/y))
    }
}
UNITSON
