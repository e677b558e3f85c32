TITLE Resurgent sodium current: 13 states, after Khaliq, Gouwens and Raman (2003)

NEURON {
    THREADSAFE
    SUFFIX nars
    USEION na READ ena WRITE ina
    RANGE gbar
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0 (S/cm2)
    gamma = 150 (/ms)
    delta = 40 (/ms)
    epsilon = 1.75 (/ms)
    con = 0.005 (/ms)
    coff = 0.5 (/ms)
    oon = 0.75 (/ms)
    ooff = 0.005 (/ms)
}

ASSIGNED {
    v (mV)
    ena (mV)
    ina (mA/cm2)
    up (/ms)
    down (/ms)
    free (/ms)
    aup
    adown
}

STATE { c1 c2 c3 c4 c5 o ob i1 i2 i3 i4 i5 i6 }

BREAKPOINT {
    SOLVE scheme METHOD sparse
    ina = gbar*o*(v - ena)
}

INITIAL {
    c1 = 0.8
    c2 = 0
    c3 = 0
    c4 = 0
    c5 = 0
    o = 0
    ob = 0
    i1 = 0.2
    i2 = 0
    i3 = 0
    i4 = 0
    i5 = 0
    i6 = 0
}

KINETIC scheme {
    up = 150*exp(v/20)
    down = 3*exp(-v/20)
    free = 0.03*exp(-v/25)
    aup = (oon/con)^0.25
    adown = (ooff/coff)^0.25
    ~ c1 <-> c2 (4*up, down)
    ~ c2 <-> c3 (3*up, 2*down)
    ~ c3 <-> c4 (2*up, 3*down)
    ~ c4 <-> c5 (up, 4*down)
    ~ c5 <-> o (gamma, delta)
    ~ o <-> ob (epsilon, free)
    ~ o <-> i6 (oon, ooff)
    ~ i1 <-> i2 (4*up*aup, down*adown)
    ~ i2 <-> i3 (3*up*aup, 2*down*adown)
    ~ i3 <-> i4 (2*up*aup, 3*down*adown)
    ~ i4 <-> i5 (up*aup, 4*down*adown)
    ~ i5 <-> i6 (gamma, delta)
    ~ c1 <-> i1 (con, coff)
    ~ c2 <-> i2 (con*aup, coff*adown)
    ~ c3 <-> i3 (con*aup^2, coff*adown^2)
    ~ c4 <-> i4 (con*aup^3, coff*adown^3)
    ~ c5 <-> i5 (con*aup^4, coff*adown^4)
    CONSERVE c1 + c2 + c3 + c4 + c5 + o + ob + i1 + i2 + i3 + i4 + i5 + i6 = 1
}
