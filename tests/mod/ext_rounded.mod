: a TABLE with a row beside 0/0, which NEURON makes of rounding alone
NEURON { SUFFIX ext_rounded  NONSPECIFIC_CURRENT i  RANGE g  GLOBAL minf }
PARAMETER { g = 3e-4 (S/cm2) }
ASSIGNED { v (mV)  i (mA/cm2)  minf  mtau (ms) }
STATE { m }
INITIAL { rates(v)  m = minf }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*m*(v + 20) }
DERIVATIVE s { rates(v)  m' = (minf - m)/mtau }
PROCEDURE rates(u (mV)) { LOCAL a, b, w
    TABLE minf, mtau FROM -100 TO 70 WITH 1000
    w = u + 50
    IF (w == 40.1) { a = 0.28*5 } ELSE { a = 0.28*(w - 40.1)/(exp((w - 40.1)/5) - 1) }
    b = 0.32*exp(-w/20)
    mtau = 1/(a + b)
    minf = a/(a + b)
}
