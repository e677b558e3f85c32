TITLE Transient potassium current, after Hay et al. (2011)

NEURON {
    THREADSAFE
    SUFFIX kt
    USEION k READ ek WRITE ik
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
    ek (mV)
    ik (mA/cm2)
    minf
    mtau (ms)
    hinf
    htau (ms)
}

STATE { m h }

BREAKPOINT {
    SOLVE states METHOD cnexp
    ik = gbar*m^4*h*(v - ek)
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
    minf = 1/(1 + exp(-(v + 10)/19))
    hinf = 1/(1 + exp((v + 76)/10))
    mtau = (0.34 + 0.92*exp(-((v + 81)/59)^2))/qt
    htau = (8 + 49*exp(-((v + 83)/23)^2))/qt
}
