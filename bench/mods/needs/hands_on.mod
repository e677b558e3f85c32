: A variable that all instances share: each sets it in turn, and a current reads the last one's.
NEURON { SUFFIX hands_on NONSPECIFIC_CURRENT i RANGE g GLOBAL minf }
PARAMETER { g = 1e-5 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) minf }
STATE { m }
INITIAL { rates() m = minf }
BREAKPOINT { SOLVE states METHOD cnexp
    i = g*m*minf*(v + 65)
}
DERIVATIVE states {
    rates()
    m' = (minf - m)/5
}
PROCEDURE rates() { minf = 1/(1 + exp(-(v + 40)/7)) }
