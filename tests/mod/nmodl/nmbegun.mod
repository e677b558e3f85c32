: GLOBALs, and LOCALs of the file, that INITIAL sets of RANGE parameters: all have the last one's
NEURON { SUFFIX nmbegun  NONSPECIFIC_CURRENT i  RANGE g, size  GLOBAL shift, rate, part }
PARAMETER { g = 1e-4  size = 2 }
ASSIGNED { v i shift rate part[2] }
STATE { m }
LOCAL depth, pair[2]
INITIAL {
    rate = 1/(1 + size)
    part[0] = size/7
    part[1] = exp(-size)
    shift = 3*size + v/20
    depth = size/5
    pair[0] = 1 + depth
    pair[1] = size^2
    m = 0.1*size
}
BREAKPOINT {
    SOLVE s METHOD cnexp
    i = g*m*(v + 50 + shift + part[1])*depth
}
DERIVATIVE s { m' = rate*(part[0] - m*pair[0]) + pair[1]/100 }
