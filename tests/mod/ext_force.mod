: a conductance from a file of NEURON's library scopmath
NEURON { POINT_PROCESS ext_force  ELECTRODE_CURRENT i  RANGE late }
PARAMETER { late = 0 (ms) }
ASSIGNED { i (nA) }
BREAKPOINT { i = stepforce(t - late, "ext_force.dat") }
