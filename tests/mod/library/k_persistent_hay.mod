TITLE Slowly inactivating potassium current, after Hay et al. (2011)

NEURON {
    SUFFIX k_persistent_hay
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.0022 (S/cm2)
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
    i = gbar*m*m*h*(v - ek)
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
    minf = 1/(1 + exp(-(v + 11)/12))
    if (v < -60) {
        mtau = (1.25 + 175.03*exp(0.026*(v + 10)))/qt
    } else {
        mtau = (1.25 + 13*exp(-0.026*(v + 10)))/qt
    }
    hinf = 1/(1 + exp((v + 64)/11))
    htau = (360 + (1010 + 24*(v + 65))*exp(-((v + 85)/48)^2))/qt
}
UNITSON
