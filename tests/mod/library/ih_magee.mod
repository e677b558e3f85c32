TITLE Hyperpolarization-activated current, after Poolos, Migliore and Johnston (2002)

NEURON {
    SUFFIX ih_magee
    NONSPECIFIC_CURRENT i
    RANGE gbar, e, vhalf
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 1e-4 (S/cm2)
    e = -30 (mV)
    vhalf = -81 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    celsius (degC)
    linf
    ltau (ms)
}

STATE { l }

INITIAL {
    settle()
    l = linf
}

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*l*(v - e)
}

DERIVATIVE states {
    settle()
    l' = (linf - l)/ltau
}

UNITSOFF
PROCEDURE settle() {
    linf = 1/(1 + exp(-(v - vhalf)/(-8)))
    ltau = exp(0.0378*2.2*0.4*(v + 75))/(4.5^((celsius - 33)/10)*0.011*(1 + exp(0.0378*2.2*(v + 75))))
}
UNITSON
