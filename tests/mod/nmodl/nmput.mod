: a LOCAL of the file that only a PROCEDURE of hoc sets
NEURON { SUFFIX nmput  USEION k READ ek WRITE ik  GLOBAL calls }
ASSIGNED { v ik ek calls }
LOCAL depth
BREAKPOINT { ik = 1e-4*depth*(v - ek) }
PROCEDURE put(x) { depth = x  calls = calls + 1 }
