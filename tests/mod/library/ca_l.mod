TITLE High-voltage-activated calcium current, after Hay et al. (2011)

NEURON {
    SUFFIX ca_l
    USEION ca READ eca WRITE ica
    RANGE gbar
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.001 (S/cm2)
}

ASSIGNED {
    v (mV)
    eca (mV)
    ica (mA/cm2)
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
    ica = gbar*m*m*h*(v - eca)
}

DERIVATIVE states {
    settle()
    m' = (minf - m)/mtau
    h' = (hinf - h)/htau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, b
    a = 0.055*linoid(v + 27, 3.8)
    b = 0.94*exp((-75 - v)/17)
    minf = a/(a + b)
    mtau = 1/(a + b)
    a = 0.000457*exp((-13 - v)/50)
    b = 0.0065/(exp((-v - 15)/28) + 1)
    hinf = a/(a + b)
    htau = 1/(a + b)
}

FUNCTION linoid(x, y) {
    if (fabs(x/y) < 1e-6) {
        linoid = y*(1 + x/y/2)
    } else {
        linoid = x/(1 - exp(-x/y))
    }
}
UNITSON
