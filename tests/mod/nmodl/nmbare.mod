: a variable that only a PROCEDURE of hoc sets, in a file without RANGE
NEURON { SUFFIX nmbare  USEION k READ ek WRITE ik }
ASSIGNED { v ik ek share }
BREAKPOINT { ik = 1e-4*share*(v - ek) }
PROCEDURE put(x) { share = x }
