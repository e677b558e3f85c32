TITLE Muscarinic potassium current, after Hay et al. (2011)

NEURON {
    THREADSAFE
    SUFFIX im
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
    LOCAL qt, a, b
    TABLE minf, mtau FROM -120 TO 100 WITH 440
    qt = 2.3^((34 - 21)/10)
    a = 3.3e-3*exp(0.1*(v + 35))
    b = 3.3e-3*exp(-0.1*(v + 35))
    minf = a/(a + b)
    mtau = 1/(qt*(a + b))
}
