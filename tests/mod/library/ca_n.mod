TITLE High-voltage-activated calcium current, after Jaffe et al. (1994)

NEURON {
    SUFFIX ca_n
    USEION ca READ cai, cao WRITE ica
    RANGE gbar
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
    (mM) = (milli/liter)
}

PARAMETER {
    gbar = 0.0003 (S/cm2)
}

ASSIGNED {
    v (mV)
    cai (mM)
    cao (mM)
    ica (mA/cm2)
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
    ica = gbar*m*m*h*field(v)*0.001/(0.001 + cai)
}

DERIVATIVE states {
    settle()
    m' = (minf - m)/mtau
    h' = (hinf - h)/htau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, b
    a = 0.1967*linoid(v - 19.88, 10)
    b = 0.046*exp(-v/20.73)
    minf = a/(a + b)
    mtau = 1/(a + b)
    a = 1.6e-4*exp(-v/48.4)
    b = 1/(exp((39 - v)/10) + 1)
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

FUNCTION field(v) {
    LOCAL f
    f = 25/293.15*(celsius + 273.15)/2
    field = -(1 - cai/cao*exp(v/f))*linoid(-v, f)
}
UNITSON
