TITLE Calcium- and voltage-activated potassium current, after Moczydlowski and Latorre (1983)

NEURON {
    SUFFIX bk
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
    gbar = 0.01 (S/cm2)
    ek = -85 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    cai (mM)
    celsius (degC)
    oinf
    otau (ms)
}

STATE { o }

INITIAL {
    settle()
    o = oinf
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*o*(v - ek)
}

DERIVATIVE states {
    settle()
    o' = (oinf - o)/otau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, b
    a = 0.28*cai/(cai + binds(0.48e-3, 0.84))
    b = 0.48/(1 + cai/binds(0.13e-6, 1))
    oinf = a/(a + b)
    otau = 1/(a + b)
}

FUNCTION binds(k, d) {
    binds = k*exp(-2*d*96.48533212*v/8.313424/(273.15 + celsius))
}
UNITSON
