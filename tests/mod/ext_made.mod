: a TABLE of what changes and is not in DEPEND, which stays as NEURON makes it first
NEURON { SUFFIX ext_made  NONSPECIFIC_CURRENT i  RANGE g, level, scale  GLOBAL base }
PARAMETER { g = 1e-4  base = 0.3 }
ASSIGNED { v i level scale }
STATE { m }
INITIAL { scale = scale + 0.25  rates(v)  m = level }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*(m + base)*(v + 60) }
DERIVATIVE s {
    rates(v)
    scale = scale*1.001
    m' = (level - m)/3
}
PROCEDURE rates(u) {
    TABLE level DEPEND base FROM -100 TO 100 WITH 400
    level = base + (1 + scale)/(1 + exp(-(u + 40)/9))
}
