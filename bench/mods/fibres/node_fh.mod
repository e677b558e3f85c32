TITLE Node of Xenopus, after Frankenhaeuser and Huxley (1964), 20 degC

NEURON {
    THREADSAFE
    SUFFIX node_fh
    NONSPECIFIC_CURRENT i
    RANGE pnabar, ppbar, pkbar, gl, el, nao, nai, ko, ki
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    pnabar = 8
    ppbar = 0.54
    pkbar = 1.2
    gl = 0.0303 (S/cm2)
    el = -69.974 (mV)
    nao = 114.5
    nai = 13.74
    ko = 2.5
    ki = 120
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    am (/ms) bm (/ms) ah (/ms) bh (/ms) an (/ms) bn (/ms) ap (/ms) bp (/ms)
}

STATE { m h n p }

BREAKPOINT {
    LOCAL x, e, drive
    SOLVE states METHOD cnexp
    x = v/25.4366
    e = exp(x)
    drive = 0.0964853*linoid(x, 1)
    i = -(pnabar*m^2*h + ppbar*p^2)*drive*(nao - nai*e) - pkbar*n^2*drive*(ko - ki*e) + gl*(v - el)
}

INITIAL {
    rates(v)
    m = am/(am + bm)
    h = ah/(ah + bh)
    n = an/(an + bn)
    p = ap/(ap + bp)
}

DERIVATIVE states {
    rates(v)
    m' = am*(1 - m) - bm*m
    h' = ah*(1 - h) - bh*h
    n' = an*(1 - n) - bn*n
    p' = ap*(1 - p) - bp*p
}

PROCEDURE rates(v (mV)) {
    LOCAL u
    u = v + 70
    am = 0.36*linoid(22 - u, 3)
    bm = 0.4*linoid(u - 13, 20)
    ah = 0.1*linoid(u + 10, 6)
    bh = 4.5/(1 + exp((45 - u)/10))
    an = 0.02*linoid(35 - u, 10)
    bn = 0.05*linoid(u - 10, 10)
    ap = 0.006*linoid(40 - u, 10)
    bp = 0.09*linoid(u + 25, 20)
}

FUNCTION linoid(x, y) {  : x/(exp(x/y) - 1)
    IF (fabs(x/y) < 1e-6) {
        linoid = y*(1 - x/y/2)
    } ELSE {
        linoid = x/(exp(x/y) - 1)
    }
}
