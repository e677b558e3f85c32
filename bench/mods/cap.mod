TITLE P-type calcium current, after De Schutter and Bower (1994)

NEURON {
    THREADSAFE
    SUFFIX cap
    USEION ca READ eca WRITE ica
    RANGE gbar
    RANGE minf, hinf, mtau, htau
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
    eca (mV)
    ica (mA/cm2)
    minf
    mtau (ms)
    hinf
    htau (ms)
}

STATE { m h }

BREAKPOINT {
    SOLVE states METHOD cnexp
    ica = gbar*m*h*(v - eca)
}

INITIAL {
    rates(v)
    m = minf
    h = hinf
}

DERIVATIVE states {
    rates(v)
    m' = (minf - m)/mtau
    h' = (hinf - h)/htau
}

PROCEDURE rates(v (mV)) {
    LOCAL a, b
    TABLE minf, hinf, mtau, htau FROM -120 TO 100 WITH 440
    a = 8.5/(1 + exp(-(v - 8)/12.5))
    b = 35/(1 + exp((v + 74)/14.5))
    minf = a/(a + b)
    mtau = 1/(a + b)
    a = 0.0015/(1 + exp((v + 29)/8))
    b = 0.0055/(1 + exp(-(v + 23)/8))
    hinf = a/(a + b)
    htau = 1/(a + b)
}
