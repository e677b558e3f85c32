TITLE Node of a mammalian axon, after McIntyre, Richardson and Grill (2002)

NEURON {
    THREADSAFE
    SUFFIX node_mrg
    NONSPECIFIC_CURRENT i
    RANGE gnabar, gnapbar, gkbar, gl, ena, ek, el
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gnabar = 3 (S/cm2)
    gnapbar = 0.01 (S/cm2)
    gkbar = 0.08 (S/cm2)
    gl = 0.007 (S/cm2)
    ena = 50 (mV)
    ek = -90 (mV)
    el = -90 (mV)
}

ASSIGNED {
    v (mV)
    i (mA/cm2)
    celsius (degC)
    am (/ms) bm (/ms) ah (/ms) bh (/ms) ap (/ms) bp (/ms) as (/ms) bs (/ms)
}

STATE { m h p s }

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gnabar*m^3*h*(v - ena) + gnapbar*p^3*(v - ena) + gkbar*s*(v - ek) + gl*(v - el)
}

INITIAL {
    rates(v)
    m = am/(am + bm)
    h = ah/(ah + bh)
    p = ap/(ap + bp)
    s = as/(as + bs)
}

DERIVATIVE states {
    rates(v)
    m' = am*(1 - m) - bm*m
    h' = ah*(1 - h) - bh*h
    p' = ap*(1 - p) - bp*p
    s' = as*(1 - s) - bs*s
}

PROCEDURE rates(v (mV)) {
    LOCAL fast, slow, late
    fast = 2.2^((celsius - 20)/10)
    slow = 2.9^((celsius - 20)/10)
    late = 3^((celsius - 36)/10)
    am = fast*1.86*linoid(-(v + 21.4), 10.3)
    bm = fast*0.086*linoid(v + 25.7, 9.16)
    ah = slow*0.062*linoid(v + 114, 11)
    bh = slow*2.3/(1 + exp(-(v + 31.8)/13.4))
    ap = fast*0.01*linoid(-(v + 27), 10.2)
    bp = fast*0.00025*linoid(v + 34, 10)
    as = late*0.3/(1 + exp(-(v + 53)/5))
    bs = late*0.03/(1 + exp(-(v + 90)))
}

FUNCTION linoid(x (mV), y (mV)) (mV) {  : x/(exp(x/y) - 1)
    IF (fabs(x/y) < 1e-6) {
        linoid = y*(1 - x/y/2)
    } ELSE {
        linoid = x/(exp(x/y) - 1)
    }
}
