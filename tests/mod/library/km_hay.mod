TITLE Muscarinic potassium current, after Hay et al. (2011)

NEURON {
    SUFFIX km_hay
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 7e-5 (S/cm2)
    ek = -85 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    celsius (degC)
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
    LOCAL a, b, qt
    qt = 2.3^((celsius - 21)/10)
    a = 3.3e-3*exp(2.5*0.04*(v + 35))
    b = 3.3e-3*exp(-2.5*0.04*(v + 35))
    minf = a/(a + b)
    mtau = 1/(qt*(a + b))
}
UNITSON
