TITLE Slow potassium current, after Mainen and Sejnowski (1996)

NEURON {
    SUFFIX km_mainen
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 1e-5 (S/cm2)
    ek = -90 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    celsius (degC)
    tadj
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
    i = tadj*gbar*n*(v - ek)
}

DERIVATIVE states {
    settle()
    n' = (ninf - n)/ntau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, b
    tadj = 2.3^((celsius - 23)/10)
    a = 0.001*linoid(v + 30, 9)
    b = 0.001*linoid(-v - 30, 9)
    ninf = a/(a + b)
    ntau = 1/(tadj*(a + b))
}

FUNCTION linoid(x, y) {
    if (fabs(x/y) < 1e-6) {
        linoid = y*(1 + x/y/2)
    } else {
        linoid = x/(1 - exp(-x/y))
    }
}
UNITSON
