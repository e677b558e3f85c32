TITLE Persistent potassium current, after Hay et al. (2011)

NEURON {
    THREADSAFE
    SUFFIX kp
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
    ik = gbar*m^2*h*(v - ek)
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
    minf = 1/(1 + exp(-(v + 11)/12))
    hinf = 1/(1 + exp((v + 64)/11))
    IF (v < -60) {
        mtau = (1.25 + 175.03*exp(0.026*(v + 10)))/qt
    } ELSE {
        mtau = (1.25 + 13*exp(-0.026*(v + 10)))/qt
    }
    htau = (360 + (1010 + 24*(v + 65))*exp(-((v + 85)/48)^2))/qt
}
