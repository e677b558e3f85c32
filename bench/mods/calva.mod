TITLE Low-voltage-activated calcium current, after Hay et al. (2011)

NEURON {
    THREADSAFE
    SUFFIX calva
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
    ica = gbar*m^2*h*(v - eca)
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
    LOCAL qt
    TABLE minf, hinf, mtau, htau FROM -120 TO 100 WITH 440
    qt = 2.3^((34 - 21)/10)
    minf = 1/(1 + exp(-(v + 40)/6))
    hinf = 1/(1 + exp((v + 90)/6.4))
    mtau = (5 + 20/(1 + exp((v + 35)/5)))/qt
    htau = (20 + 50/(1 + exp((v + 50)/7)))/qt
}
