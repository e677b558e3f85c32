TITLE Fluctuating conductances, after Destexhe, Rudolph, Fellous and Sejnowski (2001)

NEURON {
    POINT_PROCESS ou_conductance
    RANGE ge, gi
    NONSPECIFIC_CURRENT i
    RANDOM noise
}

UNITS {
    (mV) = (millivolt)
    (nA) = (nanoamp)
    (uS) = (microsiemens)
}

PARAMETER {
    ee = 0 (mV)
    ei = -75 (mV)
    ge0 = 0.0121 (uS)
    gi0 = 0.0573 (uS)
    stde = 0.003 (uS)
    stdi = 0.0066 (uS)
    taue = 2.728 (ms)
    taui = 10.49 (ms)
}

ASSIGNED {
    v (mV)
    i (nA)
    dt (ms)
    ge (uS)
    gi (uS)
    e1 (uS)
    i1 (uS)
}

INITIAL {
    e1 = 0
    i1 = 0
    ge = ge0
    gi = gi0
}

BREAKPOINT {
    SOLVE fluctuate
    i = positive(ge)*(v - ee) + positive(gi)*(v - ei)
}

PROCEDURE fluctuate() {
    e1 = exp(-dt/taue)*e1 + stde*sqrt(1 - exp(-2*dt/taue))*random_normal(noise)
    i1 = exp(-dt/taui)*i1 + stdi*sqrt(1 - exp(-2*dt/taui))*random_normal(noise)
    ge = ge0 + e1
    gi = gi0 + i1
}

FUNCTION positive(x (uS)) (uS) {
    positive = x
    if (x < 0) { positive = 0 }
}
