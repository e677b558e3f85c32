TITLE Low-voltage-activated calcium current, after Hay et al. (2011)

NEURON {
    SUFFIX ca_t
    USEION ca READ eca WRITE ica
    RANGE gbar
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.003 (S/cm2)
}

ASSIGNED {
    v (mV)
    eca (mV)
    ica (mA/cm2)
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
    ica = gbar*m*m*h*(v - eca)
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
    minf = 1/(1 + exp((v + 40)/(-6)))
    mtau = (5 + 20/(1 + exp((v + 35)/5)))/qt
    hinf = 1/(1 + exp((v + 90)/6.4))
    htau = (20 + 50/(1 + exp((v + 50)/7)))/qt
}
UNITSON
