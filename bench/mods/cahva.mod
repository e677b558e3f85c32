TITLE High-voltage-activated calcium current, after Hay et al. (2011)

NEURON {
    THREADSAFE
    SUFFIX cahva
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
    LOCAL a, b
    TABLE minf, hinf, mtau, htau FROM -120 TO 100 WITH 440
    a = 0.055*linoid(-(v + 27), 3.8)
    b = 0.94*exp(-(v + 75)/17)
    minf = a/(a + b)
    mtau = 1/(a + b)
    a = 0.000457*exp(-(v + 13)/50)
    b = 0.0065/(exp(-(v + 15)/28) + 1)
    hinf = a/(a + b)
    htau = 1/(a + b)
}

FUNCTION linoid(x (mV), y (mV)) (mV) {  : x/(exp(x/y) - 1)
    IF (fabs(x/y) < 1e-6) {
        linoid = y*(1 - x/y/2)
    } ELSE {
        linoid = x/(exp(x/y) - 1)
    }
}
