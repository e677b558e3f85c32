TITLE Transient potassium current, after Hay et al. (2011)

NEURON {
    SUFFIX k_transient_hay
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.08 (S/cm2)
    ek = -85 (mV)
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
    i = gbar*m*m*m*m*h*(v - ek)
}

DERIVATIVE states {
    settle()
    m' = (minf - m)/mtau
    h' = (hinf - h)/htau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL qt
    qt = 2.3^((celsius - 21)/10)
    minf = 1/(1 + exp(-(v + 10)/19))
    mtau = (0.34 + 0.92*exp(-((v + 81)/59)^2))/qt
    hinf = 1/(1 + exp((v + 76)/10))
    htau = (8 + 49*exp(-((v + 83)/23)^2))/qt
}
UNITSON
