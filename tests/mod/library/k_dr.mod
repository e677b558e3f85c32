TITLE Delayed-rectifier potassium current, after Migliore et al. (1999)

NEURON {
    SUFFIX k_dr
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.01 (S/cm2)
    ek = -90 (mV)
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
    i = gbar*n*(v - ek)
}

DERIVATIVE states {
    settle()
    n' = (ninf - n)/ntau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a
    a = exp(1e-3*(-3)*(v - 13)*9.648e4/(8.315*(273.16 + celsius)))
    ninf = 1/(1 + a)
    ntau = exp(1e-3*(-3)*0.7*(v - 13)*9.648e4/(8.315*(273.16 + celsius)))/(0.02*(1 + a))
    if (ntau < 2) { ntau = 2 }
}
UNITSON
