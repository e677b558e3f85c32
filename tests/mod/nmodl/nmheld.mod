: a TABLE that has a parameter which its PROCEDURE does not set
NEURON { SUFFIX nmheld  NONSPECIFIC_CURRENT i  RANGE g  GLOBAL minf, tau, hinf }
PARAMETER { g = 1e-4  tau = 5  p = 2 }
ASSIGNED { v i minf hinf dt }
STATE { m h }
INITIAL {
    rates(v)
    m = minf
    h = hinf
}
BREAKPOINT {
    SOLVE s METHOD cnexp
    i = g*(m + h)*(v + 50)
}
DERIVATIVE s {
    rates(v)
    m' = (minf - m)/tau
    h' = (hinf - h)/p
}
PROCEDURE rates(v) {
    TABLE minf, hinf, tau DEPEND dt, p FROM -100 TO 50 WITH 150
    minf = 1/(1 + exp(-(v + 40)/9))
    hinf = 1/(1 + exp((v + 60)/8))*p*dt/tau
}
