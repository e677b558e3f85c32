TITLE Fast potassium current, after Khaliq, Gouwens and Raman (2003)

NEURON {
    THREADSAFE
    SUFFIX kv3
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
    ik = gbar*m^4*(v - ek)
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
    minf = 1/(1 + exp(-(v + 24)/15.4))
    IF (v < -35) {
        mtau = (0.103 + 14.9*exp(0.035*v))/3
    } ELSE {
        mtau = (0.129 + 1/(exp((v + 100.7)/12.9) + exp(-(v - 56)/23.1)))/3
    }
}
