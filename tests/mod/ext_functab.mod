: functions that hoc gives by tables: of one argument and of two, and a constant
NEURON { SUFFIX ext_functab  NONSPECIFIC_CURRENT i  RANGE g, m, minf, mtau, k }
PARAMETER { g = 2e-4 }
ASSIGNED { v i minf mtau k }
STATE { m }
FUNCTION_TABLE inf(v (mV))
FUNCTION_TABLE tau(v (mV), m) (ms)
FUNCTION_TABLE scale(x)
INITIAL { m = inf(v) }
BREAKPOINT {
    SOLVE s METHOD cnexp
    i = g*m*scale(m)*(v + 77)
}
DERIVATIVE s {
    minf = inf(v)
    mtau = tau(v, minf)
    k = scale(v)
    m' = (minf - m)/mtau
}
