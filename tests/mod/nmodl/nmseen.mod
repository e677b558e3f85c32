: a GLOBAL that events set and INITIAL alone reads
NEURON { POINT_PROCESS nmseen  NONSPECIFIC_CURRENT i  RANGE g  GLOBAL seen }
PARAMETER { g = 1e-3 }
ASSIGNED { v i seen }
STATE { m }
INITIAL { m = 0.1 + seen }
BREAKPOINT {
    SOLVE s METHOD cnexp
    i = g*m*(v + 50)
}
DERIVATIVE s { m' = -m/3 }
NET_RECEIVE(w) {
    m = m + w
    seen = 10*w
}
