TITLE Transient potassium current, after Migliore et al. (1999)

NEURON {
    SUFFIX k_a
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.03 (S/cm2)
    ek = -90 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    celsius (degC)
    ninf
    ntau (ms)
    linf
    ltau (ms)
}

STATE { n l }

INITIAL {
    settle()
    n = ninf
    l = linf
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*n*l*(v - ek)
}

DERIVATIVE states {
    settle()
    n' = (ninf - n)/ntau
    l' = (linf - l)/ltau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, zeta
    zeta = -1.5 + (-1)/(1 + exp((v + 40)/5))
    a = exp(1e-3*zeta*(v - 11)*9.648e4/(8.315*(273.16 + celsius)))
    ninf = 1/(1 + a)
    ntau = exp(1e-3*zeta*0.55*(v - 11)*9.648e4/(8.315*(273.16 + celsius)))/(5^((celsius - 24)/10)*0.05*(1 + a))
    if (ntau < 0.1) { ntau = 0.1 }
    linf = 1/(1 + exp(1e-3*3*(v + 56)*9.648e4/(8.315*(273.16 + celsius))))
    ltau = 0.26*(v + 50)
    if (ltau < 2) { ltau = 2 }
}
UNITSON
