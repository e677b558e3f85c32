: KINETIC with sparse: a channel of eight states, four closed or open and four inactivated.
NEURON { SUFFIX chkeight  NONSPECIFIC_CURRENT i  RANGE g, e, k, r }
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }
PARAMETER { g = 0.02 (S/cm2)  e = 50 (mV)  k = 3 (/ms)  r = 0.4 (/ms) }
ASSIGNED { v (mV)  i (mA/cm2)  a (/ms)  b (/ms)  c (/ms)  d (/ms) }
STATE { C1 C2 C3 O I1 I2 I3 I4 }
INITIAL { C1 = 0.6 C2 = 0.1 C3 = 0 O = 0 I1 = 0.2 I2 = 0.1 I3 = 0 I4 = 0 }
BREAKPOINT { SOLVE scheme METHOD sparse  i = g*O*(v - e) }
KINETIC scheme {
    rates(v)
    ~ C1 <-> C2 (3*a, b)
    ~ C2 <-> C3 (2*a, 2*b)
    ~ C3 <-> O (a, 3*b)
    ~ I1 <-> I2 (3*a, b)
    ~ I2 <-> I3 (2*a, 2*b)
    ~ I3 <-> I4 (a, 3*b)
    ~ C1 <-> I1 (c, d)
    ~ C2 <-> I2 (c, d)
    ~ C3 <-> I3 (c, d)
    ~ O <-> I4 (c, d)
}
PROCEDURE rates(v (mV)) {
    a = k*exp((v + 30)/20)
    b = k*exp(-(v + 30)/20)
    c = r*exp((v + 50)/60)
    d = r*exp(-(v + 50)/15)
}
