TITLE Calcium-gated potassium current: 6 states, after Hirschberg et al. (1998)

NEURON {
    THREADSAFE
    SUFFIX sk
    USEION ca READ cai
    USEION k READ ek WRITE ik
    RANGE gbar
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (mM) = (milli/liter)
    (S) = (siemens)
}

PARAMETER { gbar = 0 (S/cm2) }

ASSIGNED {
    v (mV)
    cai (mM)
    ek (mV)
    ik (mA/cm2)
}

STATE { c1 c2 c3 c4 o1 o2 }

BREAKPOINT {
    SOLVE scheme METHOD sparse
    ik = gbar*(o1 + o2)*(v - ek)
}

INITIAL {
    c1 = 1
    c2 = 0
    c3 = 0
    c4 = 0
    o1 = 0
    o2 = 0
}

KINETIC scheme {
    ~ c1 <-> c2 (200*cai, 0.08)
    ~ c2 <-> c3 (160*cai, 0.08)
    ~ c3 <-> c4 (80*cai, 0.2)
    ~ c3 <-> o1 (0.16, 1)
    ~ c4 <-> o2 (1.2, 0.1)
    CONSERVE c1 + c2 + c3 + c4 + o1 + o2 = 1
}
