TITLE Fast potassium current, after Hay et al. (2011)

NEURON {
    SUFFIX kv3_hay
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.7 (S/cm2)
    ek = -85 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    minf
    mtau (ms)
}

STATE { m }

INITIAL {
    settle()
    m = minf
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*m*(v - ek)
}

DERIVATIVE states {
    settle()
    m' = (minf - m)/mtau
}

UNITSOFF
PROCEDURE settle() {
    minf = 1/(1 + exp((v - 18.7)/(-9.7)))
    mtau = 0.2*20/(1 + exp((v + 46.56)/(-44.14)))
}
UNITSON
