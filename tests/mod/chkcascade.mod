: DERIVATIVE with cnexp: each state follows the one written before it.
NEURON { SUFFIX chkcascade  NONSPECIFIC_CURRENT i  RANGE g, e, tau }
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }
PARAMETER { g = 0.002 (S/cm2)  e = -90 (mV)  tau = 1 (ms) }
ASSIGNED { v (mV)  i (mA/cm2) }
STATE { p q s }
INITIAL { p = 0  q = 0  s = 0 }
BREAKPOINT { SOLVE states METHOD cnexp  i = g*s*(v - e) }
DERIVATIVE states {
    p' = (1/(1 + exp(-(v + 40)/5)) - p)/tau
    q' = (p - q)/tau
    s' = (q - s)/tau
}
