TITLE Calcium-dependent potassium current, after Moczydlowski and Latorre (1983)

NEURON {
    THREADSAFE
    SUFFIX bk
    USEION ca READ cai
    USEION k READ ek WRITE ik
    RANGE gbar
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (mM) = (milli/liter)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0 (S/cm2)
    k1 = 4.8e-4 (mM)
    k2 = 1.3e-7 (mM)
    thermal = 26.5 (mV)
}

ASSIGNED {
    v (mV)
    cai (mM)
    ek (mV)
    ik (mA/cm2)
}

STATE { m }

BREAKPOINT {
    SOLVE states METHOD cnexp
    ik = gbar*m*(v - ek)
}

INITIAL { m = opens(v, cai)/(opens(v, cai) + closes(v, cai)) }

DERIVATIVE states {
    m' = opens(v, cai)*(1 - m) - closes(v, cai)*m
}

FUNCTION opens(v (mV), c (mM)) (/ms) {
    opens = 0.28*c/(c + k1*exp(-2*0.84*v/thermal))
}

FUNCTION closes(v (mV), c (mM)) (/ms) {
    closes = 0.48/(1 + c/(k2*exp(-2*v/thermal)))
}
