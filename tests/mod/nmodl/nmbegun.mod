: GLOBALs that INITIAL sets of RANGE parameters: all have the last one's
NEURON { SUFFIX nmbegun  NONSPECIFIC_CURRENT i  RANGE g, size  GLOBAL shift, rate, part }
PARAMETER { g = 1e-4  size = 2 }
ASSIGNED { v i shift rate part[2] }
STATE { m }
INITIAL {
    rate = 1/(1 + size)
    part[0] = size/7
    part[1] = exp(-size)
    shift = 3*size + v/20
    m = 0.1*size
}
BREAKPOINT {
    SOLVE s METHOD cnexp
    i = g*m*(v + 50 + shift + part[1])
}
DERIVATIVE s { m' = rate*(part[0] - m) }
