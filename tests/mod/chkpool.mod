: DERIVATIVE with cnexp: a current in the rate of a pool, which another current depends on.
NEURON { SUFFIX chkpool  NONSPECIFIC_CURRENT i, j  RANGE g, e, k, tau, rest, gk, ek }
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) (mM) = (milli/liter) }
PARAMETER {
    g = 0.0005 (S/cm2)  e = 120 (mV)  k = 0.2 (mM cm2/mA/ms)  tau = 4 (ms)  rest = 0.0001 (mM)
    gk = 0.002 (S/cm2)  ek = -90 (mV)
}
ASSIGNED { v (mV)  i (mA/cm2)  j (mA/cm2) }
STATE { m  ca (mM) }
INITIAL { m = 1/(1 + exp(-(v + 20)/9))  ca = rest }
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = g*m*(v - e)
    j = gk*ca/(ca + 0.002)*(v - ek)
}
DERIVATIVE states {
    m' = (1/(1 + exp(-(v + 20)/9)) - m)/0.5
    ca' = -k*i - (ca - rest)/tau
}
