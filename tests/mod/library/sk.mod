TITLE Calcium-activated potassium current, after Hay et al. (2011)

NEURON {
    SUFFIX sk
    USEION ca READ cai
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
    (mM) = (milli/liter)
}

PARAMETER {
    gbar = 0.04 (S/cm2)
    ek = -85 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    cai (mM)
    zinf
    ztau (ms)
}

STATE { z }

INITIAL {
    settle()
    z = zinf
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*z*(v - ek)
}

DERIVATIVE states {
    settle()
    z' = (zinf - z)/ztau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL c
    c = cai
    if (c < 1e-7) { c = 1e-7 }
    zinf = 1/(1 + (0.00043/c)^4.8)
    ztau = 1
}
UNITSON
