TITLE Transient sodium current, after Mainen and Sejnowski (1996)

NEURON {
    SUFFIX na_mainen
    NONSPECIFIC_CURRENT i
    RANGE gbar, ena, shift
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.1 (S/cm2)
    ena = 60 (mV)
    shift = -5 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    celsius (degC)
    tadj
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
    i = tadj*gbar*m*m*m*h*(v - ena)
}

DERIVATIVE states {
    settle()
    m' = (minf - m)/mtau
    h' = (hinf - h)/htau
}

UNITSOFF
PROCEDURE settle() {
    LOCAL a, b
    tadj = 2.3^((celsius - 23)/10)
    a = 0.182*linoid(v + shift + 35, 9)
    b = 0.124*linoid(-(v + shift) - 35, 9)
    minf = a/(a + b)
    mtau = 1/(tadj*(a + b))
    a = 0.024*linoid(v + shift + 50, 5)
    b = 0.0091*linoid(-(v + shift) - 75, 5)
    htau = 1/(tadj*(a + b))
    hinf = 1/(1 + exp((v + shift + 65)/6.2))
}

FUNCTION linoid(x, y) {
    if (fabs(x/y) < 1e-6) {
        linoid = y*(1 + x/y/2)
    } else {
        linoid = x/(1 - exp(-x/y))
    }
}
UNITSON
