: a calcium current
NEURON {
    SUFFIX ext_ca
    USEION ca READ eca WRITE ica
    RANGE gbar
}
PARAMETER { gbar = 1e-4 (S/cm2) }
ASSIGNED { v (mV) eca (mV) ica (mA/cm2) }
STATE { m }
BREAKPOINT {
    SOLVE states METHOD cnexp
    ica = gbar*m*m*(v - eca)
}
INITIAL { m = 1/(1 + exp(-(v + 30)/8)) }
DERIVATIVE states { m' = (1/(1 + exp(-(v + 30)/8)) - m)/2 }
