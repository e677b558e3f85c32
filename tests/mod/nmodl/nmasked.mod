: a FUNCTION that reads v, called by events alone: v is that of the last SOLVE
NEURON { POINT_PROCESS nmasked  NONSPECIFIC_CURRENT i  RANGE seen, g }
ASSIGNED { v i seen }
STATE { g }
INITIAL { g = 0 }
BREAKPOINT {
    SOLVE fall METHOD cnexp
    i = g*(v + 10)
}
DERIVATIVE fall { g' = -g/3 }
FUNCTION share() { share = 1/(1 + exp(-(v + 50)/9)) }
NET_RECEIVE (w) {
    seen = share()
    g = g + w*share()
}
