: KINETIC with sparse: two states that exchange quickly.
NEURON { SUFFIX chktwo  NONSPECIFIC_CURRENT i  RANGE g, e, kf, kb }
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }
PARAMETER { g = 0.0002 (S/cm2)  e = -20 (mV)  kf = 500 (/ms)  kb = 500 (/ms) }
ASSIGNED { v (mV)  i (mA/cm2) }
STATE { A B }
INITIAL { A = 1  B = 0 }
BREAKPOINT { SOLVE scheme METHOD sparse  i = g*A*(v - e) }
KINETIC scheme { ~ A <-> B (kf, kb) }
