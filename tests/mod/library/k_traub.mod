TITLE Delayed-rectifier potassium current, after Traub and Miles (1991)

NEURON {
    SUFFIX k_traub
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek, vt
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.005 (S/cm2)
    ek = -90 (mV)
    vt = -63 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    celsius (degC)
    ninf
    ntau (ms)
}

STATE { n }

INITIAL {
    settle()
    n = ninf
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*n*n*n*n*(v - ek)
}

DERIVATIVE states {
    settle()
    n' = (ninf - n)/ntau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, b, q
    q = 3^((celsius - 36)/10)
    a = 0.032*linoid(v - vt - 15, 5)
    b = 0.5*exp((10 - (v - vt))/40)
    ninf = a/(a + b)
    ntau = 1/(q*(a + b))
}

FUNCTION linoid(x, y) {
    if (fabs(x/y) < 1e-6) {
        linoid = y*(1 + x/y/2)
    } else {
        linoid = x/(1 - exp(-x/y))
    }
}
UNITSON
