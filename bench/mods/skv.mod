TITLE Fast potassium current, after Hay et al. (2011)

NEURON {
    THREADSAFE
    SUFFIX skv
    USEION k READ ek WRITE ik
    RANGE gbar
    RANGE minf, mtau
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0 (S/cm2)
}

ASSIGNED {
    v (mV)
    ek (mV)
    ik (mA/cm2)
    minf
    mtau (ms)
}

STATE { m }

BREAKPOINT {
    SOLVE states METHOD cnexp
    ik = gbar*m*(v - ek)
}

INITIAL {
    rates(v)
    m = minf
}

DERIVATIVE states {
    rates(v)
    m' = (minf - m)/mtau
}

PROCEDURE rates(v (mV)) {
    TABLE minf, mtau FROM -120 TO 100 WITH 440
    minf = 1/(1 + exp(-(v - 18.7)/9.7))
    mtau = 4/(1 + exp(-(v + 46.56)/44.14))
}
