TITLE Persistent sodium current, after Hay et al. (2011)

NEURON {
    THREADSAFE
    SUFFIX nap
    USEION na READ ena WRITE ina
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
    ena (mV)
    ina (mA/cm2)
    minf
    mtau (ms)
    hinf
    htau (ms)
}

STATE { m h }

BREAKPOINT {
    SOLVE states METHOD cnexp
    ina = gbar*m^3*h*(v - ena)
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
    LOCAL qt, a, b
    TABLE minf, hinf, mtau, htau FROM -120 TO 100 WITH 440
    qt = 2.3^((34 - 21)/10)
    a = 0.182*linoid(-(v + 38), 6)
    b = 0.124*linoid(v + 38, 6)
    minf = 1/(1 + exp(-(v + 52.6)/4.6))
    mtau = 6/(qt*(a + b))
    a = 2.88e-6*linoid(v + 17, 4.63)
    b = 6.94e-6*linoid(-(v + 64.4), 2.63)
    hinf = 1/(1 + exp((v + 48.8)/10))
    htau = 1/(qt*(a + b))
}

FUNCTION linoid(x (mV), y (mV)) (mV) {  : x/(exp(x/y) - 1)
    IF (fabs(x/y) < 1e-6) {
        linoid = y*(1 - x/y/2)
    } ELSE {
        linoid = x/(exp(x/y) - 1)
    }
}
