: sets variables of others by POINTERs after these are called: in BREAKPOINT, and in a DERIVATIVE
NEURON { POINT_PROCESS ext_says  RANGE x  POINTER out, level }
ASSIGNED { v (mV) out level }
STATE { x }
INITIAL { x = 1 }
BREAKPOINT {
    SOLVE states METHOD cnexp
    if (x < 1) { out = 1e-5*level*fabs(v + 55)/100 }
}
DERIVATIVE states {
    x' = (1 + 0.05*(v + 65) - x)/4 - 0.1*level
    level = 1 + 0.1*t + x
}
