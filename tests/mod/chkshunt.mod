: POINT_PROCESS: a constant conductance whose gate opens at a given rate.
NEURON { POINT_PROCESS chkshunt  NONSPECIFIC_CURRENT i  RANGE g, e, k }
UNITS { (mV) = (millivolt) (nA) = (nanoamp) (uS) = (microsiemens) }
PARAMETER { g = 0 (uS)  e = -20 (mV)  k = 0.1 (/ms) }
ASSIGNED { v (mV)  i (nA) }
STATE { n }
INITIAL { n = 0 }
BREAKPOINT { SOLVE states METHOD cnexp  i = g*n*(v - e) }
DERIVATIVE states { n' = k*(1 - n) }
