TITLE Muscarinic potassium current, after Yamada, Koch and Adams (1989)

NEURON {
    SUFFIX km_yamada
    NONSPECIFIC_CURRENT i
    RANGE gbar, ek, taumax
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 7e-5 (S/cm2)
    ek = -90 (mV)
    taumax = 1000 (ms)
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
    minf = 1/(1 + exp(-(v + 35)/10))
    mtau = taumax/3^((celsius - 36)/10)/(3.3*exp((v + 35)/20) + exp(-(v + 35)/20))
}
UNITSON
